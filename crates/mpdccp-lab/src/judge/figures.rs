//! Results of one run that the judge compares.

use core::time::Duration;

use mpdccp_units::Time;
use serde::{Deserialize, Serialize};

use super::criterion::PACKET;
use super::random_links::Point;
use super::text::UPLOAD;
use crate::estimate::{middle, sorted};
use crate::record::seconds;
use crate::summary::Latency;
use crate::{FlowRecord, Plan, RunRecord};

/// Results of a run over the judged time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Rate received by each flow, Mbit/s.
    pub(super) mbps: Vec<f64>,
    /// 95th percentile of the first flow's latency on the link, in ms.
    pub(super) p95_ms: f64,
    /// Fraction of the first flow's packets that did not arrive.
    pub(super) lost: f64,
    /// Fraction of the first flow's offered data that was delivered, and the 95th percentile of its transfer
    /// times in ms. A transfer is a frame, a burst or a single packet. Its time runs from its start to the
    /// arrival of its last delivered packet.
    pub(super) delivered: f64,
    pub(super) app_p95_ms: f64,
    /// 95th percentile, in ms, of the completion time of competing short flows, or 0 if there are none.
    pub(super) short_p95_ms: f64,
    /// Rate received by the first flow before the judged time, in Mbit/s.
    pub(super) start_mbps: f64,
    /// Mean capacity of the link, Mbit/s.
    pub(super) capacity_mbps: f64,
}

/// Returns the results of a run at `point`.
pub(super) fn figures(point: &Point, plan: &Plan<'_>, run: &RunRecord) -> Figures {
    let (from, to) = (point.settle_s, point.end_s);
    let judged = |t: f64| (from..to).contains(&t);
    // An empty sum is -0; `abs` turns it into 0.
    let rate = |bytes: f64, s: f64| bytes.abs() * 8.0 / 1e6 / s;
    let received = |flow: &FlowRecord, when: &dyn Fn(f64) -> bool| -> f64 {
        flow.received
            .iter()
            .filter(|p| when(seconds(run, p.at)))
            .map(|p| f64::from(p.bytes))
            .fold(0.0, |sum, bytes| sum + bytes)
    };
    let compared = run.flows.iter().filter(|flow| flow.name != UPLOAD);
    let mbps = compared.map(|flow| rate(received(flow, &judged), to - from)).collect();
    let own = |p: &&crate::LinkPacket| {
        judged(seconds(run, p.entered)) && p.bytes > 200 && p.data.is_none_or(|(flow, _)| flow == 0)
    };
    let packets: Vec<&crate::LinkPacket> =
        run.paths.iter().flat_map(|p| &p.forward.packets).filter(own).collect();
    let delays: Vec<f64> = packets.iter().filter_map(|p| p.delay_ms()).collect();
    let lost = 1.0 - delays.len() as f64 / (packets.len() as f64).max(1.0);
    // If no packet arrived, the latency is the whole judged time.
    let latency = |flow: &FlowRecord| {
        let end = run.start + Duration::from_secs_f64(to);
        let judged =
            transfers(flow, point.pause_s).into_iter().filter(|(begin, _)| judged(seconds(run, *begin)));
        // A transfer of a single packet that did not arrive counts only in `delivered`.
        let whole = point.pause_s > 0.0 || flow.kind == "short";
        let waited = judged.filter_map(|(begin, arrived)| {
            Some(arrived.or(whole.then_some(end))?.since(begin).as_secs_f64() * 1e3)
        });
        Latency::of(waited).map_or((to - from) * 1e3, |ms| ms.p95)
    };
    let (mut delivered, mut app_p95_ms, mut start_mbps) = (0.0, 0.0, 0.0);
    if let Some(flow) = run.flows.first() {
        start_mbps = rate(received(flow, &|t| (0.0..from).contains(&t)), from);
        let offered = flow.sent.iter().filter(|p| judged(seconds(run, p.at))).count();
        let mut came: Vec<u64> = flow.received.iter().map(|p| p.seq).collect();
        came.sort_unstable();
        came.dedup();
        let sent_in = |seq: &&u64| flow.sent.get(**seq as usize).is_some_and(|p| judged(seconds(run, p.at)));
        delivered = came.iter().filter(sent_in).count() as f64 / (offered as f64).max(1.0);
        app_p95_ms = latency(flow);
    }
    let short = run.flows.iter().find(|flow| flow.kind == "short");
    Figures {
        mbps,
        p95_ms: Latency::of(delays.into_iter()).map_or(0.0, |ms| ms.p95),
        lost,
        delivered,
        app_p95_ms,
        short_p95_ms: short.map_or(0.0, latency),
        start_mbps,
        capacity_mbps: capacity(point, plan),
    }
}

/// Returns the start of each transfer of a flow, and the time at which the transfer's last packet arrived.
/// This time is `None` if no packet of the transfer arrived. A transfer ends with a pause of at least
/// `pause_s`. If `pause_s` is 0, each packet is a transfer.
fn transfers(flow: &FlowRecord, pause_s: f64) -> Vec<(Time, Option<Time>)> {
    let mut arrived = vec![None; flow.sent.len()];
    for p in &flow.received {
        if let Some(first) = arrived.get_mut(p.seq as usize) {
            first.get_or_insert(p.at);
        }
    }
    let mut all: Vec<(Time, Option<Time>)> = Vec::new();
    let mut before = None;
    for (sent, arrived) in flow.sent.iter().zip(arrived) {
        let since = before.replace(sent.at).map(|before| sent.at.since(before).as_secs_f64());
        match all.last_mut().filter(|_| since.is_some_and(|s| s < pause_s)) {
            Some((_, last)) => *last = arrived.max(*last),
            None => all.push((sent.at, arrived)),
        }
    }
    all
}

/// Returns the mean rate, in Mbit/s, at which the link can carry full packets during the judged time.
fn capacity(point: &Point, plan: &Plan<'_>) -> f64 {
    let path = plan.paths().swap_remove(0);
    let course = path.course_with_models(point.end_s);
    let mut bits = 0.0;
    for (i, (at, ways)) in course.iter().enumerate() {
        let until = course.get(i + 1).map_or(point.end_s, |next| next.0);
        let lasts = until.min(point.end_s) - at.max(point.settle_s);
        let way = &ways[0];
        if lasts <= 0.0 || !way.is_up() {
            continue;
        }
        let mut rate = way.mean_rate().bps() as f64;
        if let Some(a) = way.aggregation {
            let burst = f64::from(a.packets) * PACKET * 8.0;
            rate = burst / (a.access.as_secs_f64() + burst / rate.max(1.0));
        }
        rate = way.policer.map_or(rate, |p| rate.min(p.rate.bps() as f64));
        bits += rate * lasts * (1.0 - point.own_loss);
    }
    bits / 1e6 / (point.end_s - point.settle_s)
}

/// Returns the median of each value of several runs.
pub(super) fn median<'a>(runs: impl Iterator<Item = &'a Figures>) -> Figures {
    let runs: Vec<&Figures> = runs.collect();
    let of =
        |value: &dyn Fn(&Figures) -> f64| middle(&sorted(runs.iter().map(|run| value(run)))).unwrap_or(0.0);
    let flows = runs.first().map_or(0, |run| run.mbps.len());
    Figures {
        mbps: (0..flows).map(|i| of(&|f| f.mbps.get(i).copied().unwrap_or(0.0))).collect(),
        p95_ms: of(&|f| f.p95_ms),
        lost: of(&|f| f.lost),
        delivered: of(&|f| f.delivered),
        app_p95_ms: of(&|f| f.app_p95_ms),
        short_p95_ms: of(&|f| f.short_p95_ms),
        start_mbps: of(&|f| f.start_mbps),
        capacity_mbps: of(&|f| f.capacity_mbps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fate, LinkPacket, LinkRecord, PathRecord, ReceivedPacket, Scenario, SentPacket};

    #[test]
    fn a_transfer_lasts_until_its_last_packet() {
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        let sent = |at| SentPacket { at: ms(at), bytes: 1 };
        let received = |seq, at| ReceivedPacket { seq, at: ms(at), bytes: 1 };
        let flow = FlowRecord {
            sent: [0, 1, 2, 50, 51, 100].map(sent).to_vec(),
            // Packet 1 arrives twice, after packet 0. Packets 2 and 5 do not arrive.
            received: vec![
                received(0, 30),
                received(1, 40),
                received(1, 45),
                received(3, 80),
                received(4, 81),
            ],
            ..FlowRecord::default()
        };
        let frames = [(ms(0), Some(ms(40))), (ms(50), Some(ms(81))), (ms(100), None)];
        assert_eq!(transfers(&flow, 0.02), frames);
        assert_eq!(transfers(&flow, 0.0).len(), 6);
    }

    /// Returns the results of a run at a point that is judged for two seconds.
    fn judged(run: &RunRecord) -> Figures {
        let point =
            Point { mbps: 1.0, rtt_ms: 10.0, queue: 9_000, end_s: 2.0, pause_s: 0.1, ..Point::default() };
        let scenario = Scenario::parse("point", &point.scenario(false, false)).unwrap();
        let variant = scenario.variant("ccid5").unwrap();
        let plan = Plan { scenario: &scenario, variant, cell: scenario.headline(), repeat: 0, seed: 1 };
        figures(&point, &plan, run)
    }

    #[test]
    fn one_late_packet_of_twenty_is_above_the_95th_percentile() {
        let packet = |ms| LinkPacket {
            entered: Time::ZERO,
            fate: Fate::Delivered(Time::from_millis(ms)),
            bytes: 1_300,
            data: None,
            queue_bytes: 0,
            ce: false,
        };
        let forward = LinkRecord { packets: (1..=20).map(packet).collect(), ..LinkRecord::default() };
        let path = PathRecord { name: "link".to_owned(), forward, reverse: LinkRecord::default() };
        assert_eq!(judged(&RunRecord { paths: vec![path], ..RunRecord::default() }).p95_ms, 19.0);
    }

    #[test]
    fn a_transfer_of_which_nothing_arrives_lasts_until_the_end() {
        let flow =
            FlowRecord { sent: vec![SentPacket { at: Time::ZERO, bytes: 1 }], ..FlowRecord::default() };
        let mut short = FlowRecord { kind: "short".to_owned(), ..flow.clone() };
        short.sent[0].at = Time::from_millis(500);
        let run = RunRecord { flows: vec![flow, short], ..RunRecord::default() };
        let frames = judged(&run);
        assert_eq!((frames.app_p95_ms, frames.short_p95_ms), (2_000.0, 1_500.0));
    }

    #[test]
    fn each_value_has_its_own_median() {
        let run = |a: f64, p95_ms| Figures { mbps: vec![a, 10.0 - a], p95_ms, ..Figures::default() };
        let runs = [run(1.0, 5.0), run(2.0, 1.0), run(9.0, 2.0)];
        let median = median(runs.iter());
        assert_eq!((median.mbps, median.p95_ms), (vec![2.0, 8.0], 2.0));
    }
}
