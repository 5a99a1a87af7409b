//! Computes rates in sliding windows.

use crate::record::seconds;
use crate::record::{FlowRecord, PathRecord, RunRecord};

/// Distance between the starts of consecutive windows, in seconds.
const STEP_S: f64 = 0.01;

/// Cumulative number of bytes over time, used to compute the bytes in a window.
struct Cumulated {
    /// Times in ascending order.
    at: Vec<f64>,
    /// Bytes before each time.
    before: Vec<u64>,
}

impl Cumulated {
    fn new(mut packets: Vec<(f64, u32)>) -> Cumulated {
        packets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0;
        let mut before = vec![0];
        before.extend(packets.iter().map(|(_, bytes)| {
            sum += u64::from(*bytes);
            sum
        }));
        Cumulated { at: packets.into_iter().map(|(at, _)| at).collect(), before }
    }

    /// Returns the rate in Mbit/s in the window [from, from + len).
    fn mbps(&self, from: f64, len: f64) -> f64 {
        let index = |t| self.at.partition_point(|at| *at < t);
        (self.before[index(from + len)] - self.before[index(from)]) as f64 * 8.0 / 1e6 / len
    }
}

fn starts((from, to): (f64, f64), len: f64) -> impl Iterator<Item = f64> {
    let count = ((to - len - from) / STEP_S + 1e-6).floor();
    (0..=count as i64).map(move |i| from + i as f64 * STEP_S).take_while(move |_| count >= 0.0)
}

/// Returns the lowest rate of `flow` in any window of `len` seconds within `span`. Windows that overlap a
/// time span in `except` are ignored.
pub(crate) fn lowest(
    run: &RunRecord,
    flow: &FlowRecord,
    span: (f64, f64),
    len: f64,
    except: &[(f64, f64)],
) -> Option<f64> {
    let bytes = Cumulated::new(flow.received.iter().map(|p| (seconds(run, p.at), p.bytes)).collect());
    let excepted = |from: f64| except.iter().any(|(a, b)| from < *b && *a < from + len);
    starts(span, len).filter(|from| !excepted(*from)).map(|from| bytes.mbps(from, len)).min_by(f64::total_cmp)
}

/// Returns the start of the first window of `len` seconds within `span` in which more than `mbps` was offered
/// to `path`.
pub(crate) fn first_above(
    run: &RunRecord,
    path: &PathRecord,
    span: (f64, f64),
    len: f64,
    mbps: f64,
) -> Option<f64> {
    let packets = &path.forward.packets;
    let bytes = Cumulated::new(packets.iter().map(|p| (seconds(run, p.entered), p.bytes)).collect());
    starts(span, len).find(|from| bytes.mbps(*from, len) > mbps)
}

/// Returns when the first data packet at or after `from` was offered to `path`. Returns `None` if `path` also
/// carried data packets in the second before `from`.
pub(crate) fn first_packet(run: &RunRecord, path: &PathRecord, from: f64) -> Option<f64> {
    let data = path.forward.packets.iter().filter(|p| p.data.is_some()).map(|p| seconds(run, p.entered));
    data.filter(|at| *at >= from - 1.0).min_by(f64::total_cmp).filter(|at| *at >= from)
}

/// Returns the time spans in which any path was in ProbeRTT, each extended by half a second for the window to
/// grow back.
pub(crate) fn probe_rtt(run: &RunRecord) -> Vec<(f64, f64)> {
    let probing =
        |row: &&crate::TraceRow| row.phase.to_ascii_lowercase().replace(['-', '_'], "") == "probertt";
    run.trace.iter().filter(probing).map(|row| (seconds(run, row.at), seconds(run, row.at) + 0.5)).collect()
}
