//! A journal of the connections that a host may believe to be open, one per line. If this end is killed,
//! the next run reads from the journal which connections died.

use mpdccp_proxy::Tuple;

/// Bytes per line, including the line end. The longest possible line holds two IPv6 addresses with ports.
pub(crate) const LINE: usize = 96;

/// Formats the line for a connection; `None` gives an empty line.
pub(super) fn line(tuple: Option<Tuple>) -> String {
    let text = tuple.map_or_else(String::new, |tuple| format!("{} {}", tuple.from, tuple.to));
    format!("{text:<width$}\n", width = LINE - 1)
}

/// Parses all lines. An empty or invalid line gives `None`.
pub(super) fn read(text: &str) -> impl Iterator<Item = Option<Tuple>> {
    text.lines().map(|line| {
        let (from, to) = line.trim_end().split_once(' ')?;
        Some(Tuple { from: from.parse().ok()?, to: to.parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_one_length_and_are_read_again() {
        let longest = format!("[{0}]:65535", "ffff:".repeat(7) + "ffff");
        let tuples = [("10.0.0.1:1", "10.0.0.2:2"), (&longest, &longest)]
            .map(|(from, to)| Some(Tuple { from: from.parse().unwrap(), to: to.parse().unwrap() }));
        let all = [tuples[0], None, tuples[1]];
        let text: String = all.into_iter().map(line).collect();
        assert_eq!(text.len(), 3 * LINE);
        assert_eq!(read(&text).collect::<Vec<_>>(), all);
    }
}
