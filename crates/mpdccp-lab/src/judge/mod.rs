//! `mpdccp lab judge` compares congestion controls on random links. Points are drawn from a documented
//! distribution; all variants and the references run at each point, and a single criterion judges every
//! variant (docs/judge.md).

mod criterion;
mod dice;
mod figures;
mod kept;
mod kernel;
mod options;
mod point_runs;
mod random_links;
mod report;
mod text;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::Criterion;
use kept::Kept;
pub use options::Options;
use point_runs::{Source, bbr, class, kernel_of, runs};
use random_links::{Distribution, Point};
use report::{Judged, Row};
use verdict::{Runs, verdict};

use crate::sim::Sim;
use crate::summary::distinct;
use crate::{LabError, code};

/// Default variants.
pub const VARIANTS: [&str; 9] =
    ["ccid2", "ccid3", "ccid4", "ccid5", "ccid5-draft", "ccid7", "ccid250", "ccid250-draft", "ccid252"];
/// Returns the seed for published results. It changes whenever the sources of the congestion controls change.
pub fn release_seed() -> u64 {
    env!("MPDCCP_CC_SOURCES").parse().unwrap_or(1)
}

/// Judges the variants, writes `judge.json` and `judge.md` to `out`, and returns the text of the latter.
///
/// # Errors
/// Fails if a variant or point is unknown, or if a run fails. If only some points fail, the files have the
/// other points.
pub fn run(options: &Options, watch: &(dyn Fn(u64, u64) + Sync)) -> Result<String, LabError> {
    let only: Vec<&str> = distinct(options.only.iter().map(String::as_str));
    if let Some(unknown) = only.iter().find(|label| !VARIANTS.contains(label)) {
        return Err(LabError::Wrong(format!(
            "unknown variant `{unknown}`; expected one of: {}",
            VARIANTS.join(", ")
        )));
    }
    let variants: Vec<&str> = if only.is_empty() { VARIANTS.to_vec() } else { only };
    let before = options.against.as_deref().map(report::read).transpose()?;
    let distribution = random_links::read()?;
    let indices = indices(&distribution, options)?;
    if indices.is_empty() {
        let text =
            "no point to judge: the options select none (`--kernel` leaves out points above 200 Mbit/s)";
        return Err(LabError::Wrong(text.to_owned()));
    }
    let sim = Sim::default();
    let references = Kept::new(&options.references, &distribution, bbr)?;
    let source = Source { backend: &sim, references: Some(&references) };
    let judged = judged(&distribution, &source, options, &variants, &indices, watch)?;
    let text = report::write(&options.out, &judged, before.as_ref())?;
    match judged.failed.len() {
        0 => Ok(text),
        n => Err(LabError::Failed(format!(
            "{n} of {} points failed; {} has the errors, and the results of the other points",
            indices.len(),
            options.out.join("judge.md").display()
        ))),
    }
}

/// Makes the runs of all points, and returns the verdicts.
///
/// # Errors
/// Fails if all points fail, or if an error other than a failed run occurs.
fn judged(
    distribution: &Distribution,
    source: &Source<'_>,
    options: &Options,
    variants: &[&str],
    indices: &[u64],
    watch: &(dyn Fn(u64, u64) + Sync),
) -> Result<Judged, LabError> {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let results: Mutex<BTreeMap<u64, Result<Runs, LabError>>> = Mutex::new(BTreeMap::new());
    let of = indices.len() as u64 * if options.kernel.is_some() { 2 } else { 1 };
    let work = || {
        while let Some(index) = indices.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let runs = runs(source, &distribution.point(options.seed, *index), variants);
            let interrupted = matches!(runs, Err(LabError::Interrupted));
            watch(done.fetch_add(1, Ordering::Relaxed) + 1, of);
            if let Ok(mut results) = results.lock() {
                results.insert(*index, runs);
            }
            if interrupted {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(work);
        }
    });
    let mut by = code::words();
    if let (Some(backend), Some(index)) = (&options.kernel, indices.first()) {
        let kernel = kernel_of(backend.as_ref(), &distribution.point(options.seed, *index))?;
        by = format!("{by}, kernel {kernel}");
    }
    let mut judged = Judged {
        made_by: format!("`{}`, {by}.", command(options)),
        seed: options.seed,
        variants: variants.iter().map(|label| (*label).to_owned()).collect(),
        rows: Vec::new(),
        kernel: Vec::new(),
        failed: BTreeMap::new(),
    };
    for (index, result) in results.into_inner().unwrap_or_default() {
        let point = distribution.point(options.seed, index);
        let of_point = result.and_then(|runs| {
            let rows = judge_rows(&distribution.criterion, &point, variants, &runs);
            let Some(kernel) = &options.kernel else { return Ok((rows, Vec::new())) };
            // Run one point at a time: parallel runs in namespaces would disturb each other.
            let pairs = kernel::pairs(&distribution.criterion, (source, kernel.as_ref()), &point, variants)?;
            watch(done.fetch_add(1, Ordering::Relaxed) + 1, of);
            Ok((rows, pairs))
        });
        match of_point {
            Ok((rows, pairs)) => {
                judged.rows.extend(rows);
                judged.kernel.extend(pairs);
            }
            Err(LabError::Failed(why)) => _ = judged.failed.insert(index, why),
            Err(e) => return Err(e),
        }
    }
    // Keep the output of an earlier judgement if there is nothing to replace it.
    if judged.rows.is_empty()
        && let Some(why) = judged.failed.values().next()
    {
        return Err(LabError::Failed(why.clone()));
    }
    Ok(judged)
}

/// Returns a command that gives the same results.
fn command(options: &Options) -> String {
    let mut text = format!("mpdccp lab judge --draws {} --seed {}", options.draws, options.seed);
    let point = options.point.map(|point| format!(" --point {point}"));
    let class = options.class.as_ref().map(|class| format!(" --class \"{class}\""));
    let only = options.only.iter().map(|label| format!(" --only {label}"));
    let kernel = options.kernel.as_ref().map(|kernel| format!(" --kernel={}", kernel.name()));
    text.extend(point.into_iter().chain(class).chain(only).chain(kernel));
    text
}

/// Returns the indices of the points that the options select.
fn indices(distribution: &Distribution, options: &Options) -> Result<Vec<u64>, LabError> {
    let names: Vec<&str> = distribution.classes.iter().map(|class| class.name.as_str()).collect();
    if let Some(class) = options.class.as_deref().filter(|class| !names.contains(class)) {
        return Err(LabError::Wrong(format!(
            "unknown class `{class}`; expected one of: {}",
            names.join(", ")
        )));
    }
    let all = options.point.map_or(0..options.draws, |point| point..point.saturating_add(1));
    let slow = |index: &u64| distribution.point(options.seed, *index).mbps <= kernel::FASTEST;
    let all = all.filter(|index| options.kernel.is_none() || slow(index));
    // The classes of the points alternate, so the index determines the class.
    let name = |index: u64| names.get(index as usize % names.len()).copied();
    Ok(all.filter(|index| options.class.is_none() || options.class.as_deref() == name(*index)).collect())
}

/// Returns the verdicts on all variants at one point.
fn judge_rows(criterion: &Criterion, point: &Point, variants: &[&str], runs: &Runs) -> Vec<Row> {
    let row = |label: &&str| {
        let verdict = verdict(criterion, point, label, runs)?;
        Some(Row {
            index: point.index,
            class: class(point),
            words: point.words.join("; "),
            label: (*label).to_owned(),
            figures: runs.get(*label)?.clone(),
            verdict,
        })
    };
    variants.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, Plan, RunRecord, Sample};

    fn options(class: &str, point: Option<u64>) -> Options {
        Options {
            draws: 30,
            seed: 1,
            point,
            class: Some(class.to_owned()),
            only: Vec::new(),
            jobs: 1,
            out: "".into(),
            references: "".into(),
            against: None,
            kernel: None,
        }
    }

    #[test]
    fn the_command_names_all_that_selects_runs() {
        let begin = "mpdccp lab judge --draws 30 --seed 1";
        assert_eq!(command(&Options { class: None, ..options("", None) }), begin);
        let some = Options { only: vec!["ccid5".to_owned()], ..options("with CUBIC", Some(3)) };
        assert_eq!(command(&some), format!("{begin} --point 3 --class \"with CUBIC\" --only ccid5"));
        let kernel = Options { kernel: Some(Box::new(Sim::default())), ..options("policed", None) };
        assert_eq!(command(&kernel), format!("{begin} --class \"policed\" --kernel=sim"));
    }

    #[test]
    fn a_class_is_judged_alone() {
        let distribution = random_links::read().unwrap();
        let policed = indices(&distribution, &options("policed", None)).unwrap();
        assert_eq!(policed, [2, 16]);
        assert!(policed.iter().all(|i| distribution.point(1, *i).class == "policed"));
        assert_eq!(indices(&distribution, &options("policed", Some(3))).unwrap(), [0; 0]);
        let error = run(&options("policed", Some(3)), &|_, _| {}).unwrap_err();
        assert!(matches!(&error, LabError::Wrong(why) if why.contains("no point")), "{error}");
        let error = indices(&distribution, &options("polite", None)).unwrap_err().to_string();
        assert!(error.contains("unknown class `polite`") && error.contains("drop-tail, AQM"), "{error}");
    }

    /// A backend whose runs have no packets, and panic at one point.
    struct Panics(&'static str);

    impl Backend for Panics {
        fn name(&self) -> &'static str {
            "panics"
        }

        fn run(&self, plan: &Plan<'_>, _: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
            assert_ne!(plan.scenario.file(), self.0);
            Ok(RunRecord::default())
        }
    }

    #[test]
    fn a_panic_costs_only_its_own_point() {
        let distribution = random_links::read().unwrap();
        let options = Options { class: None, ..options("", None) };
        let of = |backend: Panics, indices: &[u64]| {
            let source = Source { backend: &backend, references: None };
            judged(&distribution, &source, &options, &["ccid5"], indices, &|_, _| {})
        };
        let judged = of(Panics("point 1"), &[0, 1, 2]).unwrap();
        assert_eq!(judged.rows.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(judged.failed, BTreeMap::from([(1, "the run panicked".to_owned())]));
        assert!(matches!(of(Panics("point 1"), &[1]), Err(LabError::Failed(_))));
    }

    #[test]
    fn a_point_is_judged_the_same_each_time() {
        let distribution = random_links::read().unwrap();
        // This point has an application-limited source, and a low rate that makes its runs fast.
        let mut point = distribution.point(3, 8);
        (point.mbps, point.settle_s, point.end_s) = (1.0, 2.0, 6.0);
        let once = || {
            let dir = tempfile::tempdir().unwrap();
            let kept = Kept::new(dir.path(), &distribution, bbr).unwrap();
            let source = Source { backend: &Sim::default(), references: Some(&kept) };
            let runs = runs(&source, &point, &["ccid5", "ccid7"]).unwrap();
            judge_rows(&distribution.criterion, &point, &["ccid5", "ccid7"], &runs)
        };
        let twice = [once(), once()];
        assert_eq!(twice[0].len(), 2);
        assert_eq!(twice[0], twice[1]);
        assert!(twice[0].iter().all(|row| row.figures.mbps[0] > 0.0), "{:?}", twice[0]);
    }
}
