//! Judges whether results meet a scenario's aims.

use crate::Scenario;
use crate::bounds::Bounds;
use crate::estimate::{Estimate, Verdict, difference, paired};
use crate::scenario::Aim;
use crate::summary::{Run, values};

/// Returns whether `aim` applies to this variant in this cell.
pub(crate) fn applies(aim: &Aim, scenario: &Scenario, label: &str, cell: &str) -> bool {
    let here = match &aim.cell {
        Some(named) => named.as_ref() == cell || named.as_ref() == "all",
        None => scenario.headline().name == cell,
    };
    aim.label.as_ref() == label && here
}

/// Returns the verdict on `aim`, or `None` if the aim compares with another variant that has not run. `ours`
/// holds the seed and value of each run.
pub(crate) fn judge(
    aim: &Aim,
    value: Estimate,
    ours: &[(u64, f64)],
    cell: &str,
    all: &[Run],
) -> Option<Verdict> {
    let alone = aim.bounds().judge(value);
    let Some(label) = &aim.not_above else { return Some(alone) };
    let others = all.iter().filter(|run| run.label == *label.as_ref() && run.cell == cell);
    let theirs = values(others, aim.metric.as_ref());
    let beside = difference(&paired(ours, &theirs)).map(|e| Bounds { min: None, max: Some(0.0) }.judge(e))?;
    Some(alone.max(beside))
}
