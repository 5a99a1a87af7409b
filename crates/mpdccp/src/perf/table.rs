//! Formats the table that perf prints for people.

use crate::perf::output::Unit;
use mpdccp_proto::SessionId;
use std::net::SocketAddr;

pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 * 100.0 / whole as f64 } else { 0.0 }
}

/// Formats an address. Native DCCP has no UDP port.
pub(crate) fn shown(at: SocketAddr) -> String {
    if at.port() == 0 { at.ip().to_string() } else { at.to_string() }
}

/// Formats the name of a session for the table.
pub(crate) fn name(session: SessionId) -> String {
    format!("[{:3}]", session.0)
}

/// Header of the table.
pub(crate) const HEADER: &str =
    "[ ID]        Seconds  Way        Transfer            Rate  Jitter/RTT  Lost/Total";

/// Counts of one direction over a time span, for one session or for all sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) bytes: u64,
    pub(crate) mbps: f64,
    /// A receiver's jitter or a sender's round-trip time.
    pub(crate) delay_ms: Option<f64>,
    pub(crate) lost: u64,
    pub(crate) total: u64,
}

impl Row {
    /// Returns the sum of two rows. The counts saturate, because a peer may report any number.
    pub(crate) fn add(self, other: Row) -> Row {
        Row {
            bytes: self.bytes.saturating_add(other.bytes),
            mbps: self.mbps + other.mbps,
            delay_ms: None,
            lost: self.lost.saturating_add(other.lost),
            total: self.total.saturating_add(other.total),
        }
    }

    /// Formats a line. `name` is the session's name, and `way` is the direction of the messages.
    pub(crate) fn text(&self, name: &str, (from, to): (f64, f64), way: &str, unit: Unit) -> String {
        let Row { bytes, mbps, delay_ms, lost, total } = *self;
        let delay = delay_ms.map_or_else(|| "-".into(), |ms| format!("{ms:.3} ms"));
        format!(
            "{name:<5} {:>14}  {way:<8} {:>10} {:>15} {delay:>11}  {lost}/{total} ({:.2} %)",
            format!("{from:.2}-{to:.2}"),
            size(bytes),
            unit.text(mbps),
            percent(lost, total),
        )
    }
}

/// A line of the table without the session: the direction of the messages, and the counts.
pub(crate) type Line = (&'static str, Row);

/// Sum of several sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) span: (f64, f64),
    pub(crate) lines: Vec<Line>,
}

impl Sum {
    pub(crate) fn add(&mut self, span: (f64, f64), lines: &[Line]) {
        self.span = (span.0.min(self.span.0).max(0.0), span.1.max(self.span.1));
        if self.lines.is_empty() {
            self.span = span;
        }
        for (way, row) in lines {
            match self.lines.iter_mut().find(|(other, _)| other == way) {
                Some((_, sum)) => *sum = sum.add(*row),
                None => self.lines.push((way, Row { delay_ms: None, ..*row })),
            }
        }
    }

    pub(crate) fn mbps(&self, way: &str) -> Option<f64> {
        self.lines.iter().find(|(other, _)| *other == way).map(|(_, row)| row.mbps)
    }
}

/// Formats a number of bytes in powers of 1024.
fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < units.len() {
        (size, unit) = (size / 1024.0, unit + 1);
    }
    format!("{size:.2} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_a_peers_counts_do_not_overflow() {
        let most = Row { bytes: u64::MAX, lost: u64::MAX, total: u64::MAX, ..Row::default() };
        assert_eq!(most.add(most), most);
    }

    #[test]
    fn rows_have_one_layout_and_a_hundred_characters() {
        let row = Row {
            bytes: 12_500_000_000,
            mbps: 9_999.0,
            delay_ms: Some(1_234.567),
            lost: 104_166,
            total: 10_416_666,
        };
        let line = row.text("[100]", (0.0, 10_000.0), "received", Unit::Mbit);
        assert!(line.len() <= 100, "{}: {line}", line.len());
        let short =
            Row { lost: 999, total: 999_999, ..row }.text("[100]", (0.0, 1000.0), "received", Unit::Mbit);
        assert!(short.len() <= 100 - " (omitted)".len(), "{}: {short}", short.len());
        assert_eq!(
            line.find(" MiB").or(line.find(" GiB")).unwrap() + 4,
            HEADER.find("Transfer").unwrap() + "Transfer".len()
        );
        assert_eq!(line.find(" Mbit/s").unwrap() + 7, HEADER.find("Rate").unwrap() + "Rate".len());
        assert_eq!(line.find("104166/").unwrap(), HEADER.find("Lost").unwrap());
        let sum = row.add(Row { delay_ms: None, ..row }).text("[SUM]", (0.0, 1.0), "sent", Unit::Mbit);
        assert_eq!(sum.find("Mbit/s"), Some(line.find("Mbit/s").unwrap()));
        let sizes = [0, 1000, 1024 * 1000, 5 << 30, 1 << 50].map(size);
        assert_eq!(sizes, ["0.00 KiB", "0.98 KiB", "0.98 MiB", "5.00 GiB", "1024.00 TiB"]);
    }
}
