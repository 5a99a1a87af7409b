//! Makes runs: those that are missing in the store, as many at a time as the backend allows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::metrics::run_stats;
use crate::store::{AllSeries, Kept, Key, Store};
use crate::summary::Run;
use crate::{Backend, LabError, Plan, RunRecord, Sample};

/// What happens to one run of several, for those who watch.
#[derive(Debug)]
pub struct Event<'a> {
    /// The run.
    pub plan: Plan<'a>,
    /// Its place in the list, from 0.
    pub index: usize,
    /// Runs that ended so far, this one included if it did.
    pub ended: usize,
    /// Runs in all.
    pub total: usize,
    /// What happened.
    pub what: What<'a>,
}

/// What happens to a run.
#[derive(Debug)]
pub enum What<'a> {
    /// It begins.
    Begin,
    /// It goes on; told only where one run is made at a time.
    Sample(&'a Sample),
    /// It is over.
    Done {
        /// Its figures.
        run: &'a Run,
        /// It was made earlier.
        found: bool,
    },
    /// It failed; the others go on.
    Failed(&'a LabError),
    /// The runs that follow leave out these flows, which the backend cannot carry.
    LeavesOut(&'a str),
    /// It and the others of its variant are left out, since the backend lacks this for it.
    Skipped(&'a str),
}

/// What a store keeps of a run besides its figures.
#[derive(Clone, Copy)]
pub enum Keep<'a> {
    /// Nothing.
    Figures,
    /// All packets.
    Packets,
    /// These.
    Series(&'a (dyn Fn(&Plan<'_>, &RunRecord) -> AllSeries + Sync)),
}

/// Where runs are made and kept.
pub struct Runs<'a> {
    /// Makes them.
    pub backend: &'a dyn Backend,
    /// Keeps them.
    pub store: Store,
    /// At a time, if the backend can.
    pub threads: usize,
    /// How much is kept.
    pub keep: Keep<'a>,
}

impl Runs<'_> {
    /// Makes those of `plans` that the store has not; what became of each, in their order. Those that were not begun because the user
    /// interrupted or the machine lacks something have that as their error.
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
                    // The same seed may have another place among the repeats.
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
        let whole = !matches!(self.keep, Keep::Packets) || self.store.packets(key).is_some();
        whole.then_some(kept)
    }

    fn one(&self, plan: &Plan<'_>, key: Key, alone: bool, tell: &dyn Fn(What<'_>)) -> Result<Kept, LabError> {
        tell(What::Begin);
        let sample = &mut |sample: &Sample| {
            if alone {
                tell(What::Sample(sample));
            }
        };
        let ran = catch_unwind(AssertUnwindSafe(|| self.backend.run(plan, sample)));
        let record = ran.map_err(|_| LabError::Failed("it panicked".to_owned()))??;
        let series = match self.keep {
            Keep::Series(series) => series(plan, &record),
            Keep::Figures | Keep::Packets => AllSeries::new(),
        };
        let kept = Kept { key, run: run_stats(plan, &record), series, found: false };
        self.store.keep(&kept, matches!(self.keep, Keep::Packets).then_some(&record))?;
        Ok(kept)
    }
}
