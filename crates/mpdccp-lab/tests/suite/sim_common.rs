//! Makes runs in virtual time for tests.

use mpdccp_lab::metrics::run_stats;
use mpdccp_lab::scenario::Scenario;
use mpdccp_lab::sim::Sim;
use mpdccp_lab::summary::Run;
use mpdccp_lab::{Backend, FlowRecord, Plan, ReceivedPacket, RunRecord};

pub(crate) fn parse(text: &str) -> Scenario {
    Scenario::parse("t.toml", text).unwrap()
}

pub(crate) fn seeded(scenario: &Scenario, label: &str, cell: &str, seed: u64) -> (RunRecord, Run) {
    let variant = scenario.variant(label).unwrap();
    let plan = Plan { scenario, variant, cell: scenario.cell(cell).unwrap(), repeat: 0, seed };
    let record = Sim::default().run(&plan, &mut |_| {}).unwrap();
    let stats = run_stats(&plan, &record);
    (record, stats)
}

pub(crate) fn run(scenario: &Scenario, label: &str, cell: &str) -> (RunRecord, Run) {
    seeded(scenario, label, cell, 1)
}

/// Returns how many bytes each flow received between these times in seconds.
pub(crate) fn received(record: &RunRecord, from: f64, to: f64) -> Vec<f64> {
    let bytes = |flow: &FlowRecord| {
        let t = |p: &&ReceivedPacket| p.at.as_secs_f64() - record.start.as_secs_f64();
        flow.received.iter().filter(|p| (from..to).contains(&t(p))).map(|p| f64::from(p.bytes)).sum()
    };
    record.flows.iter().map(bytes).collect()
}
