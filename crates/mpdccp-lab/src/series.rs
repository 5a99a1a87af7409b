//! Computes time series for the CSV files (documented in `docs/summary.md`) and the figures.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use mpdccp_units::Time;

use crate::record::{FlowRecord, LinkPacket, PathRecord, RunRecord, seconds};
use crate::{LabError, files};

/// Length, in seconds, of the bins over which rates are averaged.
pub(crate) const BIN_S: f64 = 0.1;

/// Returns the rate of `packets` in Mbit/s, in bins of [`BIN_S`] from 0 to `to`. A point is (middle of the
/// bin, rate).
pub(crate) fn rate(to: f64, packets: impl Iterator<Item = (f64, u32)>) -> Vec<(f64, f64)> {
    let count = (to / BIN_S).round() as usize;
    let mut bytes = vec![0u64; count];
    for (at, n) in packets {
        if at >= 0.0
            && let Some(bin) = bytes.get_mut((at / BIN_S) as usize)
        {
            *bin += u64::from(n);
        }
    }
    let point = |(i, bytes)| ((i as f64 + 0.5) * BIN_S, bytes as f64 * 8.0 / 1e6 / BIN_S);
    bytes.into_iter().enumerate().map(point).collect()
}

/// Returns the rate received by a flow.
pub(crate) fn received(run: &RunRecord, flow: &FlowRecord, to: f64) -> Vec<(f64, f64)> {
    rate(to, flow.received.iter().map(|p| (seconds(run, p.at), p.bytes)))
}

/// Returns the rate offered to a path.
pub(crate) fn offered(run: &RunRecord, path: &PathRecord, to: f64) -> Vec<(f64, f64)> {
    rate(to, path.forward.packets.iter().map(|p| (seconds(run, p.entered), p.bytes)))
}

/// Returns the rate delivered by a path.
pub(crate) fn delivered(run: &RunRecord, path: &PathRecord, to: f64) -> Vec<(f64, f64)> {
    let arrived = |p: &LinkPacket| Some((seconds(run, p.arrived()?), p.bytes));
    rate(to, path.forward.packets.iter().filter_map(arrived))
}

/// Returns the maximum length of the bottleneck's queue in each bin, in kB.
pub(crate) fn queue_kb(run: &RunRecord, path: &PathRecord, to: f64) -> Vec<(f64, f64)> {
    let mut longest = vec![0u32; (to / BIN_S).round() as usize];
    for packet in &path.forward.packets {
        let at = seconds(run, packet.entered);
        if at >= 0.0
            && let Some(bin) = longest.get_mut((at / BIN_S) as usize)
        {
            *bin = (*bin).max(packet.queue_bytes);
        }
    }
    longest.into_iter().enumerate().map(|(i, b)| ((i as f64 + 0.5) * BIN_S, f64::from(b) / 1e3)).collect()
}

/// A packet's journey from application to application. Times are in seconds after t = 0.
pub(crate) struct Journey {
    pub(crate) seq: u64,
    pub(crate) sent: f64,
    /// Time of the first delivery to the application.
    pub(crate) received: Option<f64>,
    /// Path index of the delivered copy or, if none was delivered, of the last copy sent.
    pub(crate) path: Option<usize>,
    pub(crate) wire_ms: Option<f64>,
}

impl Journey {
    /// Returns the latency from application to application.
    pub(crate) fn app_ms(&self) -> Option<f64> {
        self.received.map(|at| (at - self.sent) * 1e3)
    }
}

/// Returns the journeys of flow `index`'s packets in sending order.
pub(crate) fn journeys(run: &RunRecord, index: usize) -> Vec<Journey> {
    let Some(flow) = run.flows.get(index) else { return Vec::new() };
    let mut received: HashMap<u64, Time> = HashMap::new();
    for packet in &flow.received {
        received.entry(packet.seq).or_insert(packet.at);
    }
    let mut on: HashMap<u64, (usize, Option<f64>)> = HashMap::new();
    // TCP cuts records into segments, which it numbers separately, so segment n on the link is not record n.
    let numbered = flow.kind != "tcp" || flow.stream_bytes.is_some();
    for (path, record) in run.paths.iter().enumerate().filter(|_| numbered) {
        for p in &record.forward.packets {
            let Some((_, seq)) = p.data.filter(|(flow, _)| usize::from(*flow) == index) else { continue };
            let wire = p.delay_ms();
            let best = on.entry(seq).or_insert((path, wire));
            if best.1.is_none() {
                *best = (path, wire);
            }
        }
    }
    let only = (run.paths.len() == 1).then_some(0);
    let journey = |(seq, sent): (usize, &crate::SentPacket)| {
        let seq = seq as u64;
        let (path, wire_ms) = on.get(&seq).map_or((only, None), |(path, wire)| (Some(*path), *wire));
        let received = received.get(&seq).map(|at| seconds(run, *at));
        Journey { seq, sent: seconds(run, sent.at), received, path, wire_ms }
    };
    flow.sent.iter().enumerate().map(journey).collect()
}

/// Returns, for each packet of flow `index`, the time at which it entered a link, its delay there (ms), and
/// its path.
pub(crate) fn on_wire(run: &RunRecord, index: usize) -> Vec<(f64, f64, usize)> {
    let Some(flow) = run.flows.get(index) else { return Vec::new() };
    let packets = crate::metrics::on_links(run, index, flow);
    let took = |(path, p): (usize, &LinkPacket)| Some((seconds(run, p.entered), p.delay_ms()?, path));
    packets.filter_map(took).collect()
}

fn cell(value: Option<f64>) -> String {
    value.map_or(String::new(), |v| format!("{v:.6}"))
}

/// Writes a run's series as CSV files into `dir`, which is created if needed.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write_csv(run: &RunRecord, duration_s: f64, dir: &Path) -> Result<(), LabError> {
    let path_name = |i: usize| run.paths.get(i).map_or("", |p| p.name.as_str());
    for (i, flow) in run.flows.iter().enumerate() {
        let mut out = "seq,sent_s,received_s,path,app_latency_ms,wire_latency_ms\n".to_owned();
        for j in journeys(run, i) {
            let path = j.path.map_or("", path_name);
            let (received, app, wire) = (cell(j.received), cell(j.app_ms()), cell(j.wire_ms));
            let _ = writeln!(out, "{},{:.6},{received},{path},{app},{wire}", j.seq, j.sent);
        }
        files::write(&dir.join(format!("packets-{}.csv", flow.name)), out)?;
        let mut out = "t_s,rx_mbps\n".to_owned();
        for (t, mbps) in received(run, flow, duration_s) {
            let _ = writeln!(out, "{t:.2},{mbps:.4}");
        }
        files::write(&dir.join(format!("flow-{}.csv", flow.name)), out)?;
        for (end, text) in &flow.output {
            files::write(&dir.join(format!("output-{}-{end}.txt", flow.name)), text)?;
        }
    }
    for path in &run.paths {
        let mut out = "t_s,tx_mbps,rx_mbps,queue_bytes\n".to_owned();
        let rows = offered(run, path, duration_s).into_iter();
        let rows = rows.zip(delivered(run, path, duration_s)).zip(queue_kb(run, path, duration_s));
        for (((t, tx), (_, rx)), (_, queue)) in rows {
            let _ = writeln!(out, "{t:.2},{tx:.4},{rx:.4},{:.0}", queue * 1e3);
        }
        files::write(&dir.join(format!("path-{}.csv", path.name)), out)?;
    }
    let mut out = "t_s,path,phase,cwnd_bytes,inflight_bytes,pacing_mbps,delivery_mbps,btlbw_mbps,srtt_ms,min_rtt_ms,lost,\
                   queue_packets,queue_ms,app_limited\n"
        .to_owned();
    for row in &run.trace {
        let _ = writeln!(
            out,
            "{:.6},{},{},{},{},{},{},{},{},{},{},{},{:.3},{}",
            seconds(run, row.at),
            path_name(row.path),
            row.phase,
            row.cwnd_bytes,
            row.inflight_bytes,
            cell(row.pacing_mbps),
            cell(row.delivery_mbps),
            cell(row.btlbw_mbps),
            cell(row.srtt_ms),
            cell(row.min_rtt_ms),
            row.lost,
            row.queue_packets,
            row.queue_ms,
            u8::from(row.app_limited),
        );
    }
    files::write(&dir.join("cc.csv"), out)
}
