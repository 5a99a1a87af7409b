//! Makes all runs at a [`Point`], which is a random link with traffic.

use super::figures::{Figures, figures};
use super::kept::Kept;
use super::random_links::{Company, Point};
use super::verdict::{Runs, twin};
use crate::runs::caught;
use crate::scenario::Scenario;
use crate::sim::Sim;
use crate::{Backend, LabError, Plan};

/// Reference congestion controls.
const REFERENCES: [&str; 2] = ["cubic", "bbr"];

/// Label of a flow with a low rate, which measures the path's latency without other traffic.
pub(super) const PATH: &str = "udp";

/// Runs BBR with the competing traffic of a point in the simulator.
pub(super) fn bbr(point: &Point) -> Result<Figures, LabError> {
    one(&Sim::default(), point, &scenario(point, false, false)?, "bbr")
}

/// The backend that makes runs, and stored results.
pub(super) struct Source<'a> {
    pub(super) backend: &'a dyn Backend,
    /// Stored results of the simulator's references.
    pub(super) references: Option<&'a Kept<'a>>,
}

/// Runs all variants and the references at one point.
pub(super) fn runs(source: &Source<'_>, point: &Point, variants: &[&str]) -> Result<Runs, LabError> {
    let mut labels = REFERENCES.to_vec();
    if variants.iter().any(|label| twin(label) == "reno")
        && matches!(point.company, Company::Alone | Company::Short)
    {
        labels.push("reno");
    }
    let company = scenario(point, false, false)?;
    let reference = |alone: bool, thin: bool, label: &str| {
        let run = || one(source.backend, point, &scenario(point, alone, thin)?, label);
        match source.references {
            Some(kept) => kept.get(point, &point.scenario(alone, thin), label, run),
            None => run(),
        }
    };
    let mut runs = Runs::new();
    for label in labels {
        runs.insert(label.to_owned(), reference(false, false, label)?);
    }
    for label in variants {
        runs.insert((*label).to_owned(), one(source.backend, point, &company, label)?);
    }
    runs.insert(PATH.to_owned(), reference(true, true, "udp")?);
    if matches!(point.company, Company::Own(_)) {
        let alone = scenario(point, true, false)?;
        for label in variants {
            runs.insert(format!("{label}-alone"), one(source.backend, point, &alone, label)?);
        }
    }
    Ok(runs)
}

/// Returns the point's class. Points with competing TCP flows and a separate queue for each flow form classes
/// of their own.
pub(super) fn class(point: &Point) -> String {
    let apart = point.fair_queue && matches!(point.company, Company::Tcp(_));
    if apart { format!("{}, fair queue", point.class) } else { point.class.clone() }
}

fn scenario(point: &Point, alone: bool, thin: bool) -> Result<Scenario, LabError> {
    let name = format!("point {}", point.index);
    Scenario::parse(&name, &point.scenario(alone, thin)).map_err(|e| LabError::Failed(e.to_string()))
}

/// Returns the name of the kernel on which a backend runs a point.
pub(super) fn kernel_of(backend: &dyn Backend, point: &Point) -> Result<String, LabError> {
    let scenario = scenario(point, true, true)?;
    let plan = plan(&scenario, point, PATH)?;
    Ok(backend.made_by(&plan).remove("kernel").unwrap_or_else(|| "unknown".to_owned()))
}

fn plan<'a>(scenario: &'a Scenario, point: &Point, label: &str) -> Result<Plan<'a>, LabError> {
    let variant = scenario.variant(label);
    let variant = variant.ok_or_else(|| LabError::Failed(format!("unknown variant `{label}`")))?;
    Ok(Plan { scenario, variant, cell: scenario.headline(), repeat: 0, seed: point.seed })
}

fn one(backend: &dyn Backend, point: &Point, scenario: &Scenario, label: &str) -> Result<Figures, LabError> {
    let plan = plan(scenario, point, label)?;
    caught(|| Ok(figures(point, &plan, &backend.run(&plan, &mut |_| {})?)))
}
