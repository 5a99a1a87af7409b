//! Tests of scenarios, the simulator and the evaluation of runs; none of them needs a separate process.

mod agreement;
#[allow(dead_code)] // Cargo runs the script itself; this is for its tests.
#[path = "../../build.rs"]
mod build;
mod common;
mod comparison;
mod congestion_manager;
mod coupling;
mod documents;
mod experiment;
mod figures;
mod links;
mod metrics;
mod packetdrill;
#[path = "../../../../tests/page.rs"]
mod page;
mod reproduce;
mod reproduce_paper;
mod scenario_errors;
mod sim;
mod sim_cells;
mod sim_common;
mod sim_direct;
mod sim_golden;
mod sim_streams;
mod sim_tunnel;
mod sweep;
mod tools;
