//! Runs sets of experiments, such as all those of a paper. A single command makes all runs and writes one
//! report. Each run is stored as soon as it finishes, and stored runs are not repeated. A set is a file in
//! `scenarios/sets` (module `spec`), except for the DCP paper's set, which is a module (`dcp`).

mod dcp;
mod options;
mod ratio;
mod section;
mod spec;
mod swept;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use crate::document::Document;
use crate::sim::Sim;
use crate::{Backend, LabError};
pub use options::{Options, Progress};
use spec::Spec;

/// Returns the names of all built-in sets.
pub fn names() -> Vec<&'static str> {
    spec::LIBRARY.iter().map(|(name, _)| *name).chain([dcp::NAME]).collect()
}

/// Makes the missing runs of a set and returns the report's path. `name_or_file` is one of [`names`], or a
/// file in the format of `scenarios/sets`. `report.html` and `report.md` are rewritten after each experiment.
/// After an error, they contain all experiments that have finished.
///
/// # Errors
/// Fails on an unknown or invalid set, an interruption, a missing prerequisite, or an output error.
/// Experiments that failed are listed in the report.
pub fn run(
    name_or_file: &str,
    backend: &dyn Backend,
    options: &Options,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<PathBuf, LabError> {
    if options.duration_s.is_some() && name_or_file == dcp::NAME {
        let text = format!("`{name_or_file}` sets its own durations; remove --duration");
        return Err(LabError::Wrong(text));
    }
    if !options.only.is_empty() && name_or_file == dcp::NAME {
        let text = format!("`{name_or_file}` always makes all its experiments; remove --only");
        return Err(LabError::Wrong(text));
    }
    if name_or_file == dcp::NAME {
        return dcp::run(backend, options, watch);
    }
    let spec = find(name_or_file)?;
    let called =
        |section: &spec::SectionSpec, name: &String| section.scenario == *name || section.name == *name;
    let known = |name: &String| spec.sections.iter().any(|section| called(section, name));
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = spec.sections.iter().map(|section| section.name.as_str()).collect();
        return Err(LabError::Wrong(format!(
            "unknown experiment `{unknown}`; expected one of: {}",
            names.join(", ")
        )));
    }
    let chosen: Vec<_> = spec
        .sections
        .iter()
        .filter(|section| options.only.is_empty() || options.only.iter().any(|name| called(section, name)))
        .collect();
    let report = options.out.join("report.html");
    let sim = Sim::default();
    let command = options::command(name_or_file, backend.name(), options);
    let mut document = Document::new(&spec.title, &command);
    for (done, section) in chosen.iter().enumerate() {
        let scenario = section.scenario(options.quick, options.duration_s)?;
        watch(Progress::Experiment { scenario: &scenario, index: done + 1, total: chosen.len() });
        let lacking = section::lacking(section, &scenario, backend)?;
        let virtually = lacking || (options.around_in_sim && section.around);
        let backend: &dyn Backend = if virtually { &sim } else { backend };
        document.sections.push(section::make(section, &scenario, backend, options, watch)?);
        document.write(&report)?;
    }
    Ok(report)
}

fn find(name_or_file: &str) -> Result<Spec, LabError> {
    if let Some((name, text)) = spec::LIBRARY.iter().find(|(name, _)| *name == name_or_file) {
        return Spec::parse(&format!("scenarios/sets/{name}.toml"), text);
    }
    if !Path::new(name_or_file).is_file() {
        let text = format!(
            "unknown set or file `{name_or_file}`; expected a file or one of: {}",
            names().join(", ")
        );
        return Err(LabError::Wrong(text));
    }
    let text = fs::read_to_string(name_or_file)
        .map_err(|e| LabError::failed(format!("cannot read {name_or_file}"), e))?;
    Spec::parse(name_or_file, &text)
}
