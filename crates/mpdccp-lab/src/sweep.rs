//! Many runs in the simulator: every contender at every point of a scenario's `[sweep]`, one CSV row each, on all cores, resumable.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::metrics::{NAMES, run_stats};
use crate::scenario::{Point, Scenario};
use crate::sim::Sim;
use crate::{Backend, LabError, Plan};

/// How a sweep is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CSV file; what it holds already is not run again.
    pub out: PathBuf,
    /// The first seed.
    pub seed: u64,
    /// Runs at a time.
    pub threads: usize,
    /// Labels; all contenders if empty.
    pub only: Vec<String>,
    /// Seeds for each point; the scenario's number if absent.
    pub seeds: Option<u32>,
}

/// One run that ended.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Ended so far, those found in the file included.
    pub done: usize,
    /// Of so many.
    pub total: usize,
    /// Contender, seed and values.
    pub what: &'a str,
    /// Why it failed, if it did.
    pub error: Option<&'a str>,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Runs found in the file.
    pub found: usize,
    /// Runs made now.
    pub made: usize,
    /// Runs that failed, with the reason.
    pub failed: Vec<(String, String)>,
    /// Medians over the seeds of the metrics that the sweep shows, as text.
    pub table: String,
    /// The same as numbers, in the order of the sweep.
    pub medians: Vec<Median>,
}

/// One contender at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Median {
    /// Contender.
    pub label: String,
    /// Values of the parameters, in the order of their names.
    pub values: Vec<String>,
    /// The metrics that the sweep shows, in its order.
    pub shown: Vec<Option<f64>>,
}

/// One run to be made: the columns that tell it from all others, and where its scenario is.
struct Job {
    key: Vec<String>,
    point: usize,
    contender: usize,
    seed: u64,
}

/// A field as CSV wants it (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn line(fields: &[String]) -> String {
    fields.iter().map(|f| field(f)).collect::<Vec<_>>().join(",")
}

/// Runs what is missing. The rows come in the order in which runs end, and are put in the order of the sweep at the end.
///
/// # Errors
/// If the scenario has no sweep or a point of it makes no sense, or the file cannot be read or written. A run that fails is no error here.
pub fn run(
    name_or_file: &str,
    options: &Options,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Outcome, LabError> {
    let wrong = |e: crate::scenario::ScenarioError| LabError::Failed(e.to_string());
    let (file, text) = Scenario::text(name_or_file).map_err(wrong)?;
    let scenario = Scenario::parse(&file, &text).map_err(wrong)?;
    let points = scenario.points(&file, &text).map_err(wrong)?;
    let Some(sweep) = &scenario.sweep else { return Ok(Outcome::default()) };
    let jobs = jobs(&scenario, &points, options.seeds.unwrap_or(sweep.seeds), options)?;
    let keys = 2 + sweep.parameters.len();
    let mut header = vec!["contender".to_owned(), "seed".to_owned()];
    header.extend(sweep.parameters.keys().cloned());
    header.extend(NAMES.iter().map(|(name, _)| (*name).to_owned()));
    let header = line(&header);

    let mut rows = existing(&options.out, &header, keys)?;
    let missing: Vec<&Job> = jobs.iter().filter(|job| !rows.contains_key(&line(&job.key))).collect();
    let (total, found) = (jobs.len(), jobs.len() - missing.len());
    let writing = |e| LabError::failed(format!("writing {}", options.out.display()), e);
    let out = Mutex::new(begin(&options.out, &header, &rows).map_err(writing)?);
    let ended: Mutex<Vec<(String, Result<String, String>)>> = Mutex::new(Vec::new());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(found));
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                while let Some(job) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let what = line(&job.key);
                    let result = one(&points[job.point].scenario, job).and_then(|metrics| {
                        let row = format!("{what},{metrics}");
                        let mut out = out.lock().map_err(|e| e.to_string())?;
                        writeln!(out, "{row}").and_then(|()| out.flush()).map_err(|e| e.to_string())?;
                        Ok(row)
                    });
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    watch(Progress {
                        done,
                        total,
                        what: &what,
                        error: result.as_ref().err().map(String::as_str),
                    });
                    if let Ok(mut ended) = ended.lock() {
                        ended.push((what, result));
                    }
                }
            });
        }
    });
    let mut outcome = Outcome { found, ..Outcome::default() };
    for (what, result) in ended.into_inner().unwrap_or_default() {
        match result {
            Ok(row) => {
                outcome.made += 1;
                rows.insert(what, row);
            }
            Err(why) => outcome.failed.push((what, why)),
        }
    }
    outcome.failed.sort();
    let order: Vec<&String> = jobs.iter().filter_map(|job| rows.get(&line(&job.key))).collect();
    let sorted = order.iter().fold(header.clone() + "\n", |text, row| text + row + "\n");
    fs::write(&options.out, sorted).map_err(writing)?;
    outcome.medians = medians(&header, keys, &order, &sweep.show);
    let parameters: Vec<String> = sweep.parameters.keys().cloned().collect();
    outcome.table = table(&parameters, &sweep.show, &outcome.medians);
    Ok(outcome)
}

fn jobs(scenario: &Scenario, points: &[Point], seeds: u32, options: &Options) -> Result<Vec<Job>, LabError> {
    if let Some(unknown) = options.only.iter().find(|label| scenario.contender(label).is_none()) {
        return Err(LabError::Failed(format!("{}: no contender `{unknown}`", scenario.name)));
    }
    let mut jobs = Vec::new();
    for (point, at) in points.iter().enumerate() {
        for (contender, who) in at.scenario.contenders.iter().enumerate() {
            let label = who.label.as_ref();
            if !options.only.is_empty() && !options.only.contains(label) {
                continue;
            }
            for seed in (0..u64::from(seeds)).map(|i| options.seed.wrapping_add(i)) {
                let key = [vec![label.clone(), seed.to_string()], at.values.clone()].concat();
                jobs.push(Job { key, point, contender, seed });
            }
        }
    }
    Ok(jobs)
}

/// Makes one run; its metrics as the rest of a row.
fn one(scenario: &Scenario, job: &Job) -> Result<String, String> {
    let contender = &scenario.contenders[job.contender];
    let plan = Plan { scenario, contender, cell: scenario.headline(), repeat: 0, seed: job.seed };
    let ran = catch_unwind(AssertUnwindSafe(|| Sim::default().run(&plan, &mut |_| {})));
    let record = ran.map_err(|_| "it panicked".to_owned())?.map_err(|e| e.to_string())?;
    let stats = run_stats(&plan, &record);
    let value =
        |(name, _): &(&str, &str)| stats.metrics.get(name).map_or(String::new(), |v| format!("{v:.4}"));
    Ok(NAMES.iter().map(value).collect::<Vec<_>>().join(","))
}

/// Rows of an earlier run, by their key.
fn existing(out: &Path, header: &str, keys: usize) -> Result<HashMap<String, String>, LabError> {
    let Ok(text) = fs::read_to_string(out) else { return Ok(HashMap::new()) };
    let mut lines = text.lines();
    if lines.next().is_some_and(|first| first != header) {
        let text = format!("{}: its columns are others; take another file, or remove it", out.display());
        return Err(LabError::Failed(text));
    }
    // A row that was cut off by the end of a program has too few fields.
    let whole = |row: &&str| fields(row).len() == fields(header).len();
    Ok(lines.filter(whole).map(|row| (line(&fields(row)[..keys]), row.to_owned())).collect())
}

fn begin(out: &Path, header: &str, rows: &HashMap<String, String>) -> std::io::Result<File> {
    if let Some(dir) = out.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = File::create(out)?;
    writeln!(file, "{header}")?;
    for row in rows.values() {
        writeln!(file, "{row}")?;
    }
    Ok(file)
}

/// The fields of a line, quotes removed.
fn fields(line: &str) -> Vec<String> {
    let (mut all, mut current, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                current.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(std::mem::take(&mut current)),
            c => current.push(c),
        }
    }
    all.push(current);
    all
}

/// Medians over seeds of the metrics in `show`, for each contender at each point.
fn medians(header: &str, keys: usize, rows: &[&String], show: &[String]) -> Vec<Median> {
    let header = fields(header);
    let columns: Vec<usize> = show.iter().filter_map(|name| header.iter().position(|h| h == name)).collect();
    let mut groups: Vec<(Median, Vec<Vec<String>>)> = Vec::new();
    let mut place: BTreeMap<(String, Vec<String>), usize> = BTreeMap::new();
    for row in rows {
        let row = fields(row);
        let (label, values) = (row[0].clone(), row[2..keys].to_vec());
        let at = *place.entry((label.clone(), values.clone())).or_insert(groups.len());
        if at == groups.len() {
            groups.push((Median { label, values, shown: Vec::new() }, Vec::new()));
        }
        groups[at].1.push(row);
    }
    let summarise = |(group, rows): (Median, Vec<Vec<String>>)| {
        let median = |column: &usize| {
            let mut values: Vec<f64> = rows.iter().filter_map(|r| r[*column].parse().ok()).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        Median { shown: columns.iter().map(median).collect(), ..group }
    };
    groups.into_iter().map(summarise).collect()
}

/// Medians as text, one line each.
fn table(parameters: &[String], show: &[String], medians: &[Median]) -> String {
    let titles = [&["contender".to_owned()], parameters, show].concat();
    let number = |v: &Option<f64>| v.map_or(String::new(), |v| format!("{v:.2}"));
    let line =
        |m: &Median| [vec![m.label.clone()], m.values.clone(), m.shown.iter().map(number).collect()].concat();
    let lines: Vec<Vec<String>> = std::iter::once(titles).chain(medians.iter().map(line)).collect();
    let width =
        |i: usize| lines.iter().filter_map(|l| l.get(i)).map(|f| f.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let padded = |l: &Vec<String>| {
        let cells: Vec<String> = l.iter().zip(&widths).map(|(f, w)| format!("{f:<w$}")).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(padded).collect()
}
