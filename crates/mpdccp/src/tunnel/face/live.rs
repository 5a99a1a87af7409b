//! `tunnel status --watch` shows the paths with their rates, and updates them every second.

use crate::error::Error;
use crate::tunnel::face::control;
use mpdccp_tunnel::status::{PathReport, Status};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);
/// Number of points in a sparkline.
const POINTS: usize = 40;
/// Moves the cursor to the top left. Each line is cleared only as it is redrawn, which avoids flicker.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\n";
const CLEAR_REST: &str = "\x1b[J";

/// A path's last report and its recent rates.
#[derive(Default)]
struct History {
    last: Option<PathReport>,
    /// Sum of the rates in both directions, in Mbit/s, for each update.
    rates: VecDeque<f64>,
}

/// Computes rates from the difference between two statuses.
#[derive(Default)]
pub(crate) struct Live {
    paths: BTreeMap<(String, String), History>,
}

impl Live {
    /// Formats a status that is `gap` newer than the previous one.
    pub(crate) fn draw(&mut self, status: &Status, gap: Duration) -> String {
        let mut out = format!(
            "{} ({}, MTU {}, up {:.0} s)   press Ctrl-C to quit\n",
            status.interface, status.role, status.mtu, status.uptime_s
        );
        for peer in &status.peers {
            // Ignore the result: writing to a string cannot fail.
            let _ = writeln!(out, "\npeer {}: {}", peer.name, peer.state);
            if let Some(queue) = &peer.queue {
                let _ = writeln!(out, "  queue {} packets, {:.1} ms", queue.packets, queue.oldest_ms);
            }
            let _ = writeln!(
                out,
                "  {:<12} {:<8} {:>4} {:>9} {:>9} {:>7} {:>7}  Mbit/s, both ways",
                "path", "state", "prio", "up", "down", "loss %", "rtt ms"
            );
            for path in &peer.paths {
                out.push_str(&self.line(&peer.name, path, gap));
            }
        }
        out
    }

    fn line(&mut self, peer: &str, path: &PathReport, gap: Duration) -> String {
        let history = self.paths.entry((peer.to_owned(), path.name.clone())).or_default();
        // If the path has reconnected, its counters have restarted at zero, so the last ones do not apply.
        let last = history.last.replace(path.clone()).filter(|last| last.sent_bytes <= path.sent_bytes);
        let mbps = |a: u64, b: u64| a.saturating_sub(b) as f64 * 8e-6 / gap.as_secs_f64().max(1e-3);
        let (up, down, loss) = last.map_or((0.0, 0.0, 0.0), |last| {
            let sent = path.sent_packets.saturating_sub(last.sent_packets).max(1);
            let loss = path.lost_packets.saturating_sub(last.lost_packets) as f64 * 100.0 / sent as f64;
            (mbps(path.sent_bytes, last.sent_bytes), mbps(path.received_bytes, last.received_bytes), loss)
        });
        history.rates.push_back(up + down);
        if history.rates.len() > POINTS {
            history.rates.pop_front();
        }
        let rtt = path.srtt_ms.map_or("-".into(), |ms| format!("{ms:.1}"));
        let why = path.why.as_deref().unwrap_or_default();
        format!(
            "  {:<12} {:<8} {:>4} {up:>9.2} {down:>9.2} {loss:>7.1} {rtt:>7}  {}{why}\n",
            path.name,
            path.state,
            path.priority,
            sparkline(&history.rates)
        )
    }
}

/// Draws the rates as bars, relative to the largest rate.
fn sparkline(rates: &VecDeque<f64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = rates.iter().copied().fold(0.0, f64::max);
    let bar =
        |rate: &f64| if most > 0.0 { BARS[((rate / most * 7.0).round() as usize).min(7)] } else { BARS[0] };
    rates.iter().map(bar).collect()
}

/// Shows the status until Ctrl-C is pressed or the tunnel ends.
pub(crate) fn watch(socket: &Path) -> Result<(), Error> {
    let (mut live, mut last) = (Live::default(), Instant::now());
    let terminal = std::io::stdout().is_terminal();
    if terminal {
        // Clear the whole screen once at the start.
        print!("\x1b[2J");
    }
    loop {
        let status = control::status(socket, None)?;
        let picture = live.draw(&status, last.elapsed());
        last = Instant::now();
        print!("{}", frame(&picture, terminal));
        std::io::stdout().flush()?;
        std::thread::sleep(EVERY);
    }
}

/// Returns what to print to show the picture: on a terminal, in place of the previous one.
fn frame(picture: &str, terminal: bool) -> String {
    match terminal {
        true => format!("{HOME}{}{CLEAR_REST}", picture.replace('\n', CLEAR_LINE)),
        false => format!("{picture}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpdccp_tunnel::status::PeerStatus;

    #[test]
    fn only_terminals_get_escape_sequences() {
        assert_eq!(frame("a\nb\n", false), "a\nb\n\n");
        assert_eq!(frame("a\n", true), "\x1b[Ha\x1b[K\n\x1b[J");
    }

    #[test]
    fn rates_are_of_the_time_between_and_start_anew_with_the_path() {
        let picture = |live: &mut Live, sent_bytes: u64, lost: u64| {
            let path = PathReport {
                name: "dsl".into(),
                state: "up".into(),
                sent_bytes,
                sent_packets: sent_bytes / 1000,
                lost_packets: lost,
                ..PathReport::default()
            };
            let peer = PeerStatus { paths: vec![path], ..PeerStatus::idle("hub") };
            live.draw(&Status { peers: vec![peer], ..Status::default() }, Duration::from_secs(2))
        };
        let mut live = Live::default();
        assert!(picture(&mut live, 1_000_000, 0).contains(" 0.00 "));
        let second = picture(&mut live, 3_500_000, 50);
        assert!(second.contains(" 10.00 ") && second.contains(" 2.0 ") && second.contains("▁█"), "{second}");
        assert!(picture(&mut live, 1_000, 0).contains(" 0.00 "), "a new connection");
    }
}
