//! The same points on network namespaces, with the kernel's TCP as references and as company.

use serde::{Deserialize, Serialize};

use super::criterion::{Criterion, PACKET};
use super::draw::{Company, Point};
use super::figures::Figures;
use super::point_runs::{PATH, Source, class, runs};
use super::verdict::{Runs, verdict};
use crate::LabError;
use crate::netns::Netns;

/// Fastest link that namespaces can carry in time, Mbit/s.
pub(super) const FASTEST: f64 = 200.0;
/// Backends agree if a figure differs by at most this share.
const SAME: f64 = 0.15;
/// Differences of latency (ms, in addition to one packet) and of loss that do not count.
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
    /// `None` if namespaces cannot run it; `why` says the reason.
    pub(super) kernel: Option<Figures>,
    pub(super) why: String,
    /// Whether the variant meets the point on each backend; `None` for references.
    pub(super) met: Option<(bool, bool)>,
    /// Figures that differ.
    pub(super) differs: Vec<String>,
}

/// Runs a point on namespaces, and compares it with the simulator's runs.
pub(super) fn pairs(
    criterion: &Criterion,
    netns: &Netns,
    point: &Point,
    (variants, sim): (&[&str], &Runs),
) -> Result<Vec<Pair>, LabError> {
    let source = Source { backend: netns, references: None };
    let (kernel, why) = match runs(&source, point, variants) {
        Ok(kernel) => (kernel, String::new()),
        // Only the simulator has the point's source, for example.
        Err(LabError::Missing(why)) => (Runs::new(), why),
        Err(e) => return Err(e),
    };
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

/// Whether values differ by more than a share and a floor.
fn far(a: f64, b: f64, floor: f64) -> bool {
    (a - b).abs() > floor + SAME * a.max(b)
}

/// Figures of a point that differ between the backends.
fn differs(point: &Point, sim: &Figures, kernel: &Figures) -> Vec<String> {
    let sum = |f: &Figures| f.mbps.iter().sum::<f64>();
    // The shares of flows that compete vary from run to run; their sum does not.
    let (a, b) = match point.company {
        Company::Alone | Company::Short => {
            (sim.mbps.first().copied().unwrap_or(0.0), kernel.mbps.first().copied().unwrap_or(0.0))
        }
        Company::Own(_) | Company::Tcp(_) => (sum(sim), sum(kernel)),
    };
    let packet_ms = if point.mbps > 0.0 { PACKET * 8.0 / point.mbps / 1e3 } else { 0.0 };
    let all = [
        ("rate", far(a, b, 0.0)),
        ("latency", far(sim.p95_ms, kernel.p95_ms, SAME_MS + packet_ms)),
        ("loss", far(sim.lost, kernel.lost, SAME_LOST)),
    ];
    all.into_iter().filter(|(_, far)| *far).map(|(name, _)| name.to_owned()).collect()
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
