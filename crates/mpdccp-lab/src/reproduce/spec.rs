//! Describes a set as data: its scenarios in order, with changes, cells, variants and metrics. Each set is a
//! TOML file in `scenarios/sets`. Aims and references are in the scenarios.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::{Table, Value};

use crate::metrics::NAMES;
use crate::scenario::Scenario;
use crate::{LabError, experiment};

macro_rules! sets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/sets/", $name, ".toml")))),*]
    };
}

/// The built-in sets, with their files.
pub(super) const LIBRARY: &[(&str, &str)] = sets!["paper", "calibration", "multipath"];

/// A set of experiments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    /// The set's name, which is that of its file.
    #[allow(dead_code, reason = "only for readers of the file")]
    name: String,
    /// Title of the report.
    pub(super) title: String,
    #[serde(rename = "section")]
    pub(super) sections: Vec<SectionSpec>,
}

/// One experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SectionSpec {
    /// Name of the section; the heading is this name and the scenario's title.
    pub(super) name: String,
    /// Name of a built-in scenario.
    pub(super) scenario: String,
    /// Labels of the variants; if empty, all variants.
    #[serde(default)]
    pub(super) variants: Vec<String>,
    /// Cells of a full run.
    #[serde(default = "all")]
    pub(super) cells: Vec<String>,
    /// Runs of each variant at each point; if absent, the scenario's number.
    #[serde(default)]
    pub(super) runs: Option<u32>,
    /// Whether the section uses the simulator unless the user selects a backend.
    #[serde(default)]
    pub(super) around: bool,
    /// Cells of a quick run; if empty, the headline cell.
    #[serde(default)]
    pub(super) quick_cells: Vec<String>,
    /// Variants that use one path each. The other variants are compared with the best result of these
    /// variants, and with the sum of their results.
    #[serde(default)]
    pub(super) alone: Vec<String>,
    /// Required ratios of the other variants' results to the best result of `alone`, and to the sum of these
    /// results.
    #[serde(default)]
    pub(super) of_best: Option<f64>,
    #[serde(default)]
    pub(super) of_sum: Option<f64>,
    /// Metrics in the columns of the table; if empty, the main metrics and those with references or aims.
    #[serde(default)]
    pub(super) metrics: Vec<String>,
    /// New values for keys of the scenario. The keys are named as in a sweep, for example `path.*.owd`.
    #[serde(default)]
    pub(super) change: BTreeMap<String, Value>,
    /// Sweep that replaces the scenario's own.
    #[serde(default)]
    pub(super) sweep: BTreeMap<String, Vec<Value>>,
    /// Further changes for a quick run.
    #[serde(default)]
    pub(super) quick: BTreeMap<String, Value>,
}

fn all() -> Vec<String> {
    vec!["all".to_owned()]
}

impl Spec {
    /// Parses a set and all scenarios that it names. `file` is the set's name in errors.
    pub(super) fn parse(file: &str, text: &str) -> Result<Spec, LabError> {
        let wrong = |e: &dyn core::fmt::Display| LabError::Wrong(format!("{file}: {e}"));
        let spec: Spec = toml::from_str(text).map_err(|e| wrong(&e.to_string().trim_end()))?;
        let mut files = BTreeSet::new();
        if let Some(twice) = spec.sections.iter().find(|section| !files.insert(section.name_for_files())) {
            let SectionSpec { name, scenario, .. } = twice;
            return Err(wrong(&format!(
                "two sections named `{name}` of `{scenario}` would share a directory"
            )));
        }
        for section in &spec.sections {
            section.check().map_err(|e| wrong(&format!("section `{}`: {e}", section.name)))?;
        }
        Ok(spec)
    }
}

impl SectionSpec {
    fn check(&self) -> Result<(), LabError> {
        let known = |metric: &&String| NAMES.iter().any(|(name, _)| name == metric);
        if let Some(unknown) = self.metrics.iter().find(|metric| !known(metric)) {
            return Err(LabError::Wrong(format!(
                "unknown metric `{unknown}`; docs/summary.md lists all metrics"
            )));
        }
        if self.runs == Some(0) {
            return Err(LabError::Wrong("`runs` must be at least 1".to_owned()));
        }
        for quick in [false, true] {
            let scenario = self.scenario(quick, None)?;
            experiment::choose_variants(&scenario, &self.variants)?;
            experiment::choose_variants(&scenario, &self.alone)?;
            experiment::choose_cells(&scenario, &self.quick_cells)?;
            let cells = experiment::choose_cells(&scenario, &self.cells)?;
            if scenario.sweep.is_some() {
                let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
                scenario.points(&names).map_err(|e| LabError::Wrong(e.to_string()))?;
            }
        }
        Ok(())
    }

    /// Returns the scenario with all changes and, if one is given, a different duration.
    pub(super) fn scenario(&self, quick: bool, duration_s: Option<f64>) -> Result<Scenario, LabError> {
        let wrong = |e: crate::scenario::ScenarioError| LabError::Wrong(e.to_string());
        let scenario = Scenario::find(&self.scenario).map_err(wrong)?;
        let mut values: Vec<(String, Value)> = self.change.clone().into_iter().collect();
        if !self.sweep.is_empty() {
            let parameters: Table =
                self.sweep.iter().map(|(k, v)| (k.clone(), Value::Array(v.clone()))).collect();
            values.push(("sweep".to_owned(), Value::Table(Table::new())));
            values.push(("sweep.parameters".to_owned(), Value::Table(parameters)));
        }
        if !self.metrics.is_empty() && (scenario.sweep.is_some() || !self.sweep.is_empty()) {
            let show = self.metrics.iter().cloned().map(Value::from).collect();
            values.push(("sweep.show".to_owned(), Value::Array(show)));
        }
        values.extend(quick.then(|| self.quick.clone()).into_iter().flatten());
        values.extend(duration_s.map(|s| ("duration_s".to_owned(), Value::from(s))));
        let places: Vec<(&str, Value)> = values.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        scenario.with(&places).map_err(wrong)
    }
}
