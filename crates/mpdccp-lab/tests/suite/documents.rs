//! Checks the tables in documents that are generated from stored runs (`docs/runs`, see `tools/tables`). A
//! test fails if a table differs from its runs, or if the scenario has changed since the runs were made. With
//! `MPDCCP_BLESS=1`, the test writes the tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mpdccp_lab::scenario::Scenario;
use mpdccp_lab::sim::Sim;
use mpdccp_lab::store::Key;
use mpdccp_lab::{Plan, estimate::Estimate};
use serde::Deserialize;

/// New values for keys of a scenario, as in the files of `scenarios/sets`.
type Changes = BTreeMap<String, toml::Value>;

/// Links and criterion of `mpdccp lab judge`.
const JUDGE: &str = include_str!("../../../../scenarios/judge.toml");

/// Content of `docs/runs/NAME.json`. For results of `lab judge`, `change` holds the whole content of
/// [`JUDGE`].
#[derive(Clone, Debug, Deserialize)]
struct Stored {
    command: String,
    commit: String,
    date: String,
    made_by: MadeBy,
    /// The seeds of all runs that do not list their own.
    seeds: Vec<u64>,
    scenario: String,
    change: Changes,
    runs: Vec<Runs>,
}

/// The program and the machine that made the runs.
#[derive(Clone, Debug, Deserialize)]
struct MadeBy {
    backend: String,
    /// The commits of the builds, each followed by a hash of the program if the sources had uncommitted
    /// changes.
    code: String,
    kernel: Option<String>,
    /// The host, external programs and other facts.
    #[serde(flatten)]
    others: BTreeMap<String, String>,
}

/// Runs that differ only by seed.
#[derive(Clone, Debug, Deserialize)]
struct Runs {
    label: String,
    cell: String,
    /// Hash of the scenario; absent for results of the judge.
    #[serde(default)]
    hash: String,
    /// The values of a sweep's parameters.
    #[serde(default)]
    point: Changes,
    seeds: Option<Vec<u64>>,
    /// The values of all runs, by metric name.
    #[serde(flatten)]
    metrics: BTreeMap<String, Vec<f64>>,
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn stored(name: &str) -> Stored {
    let file = docs().join("runs").join(name).with_extension("json");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

impl Runs {
    /// Returns whether `word` is the cell of these runs, or the value of one of their sweep parameters.
    fn are_of(&self, word: &str) -> bool {
        self.cell == word || self.point.values().any(|value| text_of(value) == word)
    }
}

fn text_of(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Stored {
    fn cells(&self) -> Vec<&str> {
        let mut cells = Vec::new();
        for run in &self.runs {
            if !cells.contains(&run.cell.as_str()) {
                cells.push(&run.cell);
            }
        }
        cells
    }

    /// Returns the current scenario, with the changes made for these runs.
    fn scenario(&self, point: &Changes) -> Scenario {
        let change: Vec<_> = self.change.iter().chain(point).map(|(k, v)| (k.as_str(), v.clone())).collect();
        Scenario::find(&self.scenario).unwrap().with(&change).unwrap()
    }

    /// Returns the value selected by `words` (see `tools/tables`).
    fn value(&self, words: &[&str]) -> Option<f64> {
        let (mut label, mut metric, mut statistic, mut places) = (None, None, "", Vec::new());
        for &word in words {
            if self.runs.iter().any(|runs| runs.metrics.contains_key(word)) {
                metric = Some(word);
            } else if self.runs.iter().any(|runs| Some(&*runs.label) == word.split('/').next()) {
                label = Some(word);
            } else if ["lowest", "highest", "total"].contains(&word) {
                statistic = word;
            } else if !["range", "aim"].contains(&word) {
                assert!(self.runs.iter().any(|runs| runs.are_of(word)), "`{word}` is not in the runs");
                places.push(word);
            }
        }
        let label = label.unwrap_or_else(|| panic!("no label in {words:?}"));
        let of = |label: &str| {
            // Runs that are not part of a sweep belong to every point of the sweep.
            let cells = self.cells();
            let at = |runs: &Runs, place: &&str| {
                runs.are_of(place) || runs.point.is_empty() && !cells.contains(place)
            };
            let here = |runs: &&Runs| runs.label == label && places.iter().all(|place| at(runs, place));
            let runs = self.runs.iter().filter(here);
            let values: Vec<f64> =
                runs.filter_map(|runs| runs.metrics.get(metric?)).flatten().copied().collect();
            let median = Estimate::of(&values)?.median;
            Some(match statistic {
                "lowest" => values.into_iter().fold(median, f64::min),
                "highest" => values.into_iter().fold(median, f64::max),
                "total" => values.into_iter().sum(),
                _ => median,
            })
        };
        let Some((label, other)) = label.split_once('/') else { return of(label) };
        let links = || {
            let scenario = self.scenario(&Changes::new());
            let cell = places.iter().find_map(|place| scenario.cell(place)).unwrap();
            let paths = scenario.paths_of(scenario.variant(label).unwrap(), cell);
            let rates: Vec<f64> =
                paths.iter().map(|path| path.ways[0].mean_rate().bps() as f64 / 1e6).collect();
            rates
        };
        let others = |labels: &str| labels.split(',').map(of).collect::<Option<Vec<f64>>>();
        let other = match other.split_once(':').unwrap_or((other, "")) {
            ("best", "") => links().into_iter().fold(0.0, f64::max),
            ("sum", "") => links().into_iter().sum(),
            ("best", labels) => others(labels)?.into_iter().fold(0.0, f64::max),
            ("sum", labels) => others(labels)?.into_iter().sum(),
            _ => of(other)?,
        };
        // There is no ratio to a value of zero.
        Some(of(label)? / other).filter(|ratio| ratio.is_finite())
    }

    /// Returns the value in each of `cells`.
    fn in_cells(&self, words: &[&str], cells: &[&str]) -> Vec<f64> {
        cells.iter().filter_map(|cell| self.value(&[words, &[*cell]].concat())).collect()
    }

    /// Returns the text of the value selected by `words`.
    fn text(&self, words: &[&str]) -> String {
        let metric = |word: &&&str| self.runs.iter().any(|runs| runs.metrics.contains_key(**word));
        let metric = words.iter().rev().find(metric);
        let mut values = self.runs.iter().filter_map(|runs| runs.metrics.get(*metric?)).flatten();
        // Names of cells can contain slashes, too.
        let ratio =
            words.iter().any(|word| word.contains('/') && !self.runs.iter().any(|runs| runs.are_of(word)));
        let count = values.all(|value| value.fract() == 0.0) && !ratio;
        let shown = |value: f64| {
            if count || value == 0.0 { value.to_string() } else { three_digits(value) }
        };
        let Some(value) = self.value(words).map(shown) else { return "–".to_owned() };
        if ratio || !words.contains(&"range") {
            return value;
        }
        let end =
            |statistic: &str| self.value(&[words, &[statistic]].concat()).map(shown).unwrap_or_default();
        let (low, high) = (end("lowest"), end("highest"));
        if low == high { value } else { format!("{value} ({low} to {high})") }
    }

    /// Returns the runs whose scenario has changed since they were made. Runs made by other tools have no
    /// scenario.
    fn stale(&self) -> Vec<String> {
        if self.scenario.is_empty() {
            return Vec::new();
        }
        if self.scenario == "judge" {
            let today: Changes = toml::from_str(JUDGE).unwrap();
            return if self.change == today { Vec::new() } else { vec!["scenarios/judge.toml".to_owned()] };
        }
        let mut scenarios = BTreeMap::new();
        let changed = |runs: &&Runs| {
            let scenario: &Scenario =
                scenarios.entry(format!("{:?}", runs.point)).or_insert_with(|| self.scenario(&runs.point));
            let (variant, cell) = (scenario.variant(&runs.label), scenario.cell(&runs.cell));
            let today = variant.zip(cell).map(|(variant, cell)| {
                let plan = Plan { scenario, variant, cell, repeat: 0, seed: 1 };
                Key::of(&plan, &Sim::default()).scenario
            });
            today.as_ref() != Some(&runs.hash)
        };
        let name = |runs: &Runs| format!("{}, {} {:?}", runs.cell, runs.label, runs.point);
        self.runs.iter().filter(changed).map(name).collect()
    }
}

fn three_digits(value: f64) -> String {
    let digits = if value.abs() >= 100.0 { 0 } else { 2 - (value.abs().max(1.0).log10() as usize) };
    format!("{value:.digits$}")
}

/// Splits the aim, such as `≥ 1.5`, from the end of a row of a directive.
fn aim_of(row: &str) -> (&str, &str) {
    row.rsplit_once(": ").filter(|(_, aim)| aim.starts_with(['≥', '≤'])).unwrap_or((row, ""))
}

fn misses(value: f64, aim: &str) -> bool {
    aim.split_once(' ').is_some_and(|(sign, limit)| {
        let limit: f64 = limit.parse().unwrap();
        if sign == "≥" { value < limit } else { value > limit }
    })
}

/// Parses a column or row of a directive into its words and title.
fn selection(text: &str) -> (Vec<&str>, &str) {
    let (words, title) = text.split_once(": ").unwrap_or((text, text));
    (words.split(", ").collect(), title)
}

/// Returns the table for a directive `NAME METRIC; COLUMN; ...; rows: ROW; ...`.
fn generated(directive: &str) -> String {
    let (spread, directive) = match directive.strip_prefix("spread ").and_then(|rest| rest.split_once(' ')) {
        Some((minimum, rest)) => (Some(minimum.parse::<f64>().unwrap()), rest),
        None => (None, directive),
    };
    let (name, metrics, parts) = parts(directive);
    let stored = stored(name);
    let rows = parts.iter().position(|part| part.starts_with("rows: ")).unwrap_or(parts.len());
    let (columns, rows) = parts.split_at(rows);
    let columns: Vec<_> = columns.iter().map(|column| selection(column)).collect();
    let rows = rows.iter().map(|row| {
        let (row, aim) = aim_of(row.trim_start_matches("rows: "));
        (selection(row), aim)
    });
    let cells = stored.cells().into_iter().map(|cell| ((vec![cell], cell), ""));
    let rows: Vec<_> = if rows.len() > 0 { rows.collect() } else { cells.collect() };
    let aims = rows.iter().any(|(_, aim)| !aim.is_empty());
    let titles: Vec<&str> = columns.iter().map(|(_, title)| *title).chain(aims.then_some("aim")).collect();
    let Stored { command, commit, date, made_by, .. } = &stored;
    let kernel = match &made_by.kernel {
        Some(kernel) => format!(", kernel {kernel}"),
        None if made_by.backend == "sim" => String::new(),
        None => ", kernel not recorded".to_owned(),
    };
    let others: String = made_by.others.values().flat_map(|other| [", ", other.as_str()]).collect();
    let mut text =
        format!("`{command}`, commit {commit}, {date}{kernel}{others}.\n\n| | {} |\n", titles.join(" | "));
    writeln!(text, "|---|{}", "--:|".repeat(titles.len())).unwrap();
    let show = |words: &[&str]| match spread {
        None => stored.text(words),
        Some(minimum) => {
            let values = stored.in_cells(words, &stored.cells());
            let (least, all) = (reach(&values, minimum), Estimate::of(&values).unwrap());
            let lowest = values.iter().copied().fold(all.median, f64::min);
            format!("{least}, {:.2}, {lowest:.2}", all.median)
        }
    };
    for ((row, title), aim) in rows {
        let value = |(column, _): &(Vec<&str>, &str)| {
            let shown = |metric: &str| {
                let words = [&[metric], &row[..], &column[..]].concat();
                let missed = column.contains(&"aim") && stored.value(&words).is_some_and(|v| misses(v, aim));
                if missed { format!("**{}**", show(&words)) } else { show(&words) }
            };
            metrics.split(',').map(shown).collect::<Vec<_>>().join(", ")
        };
        let values = columns.iter().map(value).chain(aims.then(|| aim.to_owned()));
        let values: Vec<String> = values.collect();
        writeln!(text, "| {title} | {} |", values.join(" | ")).unwrap();
    }
    text
}

/// Returns the table for a directive `count NAME METRIC; TITLE, ...; WORDS: MINIMUM: COLUMN ...: AIM; ...`.
/// For each column, the table shows in how many cells the value is at least the minimum. If `: CELL ...`
/// follows the aim, only these cells count.
fn counted(directive: &str) -> String {
    let (name, metric, rows) = parts(directive);
    let stored = stored(name);
    let mut text = String::new();
    let [title, rows @ ..] = &rows[..] else { panic!("invalid directive `{directive}`") };
    writeln!(text, "| {} |", title.split(", ").collect::<Vec<_>>().join(" | ")).unwrap();
    writeln!(text, "|---|{}", "--:|".repeat(title.matches(", ").count())).unwrap();
    for row in rows {
        let words: Vec<&str> = row.split(": ").collect();
        let [words, minimum, columns, aim, cells @ ..] = &words[..] else { panic!("invalid row `{row}`") };
        let minimum: f64 = minimum.parse().unwrap();
        let cells: Vec<&str> = cells.first().map_or(stored.cells(), |cells| cells.split(' ').collect());
        write!(text, "| {words} | {aim} |").unwrap();
        for column in columns.split(' ') {
            let values = stored.in_cells(&[metric, column], &cells);
            write!(text, " {} of {} |", reach(&values, minimum), cells.len()).unwrap();
        }
        text.push('\n');
    }
    text
}

/// Returns the text for a directive `value NAME METRIC; WORD, ...` or, for a directive
/// `value NAME METRIC; WORD, ...; MINIMUM`, the number of cells that reach at least the minimum.
fn inline(directive: &str) -> String {
    let (name, metric, parts) = parts(directive);
    let stored = stored(name);
    let words: Vec<&str> = std::iter::once(metric).chain(parts[0].split(", ")).collect();
    let Some(minimum) = parts.get(1) else { return stored.text(&words) };
    reach(&stored.in_cells(&words, &stored.cells()), minimum.parse().unwrap()).to_string()
}

/// Returns the number of values that reach the minimum.
fn reach(values: &[f64], minimum: f64) -> usize {
    values.iter().filter(|value| **value >= minimum).count()
}

/// Returns the name, the metric and the remaining parts of a directive.
fn parts(directive: &str) -> (&str, &str, Vec<&str>) {
    let mut parts = directive.split(';').map(str::trim);
    let (name, metric) = parts.next().and_then(|first| first.split_once(' ')).expect("a name and a metric");
    (name, metric, parts.collect())
}

const BEGIN: &str = "<!-- runs: ";
const END: &str = "<!-- end of runs -->";

/// Returns the document with newly generated tables.
fn made_again(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (directive, after) = after.split_once(" -->").unwrap();
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("`{directive}` has no end"));
        let made = match directive.split_once(' ') {
            Some(("value", value)) => inline(value),
            Some(("count", table)) => format!("\n\n{}\n", counted(table)),
            _ => format!("\n\n{}\n", generated(directive)),
        };
        write!(out, "{before}{BEGIN}{directive} -->{made}{END}").unwrap();
        rest = after;
    }
    out + rest
}

/// A section of a set that `tools/rerun` runs.
#[derive(Deserialize)]
struct Section {
    name: String,
    scenario: String,
    #[serde(default)]
    variants: Vec<String>,
    #[serde(default)]
    cells: Vec<String>,
    runs: Option<u32>,
    #[serde(default)]
    change: Changes,
    #[serde(default)]
    sweep: BTreeMap<String, Vec<toml::Value>>,
}

impl Section {
    /// Returns all sections whose runs are in `docs/runs/NAME.json`, by `NAME`.
    fn by_file() -> BTreeMap<String, Vec<Section>> {
        #[derive(Deserialize)]
        struct Set {
            section: Vec<Section>,
        }
        let sets = [
            include_str!("../../../../scenarios/sets/documents.toml"),
            include_str!("../../../../scenarios/sets/namespaces.toml"),
        ];
        let mut files = BTreeMap::<String, Vec<Section>>::new();
        for section in sets.into_iter().flat_map(|set| toml::from_str::<Set>(set).unwrap().section) {
            let file = section.name.split(',').next().unwrap().to_owned();
            files.entry(file).or_default().push(section);
        }
        files
    }

    /// Returns the section's runs as `LABEL, CELL, POINT, NUMBER OF SEEDS`.
    fn declared(&self) -> Vec<String> {
        let scenario = Scenario::find(&self.scenario).unwrap();
        let own = scenario.sweep.as_ref().filter(|_| self.sweep.is_empty());
        let runs = self.runs.unwrap_or(own.map_or(scenario.runs, |sweep| sweep.seeds));
        let mut points = vec![Changes::new()];
        for (name, values) in own.map_or(&self.sweep, |sweep| &sweep.parameters) {
            let with = |point: Changes| {
                values.iter().map(move |value| {
                    let more = [(name.clone(), value.clone())];
                    point.clone().into_iter().chain(more).collect::<Changes>()
                })
            };
            points = points.into_iter().flat_map(with).collect();
        }
        let one_of = |name: &str, names: &[String]| names.is_empty() || names.iter().any(|n| n == name);
        let mut all = Vec::new();
        for label in scenario.variants.iter().map(|variant| variant.label.as_ref()) {
            for cell in scenario.cells.iter().map(|cell| &cell.name) {
                if one_of(label, &self.variants) && one_of(cell, &self.cells) {
                    all.extend(points.iter().map(|point| format!("{label}, {cell}, {point:?}, {runs}")));
                }
            }
        }
        all
    }
}

/// Checks that the stored runs are exactly those that the sections declare.
fn complete(sections: &[Section], stored: &Stored) -> Result<(), String> {
    let mut declared: Vec<_> = sections.iter().flat_map(Section::declared).collect();
    let text = |runs: &Runs| {
        let Runs { label, cell, point, metrics, .. } = runs;
        let seeds = runs.seeds.as_ref().unwrap_or(&stored.seeds).len();
        let lengths = metrics.values().map(Vec::len).chain([seeds]);
        let mut seeds: Vec<_> = lengths.map(|length| length.to_string()).collect();
        seeds.dedup();
        format!("{label}, {cell}, {point:?}, {}", seeds.join(" or "))
    };
    let mut present: Vec<_> = stored.runs.iter().map(text).collect();
    declared.sort();
    present.sort();
    let same = |section: &Section| (&section.scenario, &section.change) == (&stored.scenario, &stored.change);
    let MadeBy { backend, code, kernel, .. } = &stored.made_by;
    let told = !code.is_empty() && (backend == "sim" || kernel.is_some());
    if declared == present && told && sections.iter().all(same) {
        return Ok(());
    }
    let without =
        |a: &[String], b: &[String]| a.iter().filter(|x| !b.contains(x)).cloned().collect::<Vec<_>>();
    let (missing, others) = (without(&declared, &present), without(&present, &declared));
    Err(format!("missing: {missing:?}, others: {others:?}, made by {:?}", stored.made_by))
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![docs().join("../README.md")];
    let dirs = [docs(), docs().join("guides")].map(|dir| std::fs::read_dir(dir).unwrap());
    let files = dirs.into_iter().flatten().map(|entry| entry.unwrap().path());
    pages.extend(files.filter(|file| file.extension().is_some_and(|e| e == "md")));
    pages
}

#[test]
fn tables_say_what_the_stored_runs_say() {
    let (mut words, pages) = (Vec::new(), pages());
    assert!(["README.md", "guides/home.md"].iter().all(|end| pages.iter().any(|page| page.ends_with(end))));
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let directives = text.split(BEGIN).skip(1).filter_map(|rest| rest.split(" -->").next());
        words.extend(directives.flat_map(|directive| directive.split(' ')).map(str::to_owned));
        let again = made_again(&text);
        if std::env::var_os("MPDCCP_BLESS").is_some() && again != text {
            std::fs::write(&page, &again).unwrap();
        }
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(again == text, "{}: a table differs from its runs; run tools/tables", page.display());
    }
    for name in names() {
        assert!(words.contains(&name), "no table has the runs of docs/runs/{name}.json");
    }
}

/// Returns all names of stored runs.
fn names() -> Vec<String> {
    let files = std::fs::read_dir(docs().join("runs")).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn stored_runs_are_of_the_scenarios_of_today() {
    let names = names();
    assert!(Section::by_file().keys().all(|name| names.contains(name)));
    for name in names {
        let stored = stored(&name);
        assert!(!stored.runs.is_empty(), "{name}");
        let stale = stored.stale();
        assert!(stale.is_empty(), "docs/runs/{name}: run `{}` again; changed: {stale:?}", stored.command);
    }
}

#[test]
fn all_declared_runs_are_stored() {
    for (name, sections) in Section::by_file() {
        complete(&sections, &stored(&name))
            .unwrap_or_else(|e| panic!("docs/runs/{name}.json: run `tools/rerun {name}`; {e}"));
    }
    let (files, fair) = (Section::by_file(), stored("paper-fairness"));
    let differs = |change: fn(&mut Stored)| {
        let mut planted = fair.clone();
        change(&mut planted);
        complete(&files["paper-fairness"], &planted).is_err()
    };
    assert!(differs(|s| drop(s.runs.pop())) && differs(|s| s.runs.push(s.runs[0].clone())));
    assert!(differs(|s| s.runs[0].metrics.values_mut().for_each(|values| values.truncate(1))));
    assert!(differs(|s| s.runs[0].metrics.get_mut("total_mbps").unwrap().truncate(1)));
    assert!(differs(|s| s.runs[0].point.clear()) && differs(|s| s.runs[0].cell.push('x')));
    assert!(differs(|s| s.seeds.clear()) && differs(|s| s.made_by.code.clear()));
    assert!(differs(|s| s.made_by.backend = "netns".to_owned()));
    assert!(differs(|s| s.runs[0].label.push('x')) && differs(|s| s.scenario.push('x')));
    assert!(differs(|s| drop(s.change.insert("duration_s".to_owned(), 3.into()))));
}

#[test]
fn columns_are_medians_and_ratios_and_counts_have_a_minimum() {
    let mut stored = stored("streams-packets");
    stored.runs.retain(|runs| runs.cell == "bw_4to1" && runs.label.starts_with("cubic"));
    for runs in &mut stored.runs {
        let streams = runs.label == "cubic-streams";
        runs.metrics.insert("rx_mbps".to_owned(), if streams { vec![31.0, 1.0, 40.0] } else { vec![10.0] });
    }
    let value = |words: &str| {
        stored.value(&[&["rx_mbps", "bw_4to1"], &words.split(' ').collect::<Vec<_>>()[..]].concat())
    };
    // The two links have rates of 50 and 12 Mbit/s.
    let values =
        ["", " lowest", " highest", " total"].map(|statistic| value(&format!("cubic-streams{statistic}")));
    assert_eq!(values, [31.0, 1.0, 40.0, 72.0].map(Some));
    let others =
        ["sum", "best", "cubic-mptcp", "sum:cubic-mptcp,cubic-both", "best:cubic-mptcp,cubic-streams"];
    let ratios = others.map(|other| value(&format!("cubic-streams/{other}")));
    assert_eq!(ratios, [0.5, 0.62, 3.1, 1.55, 1.0].map(Some));
    let counted =
        |minimum| counted(&format!("streams-packets rx_mbps; a, b, c; w: {minimum}: cubic-streams: x"));
    assert!(counted(0).ends_with("| w | x | 16 of 16 |\n") && counted(1_000).ends_with("| 0 of 16 |\n"));
    for runs in &mut stored.runs {
        runs.metrics.insert("rx_mbps".to_owned(), vec![0.0]);
    }
    assert_eq!(stored.text(&["rx_mbps", "bw_4to1", "cubic-streams/cubic-mptcp"]), "–");
}

#[test]
fn words_select_the_point_of_a_sweep_and_a_statistic_over_cells() {
    let stored = self::stored("paper-loss");
    let mut runs = stored.runs.iter().filter(|runs| runs.label == "ccid2" && runs.are_of("1 %"));
    let only = runs.next().unwrap();
    assert!(runs.next().is_none());
    let value = |word| stored.value(&["rx_mbps", "ccid2", "1 %", word]);
    let lowest = |metric: &str| only.metrics[metric].iter().copied().reduce(f64::min);
    assert_eq!(value("lowest"), lowest("rx_mbps"));
    assert_eq!(stored.value(&["rx_mbps", "ccid2", "1 %", "lowest", "app_p95_ms"]), lowest("app_p95_ms"));
    assert!(std::panic::catch_unwind(|| stored.value(&["rx_mbps", "ccid2", "2 %"])).is_err());
    let stored = self::stored("streams-packets");
    let values = stored.in_cells(&["rx_mbps", "cubic-streams"], &stored.cells());
    let (median, lowest) =
        (Estimate::of(&values).unwrap().median, values.iter().copied().reduce(f64::min).unwrap());
    // Only in the cell `fiber_lte` do the two links together exceed 150 Mbit/s.
    for (minimum, reach) in [(0, 16), (150, 1), (1_000, 0)] {
        let table = generated(&format!(
            "spread {minimum} streams-packets rx_mbps; cubic-streams: A; rows: cubic-streams: R"
        ));
        assert!(table.ends_with(&format!("| R | {reach}, {median:.2}, {lowest:.2} |\n")), "{table}");
    }
    assert_eq!(inline("streams-packets rx_mbps; cubic-streams; 150"), "1");
    assert_eq!(reach(&[1.0, 0.9, 0.95], 0.95), 2);
}

#[test]
fn tables_show_ranges_aims_and_what_made_the_runs() {
    let stored = self::stored("wireguard");
    let value =
        |statistic| three_digits(stored.value(&["value", "mpdccp", "tcp Mbit/s", statistic]).unwrap());
    let [median, low, high] = ["aim", "lowest", "highest"].map(value);
    let row = |label: &str, aim: &str| {
        generated(&format!("wireguard value; range, aim: M; rows: {label}, tcp Mbit/s: R{aim}"))
    };
    let met = format!("| | M | aim |\n|---|--:|--:|\n| R | {median} ({low} to {high}) | ≥ 0 |\n");
    assert!(row("mpdccp", ": ≥ 0").ends_with(&met));
    for aim in ["≥ 1000000", "≤ 0"] {
        let missed = format!("| R | **{median} ({low} to {high})** | {aim} |\n");
        assert!(row("mpdccp", &format!(": {aim}")).ends_with(&missed));
    }
    let ratio = stored.value(&["value", "tcp Mbit/s", "mpdccp/wireguard-go"]).map(three_digits).unwrap();
    let text = row("mpdccp/wireguard-go", "");
    assert!(text.ends_with(&format!("| | M |\n|---|--:|\n| R | {ratio} |\n")), "{text}");
    assert!(
        stored.made_by.others.values().all(|other| text.contains(other)) && !stored.made_by.others.is_empty()
    );
}

#[test]
fn a_changed_number_and_a_changed_scenario_are_found() {
    for (name, begin) in [
        ("calibration.md", "| 10m-20ms-1bdp |"),
        ("../README.md", "; loss_05, cubic-mptcp -->"),
        ("performance.md", "| one TCP flow, CUBIC"),
    ] {
        let page = std::fs::read_to_string(docs().join(name)).unwrap();
        let directive = page.find(BEGIN).unwrap();
        let begin = directive + page[directive..].find(begin).unwrap();
        let value = begin + page[begin..].find('.').unwrap() + 1;
        let mut planted = page.clone();
        let other = if &page[value..=value] == "7" { "3" } else { "7" };
        planted.replace_range(value..=value, other);
        assert!(planted != page && made_again(&planted) == page, "{name}");
    }
    let mut changed = stored("calibration-sim");
    assert!(changed.stale().is_empty());
    changed.change.insert("duration_s".to_owned(), toml::Value::from(11.0));
    assert_eq!(changed.stale().len(), changed.runs.len());
    changed.change.clear();
    changed.runs[0].cell = "none".to_owned();
    assert_eq!(changed.stale().len(), 1);
    let mut changed = stored("judge");
    assert!(changed.stale().is_empty());
    changed.change.insert("rtt_ms".to_owned(), 3.into());
    assert_eq!(changed.stale().len(), 1);
    let mut changed = stored("paper-loss");
    changed.runs[0].point.insert("path.*.loss".to_owned(), "2 %".into());
    assert_eq!(changed.stale().len(), 1);
}

#[test]
fn images_are_built_without_what_git_ignores() {
    let [git, docker] = [".gitignore", ".dockerignore"]
        .map(|name| std::fs::read_to_string(docs().join("..").join(name)).unwrap());
    for ignored in git.lines().map(|line| line.trim_matches('/')) {
        assert!(docker.lines().any(|line| line.trim_start_matches("**/") == ignored), "{ignored}");
    }
}
