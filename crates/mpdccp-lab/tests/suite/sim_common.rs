//! Makes runs in virtual time for tests.

use mpdccp_lab::metrics::run_stats;
use mpdccp_lab::scenario::Scenario;
use mpdccp_lab::sim::Sim;
use mpdccp_lab::summary::Run;
use mpdccp_lab::{Backend, Plan, RunRecord};

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
