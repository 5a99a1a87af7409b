//! Computes the values in `summary.json` from raw packets.

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

use mpdccp_units::Time;

pub use crate::metric_names::NAMES;
use crate::record::{Fate, FlowRecord, LinkPacket, LinkRecord, PathRecord, RunRecord, TcpCounters, seconds};
use crate::scenario::Mode;
use crate::summary::{Flow, FlowPhase, Latency, PathPhase, PathStats, Run, Tcp};
use crate::{Plan, code, friendliness, windows};

/// Returns the phases of a run, delimited by its start, the end of the warm-up, the events and the end of the
/// traffic.
fn phases(plan: &Plan<'_>) -> Vec<(f64, f64)> {
    let mut edges = vec![0.0, plan.scenario.warm_up.as_secs_f64()];
    edges.extend(plan.scenario.events_s());
    edges.push(*plan.scenario.duration_s.as_ref());
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    edges.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

fn mbps(bytes: u64, (from, to): (f64, f64)) -> f64 {
    bytes as f64 * 8.0 / 1e6 / (to - from)
}

fn within((from, to): (f64, f64), t: f64) -> bool {
    from <= t && t < to
}

/// Results of one pass over a flow's deliveries.
struct Deliveries {
    /// First delivery of each sequence number.
    first: HashMap<u64, Time>,
    reordered: u64,
    duplicates: u64,
}

/// Counts first arrivals, reordered packets and duplicates. A packet is reordered if a packet sent after it
/// was delivered before it (RFC 4737 section 3.3). Duplicates do not count as reordered, as RFC 4737
/// requires.
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

/// Returns a flow's packets on the links towards the server, each with its path.
pub(crate) fn on_links<'a>(
    run: &'a RunRecord,
    index: usize,
    flow: &FlowRecord,
) -> impl Iterator<Item = (usize, &'a LinkPacket)> {
    // In a tunnel of the program, the links cannot tell which flow a TCP segment belongs to. But if the flow
    // is alone on a path, all segments there belong to it.
    let segments = flow.kind == "tcp" && run.flows.len() == 1 && run.paths.len() == 1;
    let paths = run.paths.iter().enumerate();
    let packets = paths.flat_map(|(i, path)| path.forward.packets.iter().map(move |p| (i, p)));
    packets.filter(move |(_, p)| segments || p.data.is_some_and(|(flow, _)| usize::from(flow) == index))
}

/// Returns how many of a flow's packets never reached a link, or `None` if the links could not identify the
/// flow's packets. The kernel's TCP sends until after the links have ended.
fn never_left(run: &RunRecord, index: usize, flow: &FlowRecord) -> Option<u64> {
    if flow.kind == "tcp" && flow.model.is_none() {
        return None;
    }
    let tagged = on_links(run, index, flow).filter_map(|(_, p)| p.data.map(|(_, seq)| seq));
    let left: std::collections::HashSet<u64> = tagged.collect();
    (!left.is_empty()).then(|| (flow.sent.len() as u64).saturating_sub(left.len() as u64))
}

/// Counts and times of the data of one or several flows.
#[derive(Default)]
struct Counted {
    received: u64,
    reordered: u64,
    duplicates: u64,
    /// For each received packet: the time at which it was sent, and its latency from application to
    /// application in ms.
    app: Vec<(f64, f64)>,
    /// For each packet delivered by a link: the time at which it entered the link, and its delay there in ms.
    wire: Vec<(f64, f64)>,
    /// For each arrival: time and bytes.
    arrivals: Vec<(f64, u64)>,
}

impl Counted {
    fn add(&mut self, run: &RunRecord, index: usize, flow: &FlowRecord) {
        let d = deliveries(flow);
        self.received += d.first.len() as u64;
        self.reordered += d.reordered;
        self.duplicates += d.duplicates;
        self.app.extend(d.first.iter().filter_map(|(seq, at)| {
            let sent_at = flow.sent.get(usize::try_from(*seq).ok()?)?.at;
            Some((seconds(run, sent_at), at.since(sent_at).as_secs_f64() * 1e3))
        }));
        self.wire.extend(
            on_links(run, index, flow).filter_map(|(_, p)| Some((seconds(run, p.entered), p.delay_ms()?))),
        );
        self.arrivals.extend(flow.received.iter().map(|p| (seconds(run, p.at), u64::from(p.bytes))));
    }

    fn phase(&self, span: (f64, f64)) -> FlowPhase {
        let of =
            |all: &[(f64, f64)]| Latency::of(all.iter().filter(|(t, _)| within(span, *t)).map(|(_, ms)| *ms));
        let bytes = self.arrivals.iter().filter(|(t, _)| within(span, *t)).map(|(_, bytes)| bytes).sum();
        FlowPhase {
            from_s: span.0,
            to_s: span.1,
            rx_mbps: mbps(bytes, span),
            app_latency_ms: of(&self.app),
            wire_latency_ms: of(&self.wire),
        }
    }
}

/// Returns combined statistics for the flows with these indices, or `None` if there are none.
fn flow_stats(run: &RunRecord, indices: &[usize], phases: &[(f64, f64)]) -> Option<Flow> {
    let flows: Vec<(usize, &FlowRecord)> =
        indices.iter().filter_map(|i| Some((*i, run.flows.get(*i)?))).collect();
    let (_, first) = flows.first()?;
    let mut counted = Counted::default();
    flows.iter().for_each(|(i, flow)| counted.add(run, *i, flow));
    let sent: u64 = flows.iter().map(|(_, flow)| flow.sent.len() as u64).sum();
    let known = flows.iter().all(|(_, flow)| !flow.sent.is_empty());
    let lost = sent.saturating_sub(counted.received);
    let dropped = |(i, flow): &(usize, &FlowRecord)| {
        flow.dropped_at_sender.or_else(|| never_left(run, *i, flow).filter(|_| known))
    };
    let tcp = flows
        .iter()
        .filter_map(|(_, flow)| flow.tcp)
        .reduce(|a, b| TcpCounters { retransmits: a.retransmits + b.retransmits, dsack: a.dsack + b.dsack });
    let offered: Option<f64> = flows.iter().map(|(_, flow)| Some(flow.offered?.mbps())).sum();
    Some(Flow {
        name: flows.iter().map(|(_, flow)| flow.name.as_str()).collect::<Vec<_>>().join(", "),
        kind: first.kind.clone(),
        measured: true,
        model: first.model.clone(),
        offered_mbps: offered,
        sent: known.then_some(sent),
        dropped_at_sender: flows.iter().map(dropped).sum(),
        received: counted.received,
        lost: known.then_some(lost),
        lost_pct: known.then(|| lost as f64 * 100.0 / sent as f64),
        reordered: known.then_some(counted.reordered),
        duplicates: known.then_some(counted.duplicates),
        tcp: tcp.map(|tcp| Tcp { retransmits: tcp.retransmits, dsack: tcp.dsack }),
        streams: flows.iter().map(|(_, flow)| flow.streams).sum(),
        phases: phases.iter().map(|span| counted.phase(*span)).collect(),
    })
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
        let arrived = |p: &&LinkPacket| p.arrived().is_some_and(|at| within(span, seconds(run, at)));
        let out = path.forward.packets.iter().filter(arrived);
        PathPhase {
            from_s: span.0,
            to_s: span.1,
            tx_mbps: mbps(bytes_in(&path.forward, span), span),
            rx_mbps: mbps(out.map(|p| u64::from(p.bytes)).sum(), span),
            latency_ms: Latency::of(entered().filter_map(LinkPacket::delay_ms)),
            lost: entered().filter(|p| p.fate == Fate::Lost).count() as u64,
            queue_drops: entered().filter(|p| p.fate == Fate::QueueDrop).count() as u64,
            ce: entered().filter(|p| p.ce).count() as u64,
            reverse_mbps: mbps(bytes_in(&path.reverse, span), span),
        }
    };
    PathStats { name: path.name.clone(), phases: phases.iter().map(phase).collect() }
}

/// Returns the 99th percentile of how late the links delivered packets, in microseconds, or `None` in virtual
/// time.
pub(crate) fn lateness_us_p99<'a>(paths: impl Iterator<Item = &'a PathRecord>) -> Option<f64> {
    let late = paths.flat_map(|p| p.forward.lateness_ns.iter().chain(&p.reverse.lateness_ns));
    us_p99(late)
}

/// Returns the 99th percentile, in microseconds, of values given in nanoseconds.
fn us_p99<'a>(ns: impl Iterator<Item = &'a u32>) -> Option<f64> {
    Latency::of(ns.map(|ns| f64::from(*ns) / 1e3)).map(|l| l.p99)
}

/// Returns all entries of `summary.json` for one run.
pub fn run_stats(plan: &Plan<'_>, run: &RunRecord) -> Run {
    let phases = phases(plan);
    let measured = measured(plan, run);
    let flow = |i: usize| Some(Flow { measured: measured.contains(&i), ..flow_stats(run, &[i], &phases)? });
    let flows: Vec<Flow> = (0..run.flows.len()).filter_map(flow).collect();
    let paths: Vec<PathStats> = run.paths.iter().map(|p| path_stats(run, p, &phases)).collect();
    let links = || run.paths.iter().flat_map(|path| [&path.forward, &path.reverse]);
    Run {
        label: run.label.clone(),
        cell: run.cell.clone(),
        repeat: run.repeat,
        seed: plan.seed,
        resolved_hash: code::hash(&plan.scenario.resolved(plan.variant, plan.cell)),
        params: plan.params(),
        metrics: metrics(plan, run, &measured, &phases, &flows, &paths),
        flows,
        paths,
        link_lateness_us_p99: lateness_us_p99(run.paths.iter()),
        link_read_lateness_us_p99: us_p99(links().flat_map(|link| &link.read_late_ns)),
        send_lateness_us_p99: us_p99(run.flows.iter().flat_map(|flow| &flow.lateness_ns)),
        device_drops: links().map(|link| link.device_drops).sum(),
    }
}

fn metrics(
    plan: &Plan<'_>,
    run: &RunRecord,
    measured: &[usize],
    phases: &[(f64, f64)],
    flows: &[Flow],
    paths: &[PathStats],
) -> BTreeMap<String, f64> {
    let mut out = BTreeMap::new();
    let mut put = |name, value: Option<f64>| {
        debug_assert!(NAMES.iter().any(|(known, _)| *known == name));
        out.extend(value.map(|v| (String::from(name), v)));
    };
    completion::completion(run).into_iter().for_each(|(name, value)| put(name, Some(value)));
    let rates: Vec<f64> = flows.iter().filter_map(|f| Some(f.phases.last()?.rx_mbps)).collect();
    if rates.len() > 1 {
        put("total_mbps", Some(rates.iter().sum()));
        put("jain", jain(&rates));
    }
    let Some(flow) = flow_stats(run, measured, phases) else { return out };
    let Some(last) = flow.phases.last() else { return out };
    put("rx_mbps", Some(last.rx_mbps));
    put("app_p50_ms", last.app_latency_ms.map(|l| l.p50));
    put("app_p95_ms", last.app_latency_ms.map(|l| l.p95));
    put("app_p99_ms", last.app_latency_ms.map(|l| l.p99));
    put("app_max_ms", last.app_latency_ms.map(|l| l.max));
    put("wire_p50_ms", last.wire_latency_ms.map(|l| l.p50));
    put("wire_p95_ms", last.wire_latency_ms.map(|l| l.p95));
    put("wire_p99_ms", last.wire_latency_ms.map(|l| l.p99));
    // The metrics of packet order and timing are not defined for several flows together, so compute them only
    // for a single measured flow.
    let single = match measured {
        [only] => run.flows.get(*only),
        _ => None,
    };
    let back = single.and_then(|record| mirrored(run, record, (last.from_s, last.to_s)));
    if let (Some(ours), Some(theirs)) = (last.app_latency_ms, back) {
        put("mirror_p50_ms", Some(theirs.p50));
        put("mirror_p95_ms", Some(theirs.p95));
        let apart = [theirs.p50 - ours.p50, theirs.p95 - ours.p95, theirs.p99 - ours.p99];
        put("mirror_offset_ms", apart.into_iter().map(f64::abs).max_by(f64::total_cmp));
    }
    put("lost_pct", flow.lost_pct);
    put("link_lost_pct", link_lost_pct(run, measured));
    // TCP retransmits lost data. Data of TCP that is undelivered at the end of the run is not lost, so only
    // its losses on the links count.
    if let (false, Some(sent), Some(lost), Some(dropped)) =
        (flow.kind == "tcp", flow.sent, flow.lost, flow.dropped_at_sender)
        && sent > dropped
    {
        put("net_lost_pct", Some(lost.saturating_sub(dropped) as f64 * 100.0 / (sent - dropped) as f64));
    }
    let (ours, others): (Vec<usize>, Vec<usize>) = (0..rates.len()).partition(|i| measured.contains(i));
    let mean = |of: &[usize]| of.iter().map(|i| rates[*i]).sum::<f64>() / of.len() as f64;
    put(
        "share_pct",
        (!others.is_empty()).then(|| mean(&ours) * 100.0 / mean(&others)).filter(|pct| pct.is_finite()),
    );
    let received = flow.received.max(1) as f64;
    put("reordered_pct", flow.reordered.map(|n| n as f64 * 100.0 / received));
    put("retransmits", flow.tcp.map(|t| t.retransmits as f64));
    put("dsack", flow.tcp.map(|t| t.dsack as f64));
    let specs = plan.flows();
    let spec = single.and_then(|record| specs.iter().find(|spec| *spec.name.as_ref() == record.name));
    if let Some((spec, record)) = spec.zip(single) {
        for (name, value) in applications::metrics(plan, run, spec, record) {
            put(name, Some(value));
        }
    }
    if plan.scenario.mode == Mode::Direct {
        let named = friendliness::metrics(plan, run, measured, spec).into_iter();
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
        let stop = spec.and_then(|spec| spec.stop_s.as_ref()).map(|s| *s.as_ref());
        let end = stop.unwrap_or(*plan.scenario.duration_s.as_ref());
        // Before its start, the flow has no rate.
        let from = spec.map_or(event, |spec| plan.span_of(spec).0.as_secs_f64().max(event)) + 0.3;
        let lowest = |len, except: &[(f64, f64)]| windows::lowest(run, single?, (from, end), len, except);
        put("min_200ms_mbps", lowest(0.2, &[]));
        put("min_1s_mbps", lowest(1.0, &windows::probe_rtt(run)));
        if let Some(path) = run.paths.get(1) {
            put("second_path_first_ms", windows::first_packet(run, path, event).map(|s| (s - event) * 1e3));
            put(
                "second_path_ms",
                windows::first_above(run, path, (event, end), 0.1, 3.0)
                    .map(|s| ((s + 0.1 - event) * 1e3).round()),
            );
        }
    }
    out
}

/// Returns Jain's fairness index of these rates, or `None` if all are zero.
pub(crate) fn jain(rates: &[f64]) -> Option<f64> {
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Returns the indices of the measured flows.
pub(crate) fn measured(plan: &Plan<'_>, run: &RunRecord) -> Vec<usize> {
    (0..run.flows.len()).filter(|i| plan.scenario.is_measured(&run.label, &run.flows[*i].name)).collect()
}

/// Returns the packets of these flows that links lost or dropped, as a percentage of the flows' packets that
/// links were offered.
fn link_lost_pct(run: &RunRecord, flows: &[usize]) -> Option<f64> {
    let (mut all, mut lost) = (0u64, 0u64);
    for (_, packet) in flows.iter().flat_map(|i| on_links(run, *i, &run.flows[*i])) {
        all += 1;
        lost += u64::from(packet.arrived().is_none());
    }
    (all > 0).then(|| lost as f64 * 100.0 / all as f64)
}

/// Returns the time from sending a packet to its return to the client, for packets sent in `span`.
fn mirrored(run: &RunRecord, flow: &FlowRecord, span: (f64, f64)) -> Option<Latency> {
    let journey = |back: &crate::ReceivedPacket| {
        let sent = flow.sent.get(usize::try_from(back.seq).ok()?)?.at;
        within(span, seconds(run, sent)).then(|| back.at.since(sent).as_secs_f64() * 1e3)
    };
    Latency::of(flow.mirrored.iter().filter_map(journey))
}
