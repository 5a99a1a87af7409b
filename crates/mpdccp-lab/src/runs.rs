//! Makes the runs that are missing from the store, in parallel if the backend allows it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::metrics::run_stats;
use crate::store::{AllSeries, Kept, Key, Store};
use crate::summary::Run;
use crate::{Backend, LabError, Plan, RunRecord, Sample};

/// An event of one of several runs, for the live view.
#[derive(Debug)]
pub struct Event<'a> {
    /// The run.
    pub plan: Plan<'a>,
    /// The run's index in the list.
    pub index: usize,
    /// Number of runs that have ended, including this run if it has ended.
    pub ended: usize,
    /// Total number of runs.
    pub total: usize,
    /// Kind of the event.
    pub what: What<'a>,
}

/// Kinds of events.
#[derive(Debug)]
pub enum What<'a> {
    /// The run begins.
    Begin,
    /// Progress of the run, reported only if runs are not made in parallel.
    Sample(&'a Sample),
    /// The run has finished.
    Done {
        /// Results of the run.
        run: &'a Run,
        /// Whether the run was found in the store.
        found: bool,
    },
    /// The run failed. The others continue.
    Failed(&'a LabError),
    /// The runs that follow will skip these flows, which the backend does not support.
    LeavesOut(&'a str),
    /// All runs of this variant are skipped, because the backend lacks this prerequisite.
    Skipped(&'a str),
}

/// Selects what the store keeps besides the results of a run.
#[derive(Clone, Copy)]
pub enum Keep<'a> {
    /// The store keeps no other data.
    Figures,
    /// The store keeps all packets.
    Packets,
    /// The store keeps these series.
    Series(&'a (dyn Fn(&Plan<'_>, &RunRecord) -> AllSeries + Sync)),
}

/// Makes runs with one backend and stores them.
pub struct Runs<'a> {
    /// The backend that makes the runs.
    pub backend: &'a dyn Backend,
    /// The store of the runs.
    pub store: Store,
    /// Maximum number of parallel runs, if the backend can make runs in parallel.
    pub threads: usize,
    /// Data to keep in the store.
    pub keep: Keep<'a>,
}

/// Calls `run`. If it panics, returns an error, so that the other runs continue.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T, LabError>) -> Result<T, LabError> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(LabError::Failed("the run panicked".to_owned())))
}

impl Runs<'_> {
    /// Makes the runs of `plans` that the store lacks, and returns all results in order. If an interruption,
    /// a missing prerequisite or a failing command prevents a run, the run's result is that error.
    pub fn make(
        &self,
        plans: &[Plan<'_>],
        watch: &(dyn Fn(Event<'_>) + Sync),
    ) -> Vec<Result<Kept, LabError>> {
        let threads = if self.backend.parallel() { self.threads.clamp(1, plans.len().max(1)) } else { 1 };
        let (next, ended, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let results: Mutex<Vec<Option<Result<Kept, LabError>>>> =
            Mutex::new(plans.iter().map(|_| None).collect());
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(plan) = plans.get(index).filter(|_| !stop.load(Ordering::Relaxed)) else { return };
                let total = plans.len();
                let tell = |what: What<'_>| {
                    let ended = ended.load(Ordering::Relaxed);
                    watch(Event { plan: *plan, index, ended, total, what });
                };
                let key = Key::of(plan, self.backend);
                let result = match self.find(&key) {
                    // A stored run with the same seed may have a different repeat index, so replace the
                    // index.
                    Some(kept) => {
                        Ok(Kept { run: Run { repeat: plan.repeat, ..kept.run }, found: true, ..kept })
                    }
                    None => self.one(plan, key, threads == 1, &tell),
                };
                ended.fetch_add(1, Ordering::Relaxed);
                match &result {
                    Ok(kept) => tell(What::Done { run: &kept.run, found: kept.found }),
                    Err(e) => {
                        stop.fetch_or(!matches!(e, LabError::Failed(_)), Ordering::Relaxed);
                        tell(What::Failed(e));
                    }
                }
                if let Ok(mut results) = results.lock() {
                    results[index] = Some(result);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        let results = results.into_inner().unwrap_or_default();
        results.into_iter().map(|r| r.unwrap_or(Err(LabError::Interrupted))).collect()
    }

    fn find(&self, key: &Key) -> Option<Kept> {
        let kept = self.store.find(key)?;
        // Another command may have stored the run without its packets or series.
        let whole = match self.keep {
            Keep::Figures => true,
            Keep::Packets => self.store.packets(key).is_some(),
            Keep::Series(_) => !kept.series.is_empty(),
        };
        whole.then_some(kept)
    }

    fn one(&self, plan: &Plan<'_>, key: Key, alone: bool, tell: &dyn Fn(What<'_>)) -> Result<Kept, LabError> {
        tell(What::Begin);
        let sample = &mut |sample: &Sample| {
            if alone {
                tell(What::Sample(sample));
            }
        };
        let record = caught(|| self.backend.run(plan, sample))?;
        let series = match self.keep {
            Keep::Series(series) => series(plan, &record),
            Keep::Figures | Keep::Packets => AllSeries::new(),
        };
        let kept = Kept { key, run: run_stats(plan, &record), series, found: false };
        self.store.keep(&kept, matches!(self.keep, Keep::Packets).then_some(&record))?;
        Ok(kept)
    }
}
