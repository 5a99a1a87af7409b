//! From raw packets to the figures of `summary.json`.

mod applications;
mod arrivals;
mod completion;
mod convergence;
mod energy;
mod gap;
mod goodput;
mod on_time;
mod reordering;
mod video;
mod voip;

use std::collections::{BTreeMap, HashMap};

use units::Time;

pub use crate::metric_names::NAMES;
use crate::record::{Fate, FlowRecord, LinkPacket, LinkRecord, PathRecord, RunRecord, seconds};
use crate::scenario::Mode;
use crate::summary::{Flow, FlowPhase, Latency, PathPhase, PathStats, Run, Tcp};
use crate::{Plan, code, friendliness, windows};

/// The distribution of `ms`; none of nothing. Percentiles by nearest rank.
pub(crate) fn latency(mut ms: Vec<f64>) -> Option<Latency> {
    ms.sort_by(f64::total_cmp);
    let rank = |p: f64| ms[((ms.len() as f64 * p).ceil() as usize).clamp(1, ms.len()) - 1];
    (!ms.is_empty()).then(|| Latency { p50: rank(0.5), p95: rank(0.95), p99: rank(0.99), max: rank(1.0) })
}

/// Phase boundaries: start, events, end.
fn phases(plan: &Plan<'_>) -> Vec<(f64, f64)> {
    let mut edges = vec![0.0];
    edges.extend(plan.scenario.events_s());
    edges.push(*plan.scenario.duration_s.as_ref());
    edges.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

fn mbps(bytes: u64, (from, to): (f64, f64)) -> f64 {
    bytes as f64 * 8.0 / 1e6 / (to - from)
}

fn within((from, to): (f64, f64), t: f64) -> bool {
    from <= t && t < to
}

/// What one pass over a flow's deliveries tells.
struct Deliveries {
    /// First delivery of each sequence number.
    first: HashMap<u64, Time>,
    reordered: u64,
    duplicates: u64,
}

/// RFC 4737 section 3.3: a packet is reordered if a later-sent one was delivered before it. Duplicates are counted apart, as it asks.
fn deliveries(flow: &FlowRecord) -> Deliveries {
    let mut d = Deliveries { first: HashMap::new(), reordered: 0, duplicates: 0 };
    let mut next_expected = 0;
    for packet in &flow.received {
        if d.first.contains_key(&packet.seq) {
            d.duplicates += 1;
            continue;
        }
        d.first.insert(packet.seq, packet.at);
        if packet.seq < next_expected {
            d.reordered += 1;
        } else {
            next_expected = packet.seq + 1;
        }
    }
    d
}

/// What the links carried of a flow towards the server.
fn on_links<'a>(run: &'a RunRecord, index: usize, flow: &FlowRecord) -> impl Iterator<Item = &'a LinkPacket> {
    // TCP cuts records into segments of its own, which bear no numbers of ours; alone on its path, they are all its own.
    let segments = flow.kind == "tcp" && run.flows.len() == 1 && run.paths.len() == 1;
    let packets = run.paths.iter().flat_map(|path| &path.forward.packets);
    packets.filter(move |p| segments || p.data.is_some_and(|(flow, _)| usize::from(flow) == index))
}

/// Packets of a flow that never came to a link; none if packets on links do not tell what they carry.
fn never_left(run: &RunRecord, index: usize, flow: &FlowRecord) -> Option<u64> {
    let tagged = on_links(run, index, flow).filter_map(|p| p.data.map(|(_, seq)| seq));
    let left: std::collections::HashSet<u64> = tagged.collect();
    (!left.is_empty()).then(|| (flow.sent.len() as u64).saturating_sub(left.len() as u64))
}

fn flow_stats(run: &RunRecord, index: usize, flow: &FlowRecord, phases: &[(f64, f64)]) -> Flow {
    let d = deliveries(flow);
    let sent = flow.sent.len() as u64;
    let known = sent > 0;
    let lost = sent.saturating_sub(d.first.len() as u64);
    // (send time, latency in ms), application to application.
    let app = |(seq, at): (&u64, &Time)| {
        let sent_at = flow.sent.get(usize::try_from(*seq).ok()?)?.at;
        Some((seconds(run, sent_at), at.since(sent_at).as_secs_f64() * 1e3))
    };
    let app: Vec<(f64, f64)> = d.first.iter().filter_map(app).collect();
    let wire: Vec<(f64, f64)> = on_links(run, index, flow)
        .filter_map(|p| match p.fate {
            Fate::Delivered(at) => Some((seconds(run, p.entered), at.since(p.entered).as_secs_f64() * 1e3)),
            Fate::QueueDrop | Fate::Lost => None,
        })
        .collect();
    let phase = |&span: &(f64, f64)| FlowPhase {
        from_s: span.0,
        to_s: span.1,
        rx_mbps: mbps(
            flow.received
                .iter()
                .filter(|p| within(span, seconds(run, p.at)))
                .map(|p| u64::from(p.bytes))
                .sum(),
            span,
        ),
        app_latency_ms: latency(app.iter().filter(|(t, _)| within(span, *t)).map(|(_, ms)| *ms).collect()),
        wire_latency_ms: latency(wire.iter().filter(|(t, _)| within(span, *t)).map(|(_, ms)| *ms).collect()),
    };
    Flow {
        name: flow.name.clone(),
        kind: flow.kind.clone(),
        model: flow.model.clone(),
        offered_mbps: flow.offered.map(|r| r.mbps()),
        sent: known.then_some(sent),
        dropped_at_sender: flow.dropped_at_sender.or_else(|| never_left(run, index, flow).filter(|_| known)),
        received: d.first.len() as u64,
        lost: known.then_some(lost),
        lost_pct: known.then(|| lost as f64 * 100.0 / sent as f64),
        reordered: known.then_some(d.reordered),
        duplicates: known.then_some(d.duplicates),
        tcp: flow.tcp.map(|tcp| Tcp { retransmits: tcp.retransmits, dsack: tcp.dsack }),
        phases: phases.iter().map(phase).collect(),
    }
}

fn path_stats(run: &RunRecord, path: &PathRecord, phases: &[(f64, f64)]) -> PathStats {
    let bytes_in = |link: &LinkRecord, span| -> u64 {
        link.packets
            .iter()
            .filter(|p| within(span, seconds(run, p.entered)))
            .map(|p| u64::from(p.bytes))
            .sum()
    };
    let phase = |&span: &(f64, f64)| {
        let entered = || path.forward.packets.iter().filter(|p| within(span, seconds(run, p.entered)));
        let out = path.forward.packets.iter().filter(|p| match p.fate {
            Fate::Delivered(at) => within(span, seconds(run, at)),
            Fate::QueueDrop | Fate::Lost => false,
        });
        let delays = entered().filter_map(|p| match p.fate {
            Fate::Delivered(at) => Some(at.since(p.entered).as_secs_f64() * 1e3),
            Fate::QueueDrop | Fate::Lost => None,
        });
        PathPhase {
            from_s: span.0,
            to_s: span.1,
            tx_mbps: mbps(bytes_in(&path.forward, span), span),
            rx_mbps: mbps(out.map(|p| u64::from(p.bytes)).sum(), span),
            latency_ms: latency(delays.collect()),
            lost: entered().filter(|p| p.fate == Fate::Lost).count() as u64,
            queue_drops: entered().filter(|p| p.fate == Fate::QueueDrop).count() as u64,
            ce: entered().filter(|p| p.ce).count() as u64,
            reverse_mbps: mbps(bytes_in(&path.reverse, span), span),
        }
    };
    PathStats { name: path.name.clone(), phases: phases.iter().map(phase).collect() }
}

/// The 99th percentile of how late the links delivered, in microseconds; none in virtual time.
pub(crate) fn lateness_us_p99<'a>(paths: impl Iterator<Item = &'a PathRecord>) -> Option<f64> {
    let late = paths.flat_map(|p| p.forward.lateness_ns.iter().chain(&p.reverse.lateness_ns));
    us_p99(late)
}

/// The 99th percentile of nanoseconds, in microseconds.
fn us_p99<'a>(ns: impl Iterator<Item = &'a u32>) -> Option<f64> {
    latency(ns.map(|ns| f64::from(*ns) / 1e3).collect()).map(|l| l.p99)
}

/// Everything `summary.json` says of one run.
pub fn run_stats(plan: &Plan<'_>, run: &RunRecord) -> Run {
    let phases = phases(plan);
    let flows: Vec<Flow> =
        run.flows.iter().enumerate().map(|(i, f)| flow_stats(run, i, f, &phases)).collect();
    let paths: Vec<PathStats> = run.paths.iter().map(|p| path_stats(run, p, &phases)).collect();
    let links = || run.paths.iter().flat_map(|path| [&path.forward, &path.reverse]);
    Run {
        label: run.label.clone(),
        cell: run.cell.clone(),
        repeat: run.repeat,
        seed: plan.seed,
        resolved_hash: code::hash(&plan.scenario.resolved(plan.variant, plan.cell)),
        params: plan.params(),
        metrics: metrics(plan, run, &flows, &paths),
        flows,
        paths,
        link_lateness_us_p99: lateness_us_p99(run.paths.iter()),
        link_read_lateness_us_p99: us_p99(links().flat_map(|link| &link.read_late_ns)),
        send_lateness_us_p99: us_p99(run.flows.iter().flat_map(|flow| &flow.lateness_ns)),
        device_drops: links().map(|link| link.device_drops).sum(),
    }
}

fn metrics(plan: &Plan<'_>, run: &RunRecord, flows: &[Flow], paths: &[PathStats]) -> BTreeMap<String, f64> {
    let mut out = BTreeMap::new();
    let mut put = |name, value: Option<f64>| {
        debug_assert!(NAMES.iter().any(|(known, _)| *known == name));
        out.extend(value.map(|v| (String::from(name), v)));
    };
    let (Some(flow), Some(record)) = (flows.first(), run.flows.first()) else { return out };
    let Some(last) = flow.phases.last() else { return out };
    put("rx_mbps", Some(last.rx_mbps));
    put("app_p50_ms", last.app_latency_ms.map(|l| l.p50));
    put("app_p95_ms", last.app_latency_ms.map(|l| l.p95));
    put("app_p99_ms", last.app_latency_ms.map(|l| l.p99));
    put("app_max_ms", last.app_latency_ms.map(|l| l.max));
    put("wire_p50_ms", last.wire_latency_ms.map(|l| l.p50));
    put("wire_p95_ms", last.wire_latency_ms.map(|l| l.p95));
    put("wire_p99_ms", last.wire_latency_ms.map(|l| l.p99));
    if let (Some(ours), Some(theirs)) = (last.app_latency_ms, mirrored(run, record, (last.from_s, last.to_s)))
    {
        put("mirror_p50_ms", Some(theirs.p50));
        put("mirror_p95_ms", Some(theirs.p95));
        let apart = [theirs.p50 - ours.p50, theirs.p95 - ours.p95, theirs.p99 - ours.p99];
        put("mirror_offset_ms", apart.into_iter().map(f64::abs).max_by(f64::total_cmp));
    }
    put("lost_pct", flow.lost_pct);
    put("link_lost_pct", link_lost_pct(run, record));
    // TCP sends again what is lost: what it does not deliver by the end is not a loss. Its losses are those on the links.
    if let (false, Some(sent), Some(lost), Some(dropped)) =
        (record.kind == "tcp", flow.sent, flow.lost, flow.dropped_at_sender)
        && sent > dropped
    {
        put("net_lost_pct", Some(lost.saturating_sub(dropped) as f64 * 100.0 / (sent - dropped) as f64));
    }
    if flows.len() > 1 {
        let rates: Vec<f64> = flows.iter().filter_map(|f| Some(f.phases.last()?.rx_mbps)).collect();
        let (total, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
        put("total_mbps", Some(total));
        put("jain", (squares > 0.0).then(|| total * total / (rates.len() as f64 * squares)));
        let others = (total - last.rx_mbps) / (rates.len() - 1) as f64;
        put("share_pct", (others > 0.0).then(|| last.rx_mbps * 100.0 / others));
    }
    let received = flow.received.max(1) as f64;
    put("reordered_pct", flow.reordered.map(|n| n as f64 * 100.0 / received));
    put("retransmits", flow.tcp.map(|t| t.retransmits as f64));
    put("dsack", flow.tcp.map(|t| t.dsack as f64));
    if let Some(spec) = plan.flows().first() {
        for (name, value) in applications::metrics(plan, run, spec, record) {
            put(name, Some(value));
        }
    }
    completion::completion(run).into_iter().for_each(|(name, value)| put(name, Some(value)));
    if plan.scenario.mode == Mode::Direct {
        let named = friendliness::metrics(plan, run).into_iter();
        out.extend(named.map(|(name, value)| (name.to_owned(), value)));
    }
    let mut put = |name, value: Option<f64>| out.extend(value.map(|v| (String::from(name), v)));
    if let [a, b] = paths
        && let (Some(a), Some(b)) = (a.phases.last(), b.phases.last())
        && a.rx_mbps + b.rx_mbps > 0.0
    {
        put("path_imbalance_pct", Some((a.rx_mbps - b.rx_mbps).abs() * 200.0 / (a.rx_mbps + b.rx_mbps)));
    }
    if let Some(event) = plan.scenario.events_s().last().copied() {
        let end = flow_end(plan);
        put("min_200ms_mbps", windows::lowest(run, record, (event + 0.3, end), 0.2, &[]));
        put("min_1s_mbps", windows::lowest(run, record, (event + 0.3, end), 1.0, &windows::probe_rtt(run)));
        if let Some(path) = run.paths.get(1) {
            put("second_path_first_ms", windows::first_packet(run, path, event).map(|s| (s - event) * 1e3));
            put(
                "second_path_ms",
                windows::first_above(run, path, (event, end), 0.1, 3.0).map(|s| ((s - event) * 1e3).round()),
            );
        }
    }
    out
}

/// Packets of the first flow that links dropped or lost, of those offered to links.
fn link_lost_pct(run: &RunRecord, flow: &FlowRecord) -> Option<f64> {
    let (mut all, mut lost) = (0u64, 0u64);
    for packet in on_links(run, 0, flow) {
        all += 1;
        lost += u64::from(!matches!(packet.fate, Fate::Delivered(_)));
    }
    (all > 0).then(|| lost as f64 * 100.0 / all as f64)
}

/// From sending to the return to the client, for packets sent in `span`.
fn mirrored(run: &RunRecord, flow: &FlowRecord, span: (f64, f64)) -> Option<Latency> {
    let journey = |back: &crate::ReceivedPacket| {
        let sent = flow.sent.get(usize::try_from(back.seq).ok()?)?.at;
        within(span, seconds(run, sent)).then(|| back.at.since(sent).as_secs_f64() * 1e3)
    };
    latency(flow.mirrored.iter().filter_map(journey).collect())
}

/// When the first flow stops sending.
fn flow_end(plan: &Plan<'_>) -> f64 {
    let stop = plan.flows().first().and_then(|f| f.stop_s.as_ref()).map(|s| *s.as_ref());
    stop.unwrap_or(*plan.scenario.duration_s.as_ref())
}
