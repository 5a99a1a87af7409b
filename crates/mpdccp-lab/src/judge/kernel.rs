//! Runs the judge's points also on a backend on which the references and the competing flows use the kernel's
//! TCP.

use serde::{Deserialize, Serialize};

use super::criterion::{Criterion, PACKET};
use super::figures::{Figures, median};
use super::point_runs::{PATH, Source, class, runs};
use super::random_links::{Company, Point};
use super::verdict::{Runs, verdict};
use crate::{Backend, LabError};

/// Rate of the fastest link that namespaces can emulate without falling behind, in Mbit/s.
pub(super) const FASTEST: f64 = 200.0;
/// Number of runs of each point on each backend.
const RUNS: u64 = 5;
/// Allowed difference between the backends, as a fraction of the larger value.
const SAME: f64 = 0.15;
/// Differences allowed in addition to [`SAME`]: for the latency, in ms, plus the transmission time of one
/// packet; for losses, as a fraction of all packets.
const SAME_MS: f64 = 1.0;
const SAME_LOST: f64 = 0.005;

/// One congestion control at one point on both backends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pair {
    pub(super) index: u64,
    pub(super) class: String,
    pub(super) words: String,
    pub(super) label: String,
    pub(super) sim: Figures,
    /// Results on the backend with the kernel. `None` if this backend cannot run the point, or if a run
    /// failed; `why` then gives the reason.
    pub(super) kernel: Option<Figures>,
    pub(super) why: String,
    /// Whether the variant meets the criterion in the simulator and with the kernel. `None` for references.
    pub(super) met: Option<(bool, bool)>,
    /// Names of the values that differ, from [`VALUES`].
    pub(super) differs: Vec<String>,
}

/// Values that are compared.
pub(super) const VALUES: [&str; 3] = ["rate", "latency", "loss"];

/// Runs a point several times on both backends, and compares the medians.
pub(super) fn pairs(
    criterion: &Criterion,
    (sim, kernel): (&Source<'_>, &dyn Backend),
    point: &Point,
    variants: &[&str],
) -> Result<Vec<Pair>, LabError> {
    let kernel = Source { backend: kernel, references: None };
    let (kernel, why) = match several(&kernel, point, variants) {
        Ok(kernel) => (kernel, String::new()),
        // If only the simulator supports the point's source, or if a run failed, report the point without
        // kernel results.
        Err(LabError::Missing(why) | LabError::Failed(why)) => (Runs::new(), why),
        Err(e) => return Err(e),
    };
    let sim = &several(sim, point, variants)?;
    let met = |label: &str, runs: &Runs| verdict(criterion, point, label, runs).map(|v| v.met);
    let pair = |(label, figures): (&String, &Figures)| {
        let both = kernel.get(label);
        Pair {
            index: point.index,
            class: class(point),
            words: point.words.join("; "),
            label: label.clone(),
            sim: figures.clone(),
            kernel: both.cloned(),
            why: why.clone(),
            met: Some(label)
                .filter(|label| variants.contains(&label.as_str()))
                .and_then(|label| met(label, sim).zip(met(label, &kernel))),
            differs: both.map_or(Vec::new(), |both| differs(point, figures, both)),
        }
    };
    Ok(sim.iter().filter(|(label, _)| *label != PATH).map(pair).collect())
}

/// Returns the medians of [`RUNS`] runs. Each run has a different seed; the seeds are the same on both
/// backends.
fn several(source: &Source<'_>, point: &Point, variants: &[&str]) -> Result<Runs, LabError> {
    let one = |run: u64| {
        let seed = point.seed.wrapping_add(run.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        runs(source, &Point { seed, ..point.clone() }, variants)
    };
    let all = (0..RUNS).map(one).collect::<Result<Vec<Runs>, LabError>>()?;
    let labels = all.first().into_iter().flat_map(Runs::keys);
    Ok(labels.map(|label| (label.clone(), median(all.iter().filter_map(|runs| runs.get(label))))).collect())
}

/// Returns whether two values differ by more than `floor` plus the fraction [`SAME`] of the larger one.
fn far(a: f64, b: f64, floor: f64) -> bool {
    (a - b).abs() > floor + SAME * a.max(b)
}

/// Returns the names of the values that differ between the backends.
fn differs(point: &Point, sim: &Figures, kernel: &Figures) -> Vec<String> {
    let sum = |f: &Figures| f.mbps.iter().sum::<f64>();
    // Compare the sums of the rates, because the shares of competing flows vary from run to run, but their
    // sum does not.
    let (a, b) = match point.company {
        Company::Alone | Company::Short => {
            (sim.mbps.first().copied().unwrap_or(0.0), kernel.mbps.first().copied().unwrap_or(0.0))
        }
        Company::Own(_) | Company::Tcp(_) => (sum(sim), sum(kernel)),
    };
    let packet_ms = if point.mbps > 0.0 { PACKET * 8.0 / point.mbps / 1e3 } else { 0.0 };
    let all = [
        far(a, b, 0.0),
        far(sim.p95_ms, kernel.p95_ms, SAME_MS + packet_ms),
        far(sim.lost, kernel.lost, SAME_LOST),
    ];
    VALUES.into_iter().zip(all).filter(|(_, far)| *far).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_and_shares_of_competing_flows_do_not_count() {
        let figures =
            |mbps: &[f64], p95_ms, lost| Figures { mbps: mbps.to_vec(), p95_ms, lost, ..Figures::default() };
        let alone = Point { mbps: 12.0, ..Point::default() };
        let sim = figures(&[10.0], 20.0, 0.01);
        assert_eq!(differs(&alone, &sim, &figures(&[9.0], 24.0, 0.015)), [""; 0]);
        assert_eq!(differs(&alone, &sim, &figures(&[8.0], 30.0, 0.02)), ["rate", "latency", "loss"]);
        let company = Point { company: Company::Tcp(&["cubic"]), ..alone };
        let (sim, kernel) = (figures(&[6.0, 4.0], 20.0, 0.0), figures(&[3.0, 7.0], 20.0, 0.0));
        assert_eq!(differs(&company, &sim, &kernel), [""; 0]);
    }
}
