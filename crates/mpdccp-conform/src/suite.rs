//! Runs scripts in parallel.

use crate::net::{Route, Sockets};
use crate::run::{self, Failure, Target};
use crate::script::Script;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The result of a test.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// All expectations of the script were met.
    Passed,
    /// An expectation of the script was not met.
    Failed(Failure),
    /// The script was not run because the target lacks a feature it needs.
    Skipped(String),
}

/// A test and its result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The test.
    pub script: Script,
    /// Result of the test.
    pub verdict: Verdict,
    /// Duration of the test.
    pub took: Duration,
}

/// Runs all scripts, up to `jobs` at a time, and reports each result as soon as the script ends. `lacks`
/// lists the features that the target does not have.
pub fn play(
    scripts: &[Script],
    route: &Route,
    target: Target,
    lacks: &[String],
    jobs: usize,
    told: &(dyn Fn(&Outcome) + Sync),
) -> Vec<Outcome> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begun = Instant::now();
            let missing = script.needs.iter().find(|need| lacks.contains(need));
            let verdict = match missing {
                Some(need) => Verdict::Skipped(need.clone()),
                None => match run::play(script, &mut Sockets::new(route.clone()), target) {
                    Ok(()) => Verdict::Passed,
                    Err(failure) => Verdict::Failed(failure),
                },
            };
            let outcome = Outcome { script: script.clone(), verdict, took: begun.elapsed() };
            told(&outcome);
            outcomes.lock().unwrap_or_else(|e| e.into_inner()).push(outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, scripts.len().max(1)) {
            scope.spawn(work);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(|e| e.into_inner());
    outcomes.sort_by(|a, b| a.script.name.cmp(&b.script.name));
    outcomes
}
