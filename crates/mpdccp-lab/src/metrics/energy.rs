//! CPU time per data volume, as a proxy for energy.

use crate::record::RunRecord;

/// Returns the CPU seconds used by both tunnel ends together, per gigabyte received by all flows. Available
/// only in namespaces, and only with a tunnel.
pub(super) fn cpu_s_per_gb(run: &RunRecord) -> Option<f64> {
    let bytes: u64 = run.flows.iter().flat_map(|f| &f.received).map(|p| u64::from(p.bytes)).sum();
    run.cpu_s.filter(|_| bytes > 0).map(|s| s * 1e9 / bytes as f64)
}

#[cfg(test)]
mod tests {
    use mpdccp_units::Time;

    use super::*;
    use crate::record::{FlowRecord, ReceivedPacket};

    #[test]
    fn both_ends_over_all_flows() {
        let received = |bytes| vec![ReceivedPacket { seq: 0, at: Time::ZERO, bytes }];
        let flow = |bytes| FlowRecord { received: received(bytes), ..FlowRecord::default() };
        let run = RunRecord {
            flows: vec![flow(1_000_000), flow(4_000_000)],
            cpu_s: Some(0.02),
            ..RunRecord::default()
        };
        assert_eq!(cpu_s_per_gb(&run), Some(4.0));
        assert_eq!(cpu_s_per_gb(&RunRecord { cpu_s: None, ..run }), None);
    }
}
