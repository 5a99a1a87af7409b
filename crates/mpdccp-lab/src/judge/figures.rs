//! Results of one run that the judge compares.

use serde::{Deserialize, Serialize};

use super::criterion::PACKET;
use super::random_links::Point;
use crate::record::{Fate, seconds};
use crate::{Plan, RunRecord};

/// The judge compares this quantile of latencies.
const P95: f64 = 0.95;

/// Results of a run over the judged time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Rate received by each flow, Mbit/s.
    pub(super) mbps: Vec<f64>,
    /// 95th percentile of the first flow's latency on the link, ms.
    pub(super) p95_ms: f64,
    /// Fraction of the first flow's packets that did not arrive.
    pub(super) lost: f64,
    /// Fraction of the first flow's offered data that was delivered, and 95th percentile of this data's
    /// latency from source to receiver, ms.
    pub(super) delivered: f64,
    pub(super) app_p95_ms: f64,
    /// 95th percentile of the completion time of competing short flows, ms; 0 without any.
    pub(super) short_p95_ms: f64,
    /// Rate received by the first flow before the judged time, Mbit/s.
    pub(super) start_mbps: f64,
    /// Mean capacity of the link, Mbit/s.
    pub(super) capacity_mbps: f64,
}

/// The results of a run at `point`.
pub(super) fn figures(point: &Point, plan: &Plan<'_>, run: &RunRecord) -> Figures {
    let (from, to) = (point.settle_s, point.end_s);
    let judged = |t: f64| (from..to).contains(&t);
    // `abs`, because an empty sum is -0.
    let rate = |bytes: f64, s: f64| bytes.abs() * 8.0 / 1e6 / s;
    let received = |flow: &crate::FlowRecord, when: &dyn Fn(f64) -> bool| -> f64 {
        flow.received
            .iter()
            .filter(|p| when(seconds(run, p.at)))
            .map(|p| f64::from(p.bytes))
            .fold(0.0, |sum, bytes| sum + bytes)
    };
    let mbps = run.flows.iter().map(|flow| rate(received(flow, &judged), to - from)).collect();
    let own = |p: &&crate::LinkPacket| {
        judged(seconds(run, p.entered)) && p.bytes > 200 && p.data.is_none_or(|(flow, _)| flow == 0)
    };
    let packets: Vec<&crate::LinkPacket> =
        run.paths.iter().flat_map(|p| &p.forward.packets).filter(own).collect();
    let delays = packets.iter().filter_map(|p| match p.fate {
        Fate::Delivered(at) => Some(at.since(p.entered).as_secs_f64() * 1e3),
        Fate::QueueDrop | Fate::Lost => None,
    });
    let delays: Vec<f64> = delays.collect();
    let lost = 1.0 - delays.len() as f64 / (packets.len() as f64).max(1.0);
    // If no packet arrived, the latency is the whole judged time.
    let latency = |flow: &crate::FlowRecord| {
        let waited = flow.received.iter().filter_map(|p| {
            let sent = flow.sent.get(p.seq as usize)?;
            judged(seconds(run, sent.at)).then(|| p.at.since(sent.at).as_secs_f64() * 1e3)
        });
        quantile(waited.collect(), P95).unwrap_or((to - from) * 1e3)
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
        p95_ms: quantile(delays, P95).unwrap_or(0.0),
        lost,
        delivered,
        app_p95_ms,
        short_p95_ms: short.map_or(0.0, latency),
        start_mbps,
        capacity_mbps: capacity(point, plan),
    }
}

/// Mean rate at which the link can carry full packets during the judged time, Mbit/s.
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

/// The quantile `q` of the values; `None` without values.
pub(super) fn quantile(mut values: Vec<f64>, q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(((values.len() as f64 * q) as usize).min(values.len().saturating_sub(1))).copied()
}
