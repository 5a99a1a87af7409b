//! Shows an experiment as it runs: one live line, which is updated during a run, and a permanent line for
//! each finished run.

use std::io::{IsTerminal, Write, stderr};

use mpdccp_lab::experiment::{Event, What};
use mpdccp_lab::summary::Run;
use mpdccp_lab::{Sample, Scenario};

pub(crate) struct Watch {
    duration_s: f64,
    paths: Vec<String>,
    live: bool,
    head: String,
    begun: bool,
    /// Whether the live line is currently on the screen.
    open: bool,
}

impl Watch {
    pub(crate) fn new(scenario: &Scenario) -> Watch {
        Watch {
            duration_s: scenario.duration().as_secs_f64(),
            paths: scenario.paths.iter().map(|p| p.name.as_ref().clone()).collect(),
            live: stderr().is_terminal(),
            head: String::new(),
            begun: false,
            open: false,
        }
    }

    /// Shows an event on standard error. Ignores errors.
    pub(crate) fn on(&mut self, event: Event<'_>) {
        if let What::Skipped(why) = event.what {
            eprintln!("skipped: {}: {why}", event.plan.variant.label.as_ref());
            return;
        }
        if let What::LeavesOut(flows) = event.what {
            eprintln!("skipping flows that this backend does not support: {flows}");
            return;
        }
        self.title();
        let number = format!("{} of {}", event.index + 1, event.total);
        let (label, cell) = (event.plan.variant.label.as_ref(), &event.plan.cell.name);
        self.head = format!("{number:>9}  {label:<12} {cell:<12}");
        match event.what {
            What::Skipped(_) | What::LeavesOut(_) => {}
            What::Begin => self.line("setting up ..."),
            What::Sample(sample) => {
                let text = self.sample(sample);
                self.line(&text);
            }
            What::Done { run, found } => {
                let text = self.done(run);
                self.stays(&format!("{text}{}", if found { " (stored)" } else { "" }));
            }
            What::Failed(why) => self.stays(&format!("failed: {why}")),
        }
    }

    fn title(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let sent = self.paths.iter().map(|p| format!("{p:>8}")).collect::<String>();
        eprintln!(
            "{:>9}  {:<12} {:<12} {:>12} {:>8} {:>8}{sent}",
            "run", "variant", "cell", "time", "received", "latency"
        );
        let units: String = self.paths.iter().map(|_| format!("{:>8}", "Mbit/s")).collect();
        eprintln!("{:>9}  {:<12} {:<12} {:>12} {:>8} {:>8}{units}", "", "", "", "s", "Mbit/s", "ms");
    }

    fn stays(&mut self, text: &str) {
        let clear = if self.live { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{} {text}", self.head);
        self.open = false;
    }

    /// Updates the live line. Does nothing if standard error is not a terminal.
    fn line(&mut self, text: &str) {
        if self.live {
            self.open = true;
            eprint!("{}", live_line(&self.head, text));
            let _ = stderr().flush();
        }
    }

    fn sample(&self, sample: &Sample) -> String {
        let time = format!("{:.0} of {:.0}", sample.t.as_secs_f64().min(self.duration_s), self.duration_s);
        let latency = sample.latency_ms.map_or("–".to_owned(), |ms| format!("{ms:.1}"));
        let paths: String = sample.path_mbps.iter().map(|mbps| format!("{mbps:>8.2}")).collect();
        format!("{time:>12} {:>8.2} {latency:>8}{paths}", sample.rx_mbps)
    }

    /// Formats the results of the last phase of a finished run.
    fn done(&self, run: &Run) -> String {
        let get = |name: &str| run.metrics.get(name).map_or("–".to_owned(), |v| format!("{v:.2}"));
        let tx = |p: &mpdccp_lab::summary::PathStats| {
            p.phases.last().map_or(String::new(), |ph| format!("{:>8.2}", ph.tx_mbps))
        };
        let paths: String = run.paths.iter().map(tx).collect();
        let (p95, lost) = (get("app_p95_ms"), get("lost_pct"));
        format!(
            "{:>12} {:>8} {:>8}{paths}   p95 {p95} ms, lost {lost} %",
            "last phase",
            get("rx_mbps"),
            get("app_p50_ms")
        )
    }
}

/// Formats the live line, which takes the place of the previous one. It must not wrap, because only its last
/// row would be replaced: an experiment with two paths needs more than 80 columns.
fn live_line(head: &str, text: &str) -> String {
    format!("\r\x1b[K\x1b[?7l{head} {text}\x1b[?7h")
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.open {
            eprintln!();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_line_does_not_wrap() {
        let line = live_line("1 of 2", "setting up ...");
        let text = line.strip_prefix("\r\x1b[K\x1b[?7l").and_then(|line| line.strip_suffix("\x1b[?7h"));
        assert_eq!(text, Some("1 of 2 setting up ..."));
    }
}
