//! Parses the files of wg-quick(8).

/// A key, its value, and the number of the line they are on, counted from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: String,
}

/// A section with its entries, and the comment above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) line: usize,
    pub(super) comment: Option<String>,
    pub(super) entries: Vec<Entry>,
}

impl Section {
    /// Returns all values of a key. A list counts as several values.
    pub(super) fn all(&self, key: &str) -> Vec<&str> {
        let entries = self.entries.iter().filter(|entry| entry.key == key);
        entries.flat_map(|entry| entry.value.split(',')).map(str::trim).filter(|v| !v.is_empty()).collect()
    }

    /// Returns the last value of a key, which is the one that wg-quick uses.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.entries.iter().rev().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    }
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WgFile {
    pub(super) interface: Section,
    pub(super) peers: Vec<Section>,
}

const INTERFACE: [&str; 12] = [
    "privatekey",
    "listenport",
    "fwmark",
    "address",
    "dns",
    "mtu",
    "table",
    "preup",
    "postup",
    "predown",
    "postdown",
    "saveconfig",
];
const PEER: [&str; 5] = ["publickey", "presharedkey", "allowedips", "endpoint", "persistentkeepalive"];

/// Parses a file.
///
/// # Errors
/// Returns the first invalid line and the reason why it is invalid.
pub(super) fn parse(text: &str) -> Result<WgFile, String> {
    let mut file = WgFile::default();
    let mut section: Option<bool> = None;
    let mut comment = None;
    for (line, raw) in (1..).zip(text.lines()) {
        let (content, remark) = raw.split_once('#').map_or((raw, None), |(a, b)| (a, Some(b)));
        let content = content.trim();
        if content.is_empty() {
            let remark = remark.map(|remark| remark.trim_start_matches('#').trim().to_owned());
            comment = remark.filter(|remark| !remark.is_empty());
            continue;
        }
        match content.to_ascii_lowercase().as_str() {
            "[interface]" => {
                section = Some(false);
                file.interface.line = line;
                comment = None;
                continue;
            }
            "[peer]" => {
                section = Some(true);
                file.peers.push(Section { line, comment: comment.take(), entries: Vec::new() });
                continue;
            }
            other if other.starts_with('[') => {
                return Err(format!(
                    "line {line}: unknown section {content}, expected [Interface] or [Peer]"
                ));
            }
            _ => {}
        }
        let Some((key, value)) = content.split_once('=') else {
            return Err(format!("line {line}: `{content}` is not KEY = VALUE"));
        };
        let entry = Entry { line, key: key.trim().to_ascii_lowercase(), value: value.trim().to_owned() };
        let (known, into): (&[&str], _) = match section {
            None => {
                return Err(format!(
                    "line {line}: `{}` stands before [Interface]; move it into a section",
                    key.trim()
                ));
            }
            Some(false) => (&INTERFACE, Some(&mut file.interface)),
            Some(true) => (&PEER, file.peers.last_mut()),
        };
        if !known.contains(&entry.key.as_str()) {
            return Err(format!(
                "line {line}: unknown key `{}`, expected one of: {}",
                key.trim(),
                known.join(", ")
            ));
        }
        comment = None;
        if let Some(into) = into {
            into.entries.push(entry);
        }
    }
    match (file.interface.line, file.peers.is_empty()) {
        (0, _) => Err("the file has no [Interface]; give a configuration file of wg-quick".into()),
        (_, true) => Err("the file has no [Peer]; a tunnel needs at least one peer".into()),
        _ => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_lists_and_comments_are_read() {
        let file = parse("[Interface]\nPrivateKey = a=\naddress=10.0.0.2/24, fd00::2/64 # two\nAddress = 10.1.0.2/24\n\n# hub\n[peer]\nPublicKey=b=\n[Peer]\n").unwrap();
        assert_eq!(file.interface.get("privatekey"), Some("a="));
        assert_eq!(file.interface.all("address"), ["10.0.0.2/24", "fd00::2/64", "10.1.0.2/24"]);
        assert_eq!(file.peers.len(), 2);
        assert_eq!((file.peers[0].comment.as_deref(), file.peers[1].comment.as_deref()), (Some("hub"), None));
    }

    #[test]
    fn errors_name_their_line() {
        for (text, words) in [
            ("", "no [Interface]"),
            ("[Interface]\n", "no [Peer]"),
            ("PrivateKey = a\n", "line 1: `PrivateKey` stands before [Interface]; move it into a section"),
            ("[Interface]\nAdress = 1\n", "line 2: unknown key `Adress`"),
            ("[Interface]\n[Pear]\n", "line 2: unknown section [Pear]"),
            ("[Interface]\nhello\n", "line 2: `hello` is not KEY = VALUE"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
