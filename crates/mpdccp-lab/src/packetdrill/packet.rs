//! Parses the packets in scripts.

/// A TCP segment. Its numbers are relative to the initial sequence numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packet {
    /// Whether the script sends the segment, rather than expecting the model to send it.
    pub(super) injected: bool,
    /// Whether the ECN field of the IP header is ECN-capable, or `None` if the script does not say.
    pub(super) capable: Option<bool>,
    /// TCP flags, written as letters like those of tcpdump.
    pub(super) flags: String,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) ack: Option<u64>,
    pub(super) window: Option<u64>,
    pub(super) options: Options,
}

/// TCP options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) mss: Option<u64>,
    pub(super) sack_ok: bool,
    pub(super) scale: Option<u32>,
    pub(super) blocks: Vec<(u64, u64)>,
    /// The timestamp, and the echo of the peer's timestamp.
    pub(super) times: Option<(u32, u32)>,
}

impl Packet {
    pub(super) fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    pub(super) fn parse(text: &str) -> Result<Packet, String> {
        let injected = text.starts_with('<');
        let mut rest = text[1..].trim();
        let mut packet = Packet { injected, ..Packet::default() };
        if let Some(inside) = rest.strip_prefix('[') {
            let (field, after) = inside.split_once(']').ok_or("missing `]`")?;
            packet.capable = Some(match field.trim() {
                "ect0" | "ect01" => true,
                "noecn" => false,
                other => {
                    return Err(format!("unsupported IP field `{other}`; supported: ect0, ect01, noecn"));
                }
            });
            rest = after.trim();
        }
        let (fields, options) = match rest.split_once('<') {
            Some((fields, options)) => (fields, Some(options.trim().strip_suffix('>').ok_or("missing `>`")?)),
            None => (rest, None),
        };
        let mut words = fields.split_whitespace();
        packet.flags = words.next().unwrap_or_default().to_owned();
        if packet.flags.is_empty() || packet.flags.chars().any(|c| !"SFRP.EWA-".contains(c)) {
            return Err(format!("`{}`: expected TCP flags, such as `P.`", packet.flags));
        }
        let range = words.next().unwrap_or_default();
        (packet.start, packet.len) =
            sequence(range).ok_or_else(|| format!("`{range}`: expected FIRST:LAST(LENGTH)"))?;
        while let Some(word) = words.next() {
            let value = words
                .next()
                .and_then(|n| n.parse().ok())
                .ok_or_else(|| format!("`{word}`: expected a number"))?;
            match word {
                "ack" => packet.ack = Some(value),
                "win" => packet.window = Some(value),
                _ => return Err(format!("unsupported field `{word}`; supported: ack, win")),
            }
        }
        if let Some(options) = options.filter(|options| *options != "...") {
            packet.options = Options::parse(options)?;
        }
        Ok(packet)
    }
}

impl Options {
    fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for option in text.split(',').map(str::trim) {
            let words: Vec<&str> = option.split_whitespace().collect();
            let number = |at: usize| words.get(at).and_then(|n| n.parse::<u32>().ok());
            let understood = match words.first().copied().unwrap_or_default() {
                "nop" | "eol" => Some(()),
                "mss" => number(1).map(|mss| options.mss = Some(mss.into())),
                "sackOK" => {
                    options.sack_ok = true;
                    Some(())
                }
                "wscale" => number(1).filter(|n| *n <= 14).map(|scale| options.scale = Some(scale)),
                "sack" => words[1..]
                    .iter()
                    .map(|range| block(range))
                    .collect::<Option<_>>()
                    .map(|blocks| options.blocks = blocks),
                "TS" if words.get(1) == Some(&"val") && words.get(3) == Some(&"ecr") => {
                    number(2).zip(number(4)).map(|times| options.times = Some(times))
                }
                _ => None,
            };
            understood.ok_or_else(|| {
                format!("invalid TCP option `{option}`; supported: mss, sackOK, wscale, sack, TS val N ecr N, nop, eol")
            })?;
        }
        Ok(options)
    }
}

fn block(text: &str) -> Option<(u64, u64)> {
    let (first, end) = text.split_once(':')?;
    let block = (first.parse().ok()?, end.parse().ok()?);
    (block.0 < block.1).then_some(block)
}

/// Parses `first:end(length)`.
fn sequence(text: &str) -> Option<(u64, u64)> {
    let (range, len) = text.strip_suffix(')')?.split_once('(')?;
    let (first, end) = range.split_once(':')?;
    let (first, end, len): (u64, u64, u64) = (first.parse().ok()?, end.parse().ok()?, len.parse().ok()?);
    (first.checked_add(len) == Some(end)).then_some((first, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_with_options() {
        let syn =
            Packet::parse("< S 0:0(0) win 65535 <mss 1000,sackOK,TS val 100 ecr 0,nop,wscale 7>").unwrap();
        assert!(syn.injected && syn.has('S') && !syn.has('.'));
        assert_eq!((syn.options.mss, syn.options.scale, syn.options.sack_ok), (Some(1000), Some(7), true));
        assert_eq!((syn.window, syn.options.times), (Some(65_535), Some((100, 0))));
        let ack = Packet::parse("< . 1:1(0) ack 1001 win 257 <sack 2001:3001 4001:5001,nop,nop>").unwrap();
        assert_eq!((ack.ack, ack.options.blocks), (Some(1001), vec![(2001, 3001), (4001, 5001)]));
        let data = Packet::parse("> [ect0] PW. 1:1001(1000) ack 1 <...>").unwrap();
        assert_eq!(
            (data.injected, data.capable, data.start, data.len, data.has('W')),
            (false, Some(true), 1, 1000, true)
        );
    }

    #[test]
    fn wrong_packets() {
        for (text, error) in [
            ("< . 1:1(1) ack 1", "`1:1(1)`: expected FIRST:LAST(LENGTH)"),
            ("< x 1:1(0)", "`x`: expected TCP flags"),
            ("> . 1:1(0) ack", "`ack`: expected a number"),
            ("> . 1:1(0) urg 1", "unsupported field `urg`"),
            ("> [tos 3] . 1:1(0)", "unsupported IP field `tos 3`"),
            ("< . 1:1(0) ack 1 <sack 9:1>", "invalid TCP option `sack 9:1`"),
            ("< . 1:1(0) ack 1 <FO>", "invalid TCP option `FO`"),
            ("< . 1:1(0) ack 1 <nop", "missing `>`"),
        ] {
            let found = Packet::parse(text).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
