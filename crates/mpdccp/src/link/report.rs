//! Counts the packets of each direction, for one report per second.

use hdrhistogram::Histogram;
use linkem_net::{Delivered, Recorder};
use mpdccp_linkem::{Stats, Verdict};
use mpdccp_units::{Duration, Time};
use serde::Serialize;

/// Counters of one direction.
pub(super) struct Meter {
    /// How late packets departed after their due time, in nanoseconds.
    lateness: Option<Histogram<u64>>,
    refused: u64,
    /// Longest queue in the interval, in bytes. The queue at the end of the previous interval counts, too.
    queue: u64,
    /// The link's counters at the time of the last report.
    before: Stats,
}

/// Counts of one direction over one interval.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Rate offered to the link, counted in IP bytes.
    offered_mbps: f64,
    /// Rate delivered by the link, counted in IP bytes.
    delivered_mbps: f64,
    /// Packets delivered.
    delivered: u64,
    /// Packets dropped because the queue was full.
    overflow: u64,
    /// Packets dropped early by the queue discipline.
    early: u64,
    /// Packets dropped by the policer.
    policed: u64,
    /// Acknowledgements dropped because a later one was queued.
    thinned: u64,
    /// Packets lost on the wire.
    lost: u64,
    /// Packets that arrived twice.
    duplicated: u64,
    /// Packets with a CE mark.
    ce_marked: u64,
    /// Packets that the receiving interface refused.
    refused: u64,
    /// Longest queue in the interval, in bytes.
    queue_max_bytes: u64,
    /// How late packets left because this machine was busy, in microseconds; null if no packet left.
    late_p50_us: Option<f64>,
    late_p99_us: Option<f64>,
    late_max_us: Option<f64>,
}

impl Default for Meter {
    fn default() -> Meter {
        // Store the lateness with three significant digits. Anything above one second counts as one second.
        let lateness = Histogram::new_with_bounds(1, 1_000_000_000, 3).ok();
        Meter { lateness, refused: 0, queue: 0, before: Stats::default() }
    }
}

impl Recorder for Meter {
    type Mark = ();

    fn on_packet(&mut self, _now: Time, _packet: &[u8]) {}

    fn on_verdict(&mut self, _verdict: Verdict, queued: u64) {
        self.queue = self.queue.max(queued);
    }

    fn on_delivered(&mut self, delivered: Delivered<()>) {
        let late = delivered.now.since(delivered.due).as_nanos();
        if let Some(lateness) = &mut self.lateness {
            lateness.saturating_record(u64::try_from(late).unwrap_or(u64::MAX));
        }
    }

    fn on_refused(&mut self, (): ()) {
        self.refused += 1;
    }
}

impl Meter {
    /// Returns the counts since the last report, which was `elapsed` ago. The queue now holds `queued` bytes.
    pub(super) fn report(&mut self, stats: &Stats, queued: u64, elapsed: Duration) -> Report {
        let before = std::mem::replace(&mut self.before, *stats);
        let mbps = |now: u64, before: u64| (now - before) as f64 * 8e-6 / elapsed.as_secs_f64().max(1e-9);
        let lateness = self.lateness.as_ref().filter(|lateness| !lateness.is_empty());
        let late_us = |quantile| lateness.map(|lateness| lateness.value_at_quantile(quantile) as f64 / 1e3);
        let report = Report {
            offered_mbps: mbps(stats.offered.bytes, before.offered.bytes),
            delivered_mbps: mbps(stats.delivered.bytes, before.delivered.bytes),
            delivered: stats.delivered.packets - before.delivered.packets,
            overflow: stats.overflow.packets - before.overflow.packets,
            early: stats.early.packets - before.early.packets,
            policed: stats.policed.packets - before.policed.packets,
            thinned: stats.thinned.packets - before.thinned.packets,
            lost: stats.lost.packets - before.lost.packets,
            duplicated: stats.duplicated.packets - before.duplicated.packets,
            ce_marked: stats.ce_marked - before.ce_marked,
            refused: std::mem::take(&mut self.refused),
            queue_max_bytes: std::mem::replace(&mut self.queue, queued),
            late_p50_us: late_us(0.5),
            late_p99_us: late_us(0.99),
            late_max_us: late_us(1.0),
        };
        if let Some(lateness) = &mut self.lateness {
            lateness.reset();
        }
        report
    }
}

impl Report {
    /// Formats the report as text.
    pub(super) fn text(&self) -> String {
        let us = |us: Option<f64>| us.map_or("-".into(), |us| format!("{us:.0}"));
        let mut line = format!(
            "{:8.3} of {:8.3} Mbit/s, queue {:>7} B, late {}/{}/{} us",
            self.delivered_mbps,
            self.offered_mbps,
            self.queue_max_bytes,
            us(self.late_p50_us),
            us(self.late_p99_us),
            us(self.late_max_us),
        );
        for (count, what) in [
            (self.overflow, "overflowed"),
            (self.early, "dropped early"),
            (self.policed, "policed"),
            (self.thinned, "thinned"),
            (self.lost, "lost"),
            (self.duplicated, "duplicated"),
            (self.ce_marked, "marked"),
            (self.refused, "refused"),
        ] {
            if count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpdccp_linkem::Count;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_interval_begins_with_the_queue_of_the_one_before() {
        let mut meter = Meter::default();
        meter.on_verdict(Verdict::Queued, 9_000);
        // No packet arrives after the first report, and the queue drains.
        let longest = [6_000, 0, 0].map(|left| meter.report(&Stats::default(), left, SECOND).queue_max_bytes);
        assert_eq!(longest, [9_000, 6_000, 0]);
    }

    #[test]
    fn the_page_has_all_keys() {
        let page = include_str!("../../../../docs/link.md");
        let report = Meter::default().report(&Stats::default(), 0, SECOND);
        let report = serde_json::to_value(report).unwrap();
        for key in report.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{key}`")), "{key}");
        }
    }

    #[test]
    fn packets_that_do_not_come_out_are_explained() {
        let policed = Count { packets: 3, bytes: 3_000 };
        let offered = Count { packets: 5, bytes: 5_000 };
        let stats = Stats { offered, policed, ..Stats::default() };
        let report = Meter::default().report(&stats, 0, SECOND);
        assert!(report.text().ends_with(", 3 policed"), "{}", report.text());
    }
}
