//! The simulator: the same endpoints and links as in the real run, in virtual time, and a model of TCP.
//!
//! `world` is the network, `flow` the applications with their `source`s and `tcp`, `run` what puts them together.

mod flow;
mod links;
mod probe;
mod run;
mod source;
mod tcp;
mod world;

use core::time::Duration;
use std::time::Instant;

use crate::{Backend, LabError, Plan, RunRecord, Sample};

/// Runs scenarios in virtual time: same scenario and seed, same bytes.
#[derive(Debug, Default)]
pub struct Sim {
    simulated: Duration,
    took: Duration,
}

impl Backend for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(&mut self, plan: &Plan<'_>, watch: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        let begun = Instant::now();
        let record = run::Run::new(plan)?.go(watch)?;
        self.took += begun.elapsed();
        self.simulated += plan.scenario.duration();
        Ok(record)
    }

    fn speed(&self) -> Option<f64> {
        let took = self.took.as_secs_f64();
        (took > 0.0).then(|| self.simulated.as_secs_f64() / took)
    }
}
