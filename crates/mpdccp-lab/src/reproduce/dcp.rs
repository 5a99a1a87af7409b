//! Reproduces the DCP paper (2002): its two experiments, and further experiments that it planned or left
//! open.

mod experiments;
mod row;
mod sections;

use std::path::PathBuf;

use toml::Value;

use super::options::{Options, Progress, command};
use crate::document::Document;
use crate::friendliness::Seen;
use crate::record::seconds;
use crate::runs::{Keep, Runs};
use crate::scenario::Scenario;
use crate::store::{AllSeries, Store};
use crate::{Backend, LabError, Plan, RunRecord, sweep};
pub(super) use experiments::NAME;
use experiments::{
    ACKS, ASYMMETRIC, BIN_S, CROSS_TRAFFIC, ECHO_SEEDS, ECHOES, LONG_S, LOSSES, MANY, Made, QUICK_S, SEEDS,
    with_tcp,
};

/// Title of the report.
const TITLE: &str = "Experimentation of the Datagram Control Protocol (2002), reproduced";
const SHORT: &str = "Quick runs are too short for reliable figures.";

/// One run to be made.
struct Job {
    /// Name of the run's group. Runs that differ only by seed share a name.
    name: String,
    scenario: Scenario,
    label: String,
    seed: u64,
}

impl Job {
    fn plan(&self) -> Result<Plan<'_>, LabError> {
        let Job { name, scenario, label, seed } = self;
        let variant = scenario.variant(label);
        let variant =
            variant.ok_or_else(|| LabError::Failed(format!("{name}: unknown variant `{label}`")))?;
        Ok(Plan { scenario, variant, cell: scenario.headline(), repeat: 0, seed: *seed })
    }
}

/// Makes the missing runs and writes the report.
pub(super) fn run(
    backend: &dyn Backend,
    options: &Options,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<PathBuf, LabError> {
    let jobs = jobs(backend.parallel(), options)?;
    let plans: Vec<Plan<'_>> = jobs.iter().map(Job::plan).collect::<Result<_, LabError>>()?;
    let runs = Runs {
        backend,
        store: Store::open(&options.out.join("runs"))?,
        threads: options.threads,
        keep: Keep::Series(&series),
    };
    let results = runs.make(&plans, &|event| {
        let what = format!("{} {}", jobs[event.index].name, event.plan.seed);
        sweep::Progress::tell(&event, &what, |progress| watch(Progress::Sweep(progress)));
    });
    let (mut made, mut warnings) = (Vec::new(), Vec::from_iter(options.quick.then(|| SHORT.to_owned())));
    for (job, result) in jobs.iter().zip(results) {
        match result {
            Ok(kept) => {
                made.push(Made { name: job.name.clone(), aims: job.scenario.aims.clone(), kept });
            }
            Err(LabError::Failed(why)) => {
                watch(Progress::Failed(&why));
                warnings.push(format!("The run `{}` with seed {} failed: {why}", job.name, job.seed));
            }
            Err(e) => return Err(e),
        }
    }
    // If no run was made, keep an earlier report.
    if made.is_empty()
        && let Some(why) = warnings.pop()
    {
        return Err(LabError::Failed(why));
    }
    let figures = options.out.join("figures");
    let report = options.out.join("report.html");
    Document {
        warnings,
        sections: sections::sections(&made, &figures)?,
        ..Document::new(TITLE, &command(NAME, backend.name(), options))
    }
    .write(&report)?;
    Ok(report)
}

/// Returns the runs to make, in report order.
fn jobs(sim: bool, options: &Options) -> Result<Vec<Job>, LabError> {
    let seeds = if sim && !options.quick { SEEDS } else { 1 };
    let mut jobs = Jobs { all: Vec::new(), seeds, options };
    jobs.add("one-flow", "one-flow", "ccid3", &[])?;
    if sim && !options.quick {
        jobs.add("one-flow", "one-flow-long", "ccid3", &[("duration_s", Value::from(LONG_S))])?;
    }
    for cross in &CROSS_TRAFFIC {
        for n in cross.counts.iter().filter(|n| !options.quick || [1, 4, 9].contains(*n)) {
            let mut values = vec![("flow.tcp.count", Value::from(*n))];
            if cross.key == "cubic" {
                values.push(("flow.tcp.cc", Value::from("cubic")));
            }
            if cross.key == "reno-tail" {
                let tail = toml::Table::from_iter([("kind".to_owned(), Value::from("drop-tail"))]);
                values.push(("path.link.discipline", Value::Table(tail)));
                values.push(("path.link.queue", Value::from("125 packets")));
            }
            if cross.key != "reno" {
                // Remove the scenario's aim, because it applies only to the paper's own experiments.
                values.push(("aim", Value::Array(Vec::new())));
            }
            jobs.add("with-tcp", &with_tcp(cross, *n), "ccid3", &values)?;
        }
    }
    if sim {
        for n in MANY {
            jobs.add("with-tcp", &format!("many-{n}"), "ccid3", &[("flow.tcp.count", Value::from(n))])?;
        }
        jobs.add("fast-link", "fast-link", "ccid3", &[])?;
        for label in ASYMMETRIC {
            jobs.add("asymmetric", &format!("asymmetric-{label}"), label, &[])?;
        }
        for label in ACKS {
            jobs.add("ack-ratio", &format!("ack-ratio-{label}"), label, &[])?;
        }
    }
    jobs.seeds = match (options.quick, sim) {
        (true, _) => 1,
        (false, true) => ECHO_SEEDS,
        (false, false) => SEEDS,
    };
    for label in ECHOES {
        for (loss, share) in LOSSES {
            let values = [("cell.0.loss", Value::from(share))];
            jobs.add("overhead", &format!("overhead-{label}-{loss}"), label, &values)?;
        }
    }
    Ok(jobs.all)
}

/// Returns the series of a run that the figures show, by name.
fn series(plan: &Plan<'_>, run: &RunRecord) -> AllSeries {
    let end = *plan.scenario.duration_s.as_ref();
    let mut all = AllSeries::new();
    // This is the estimate in kB/s, as in the paper, from every tenth row of the trace.
    let estimate = run.trace.iter().step_by(10).filter_map(|row| {
        let t = seconds(run, row.at);
        Some((t, row.pacing_mbps? * 125.0)).filter(|_| (0.0..end).contains(&t))
    });
    all.insert("estimate".to_owned(), estimate.collect());
    let seen = Seen::new(run, 0, end);
    all.insert("friendliness".to_owned(), seen.map(|s| s.friendliness()).unwrap_or_default());
    let first = run.flows.get(..1).unwrap_or_default();
    let others = run.flows.get(1..).unwrap_or_default();
    for (name, flows) in [("dccp", first), ("tcp", others)] {
        let mut bins = vec![0.0; (end / BIN_S) as usize];
        for packet in flows.iter().flat_map(|flow| &flow.received) {
            let t = seconds(run, packet.at);
            if let Some(bin) = bins.get_mut((t / BIN_S) as usize).filter(|_| t >= 0.0) {
                *bin += f64::from(packet.bytes) / 1e3 / BIN_S;
            }
        }
        let point = |(i, rate)| ((i as f64 + 0.5) * BIN_S, rate);
        all.insert(name.to_owned(), bins.into_iter().enumerate().map(point).collect());
    }
    all
}

struct Jobs<'a> {
    all: Vec<Job>,
    seeds: u64,
    options: &'a Options,
}

impl Jobs<'_> {
    /// Adds runs of a scenario with some values changed, one run for each seed.
    fn add(
        &mut self,
        scenario: &str,
        name: &str,
        label: &str,
        values: &[(&str, Value)],
    ) -> Result<(), LabError> {
        let wrong = |e: crate::scenario::ScenarioError| LabError::Failed(e.to_string());
        let mut values = values.to_vec();
        if self.options.quick && scenario != "overhead" {
            values.push(("duration_s", Value::from(QUICK_S)));
        }
        let scenario = Scenario::find(&format!("dcp/{scenario}")).map_err(wrong)?;
        let scenario = scenario.with(&values).map_err(wrong)?;
        for seed in (0..self.seeds).map(|i| self.options.seed.wrapping_add(i)) {
            self.all.push(Job {
                name: name.to_owned(),
                scenario: scenario.clone(),
                seed,
                label: label.to_owned(),
            });
        }
        Ok(())
    }
}
