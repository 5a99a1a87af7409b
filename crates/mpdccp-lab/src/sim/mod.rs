//! Simulates a run in virtual time, with the same endpoints and links as the other backends, and a model of
//! TCP.
//!
//! The module `world` is the network. `flow` contains the applications with their sources (`source`) and TCP
//! connections (`tcp`). `run` combines network and applications.

mod end;
mod flow;
mod life;
mod links;
mod outer;
mod probe;
mod program;
mod run;
mod short;
mod side;
mod sockets;
pub(crate) mod source;
mod stream;
pub(crate) mod tcp;
mod world;

pub use side::Side;

use std::time::Instant;

use crate::backend::Spent;
use crate::scenario::FlowKind;
use crate::{Backend, LabError, Plan, RunRecord, Sample};

/// Runs scenarios in virtual time. Runs with the same scenario and seed produce identical bytes.
#[derive(Debug, Default)]
pub struct Sim {
    spent: Spent,
}

impl Backend for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn lacks(&self, plan: &Plan<'_>) -> Option<String> {
        if let Some(what) = plan.scenario.namespaces_only_of(plan.variant) {
            return Some(format!("only namespaces support {what}; run this scenario with --backend netns"));
        }
        let flow = plan.scenario.unslowed_of(plan.variant)?;
        Some(format!("flow `{flow}`: a bulk source over plain UDP has no congestion control; set `rate`"))
    }

    fn leaves_out(&self, plan: &Plan<'_>) -> Option<String> {
        let commands = plan.flows().into_iter().filter(|flow| flow.kind == FlowKind::Command);
        let names: Vec<String> = commands.map(|flow| format!("`{}`", flow.name.as_ref())).collect();
        (!names.is_empty())
            .then(|| format!("{}: only namespaces can run external programs", names.join(", ")))
    }

    fn run(&self, plan: &Plan<'_>, watch: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        if let Some(text) = self.lacks(plan) {
            return Err(LabError::Missing(text));
        }
        let begun = Instant::now();
        let record = run::Run::new(plan)?.go(watch)?;
        self.spent.add(plan.scenario.duration(), begun.elapsed());
        Ok(record)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn speed(&self) -> Option<f64> {
        self.spent.speed()
    }
}
