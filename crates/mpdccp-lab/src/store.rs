//! Stores finished runs. The key of a run consists of all its inputs, so a stored run is reused only if all
//! inputs are the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::summary::Run;
use crate::{Backend, LabError, Plan, RunRecord, code, files};

/// Points of each series, by name.
pub type AllSeries = BTreeMap<String, Vec<(f64, f64)>>;

/// The key of a run: all its inputs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Label of the variant.
    pub label: String,
    /// Name of the cell.
    pub cell: String,
    /// Seed of the run.
    pub seed: u64,
    /// The backend's name: `sim`, `netns` or `uml`.
    pub backend: String,
    /// The build that made the run, see [`code::id`].
    pub code: String,
    /// Properties of the machine, see `Backend::made_by`.
    pub made_by: BTreeMap<String, String>,
    /// Hash of the text that [`crate::Scenario::resolved`] writes for the variant and the cell.
    pub scenario: String,
}

impl Key {
    /// Returns the key of a run that this program would make on `backend`.
    pub fn of(plan: &Plan<'_>, backend: &dyn Backend) -> Key {
        Key {
            label: plan.variant.label.as_ref().clone(),
            cell: plan.cell.name.clone(),
            seed: plan.seed,
            backend: backend.name().to_owned(),
            made_by: backend.made_by(plan),
            code: code::id().to_owned(),
            scenario: code::hash(&plan.scenario.resolved(plan.variant, plan.cell)),
        }
    }

    /// Returns the name of the run's files, without extension. The hash makes the name unique; the label and
    /// the cell only help readers.
    pub fn file_stem(&self) -> String {
        let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-");
        let all = format!("{self:?}");
        format!("{}_{}_{}_{}", plain(&self.label), plain(&self.cell), self.seed, code::hash(&all))
    }
}

/// The stored data of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Inputs of the run.
    pub key: Key,
    /// Results of the run.
    pub run: Run,
    /// Series that the caller requested.
    pub series: AllSeries,
    /// Whether the run was found in the store.
    #[serde(skip)]
    pub found: bool,
}

/// Writes runs into one file, one per line, for use on another machine.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn pack<'a>(file: &Path, runs: impl Iterator<Item = &'a Kept>) -> Result<(), LabError> {
    let lines: Result<Vec<String>, _> = runs.map(serde_json::to_string).collect();
    let text = lines.map(|lines| lines.join("\n")).map_err(|e| LabError::failed("cannot store runs", e))?;
    files::write(file, text)
}

/// A directory of finished runs.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// Opens a store in `dir`, which is created if needed.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn open(dir: &Path) -> Result<Store, LabError> {
        fs::create_dir_all(dir).map_err(|e| {
            LabError::Wrong(format!("cannot create {}: {e}; name another directory", dir.display()))
        })?;
        Ok(Store { dir: dir.to_owned() })
    }

    fn file(&self, key: &Key, ending: &str) -> PathBuf {
        self.dir.join(format!("{}.{ending}", key.file_stem()))
    }

    /// Returns the run with this `key`, if stored.
    pub fn find(&self, key: &Key) -> Option<Kept> {
        let kept: Kept = serde_json::from_str(&fs::read_to_string(self.file(key, "json")).ok()?).ok()?;
        (kept.key == *key).then_some(kept)
    }

    /// Returns the packets of the run with this `key`, if stored.
    pub fn packets(&self, key: &Key) -> Option<RunRecord> {
        postcard::from_bytes(&fs::read(self.file(key, "packets")).ok()?).ok()
    }

    /// Stores a run and, if given, its packets.
    ///
    /// # Errors
    /// Fails if the run cannot be written, for example because the disk is full. The error ends the
    /// experiment, because further runs could not be stored either.
    pub fn keep(&self, kept: &Kept, packets: Option<&RunRecord>) -> Result<(), LabError> {
        let failed = |e: &dyn core::fmt::Display| {
            LabError::Missing(format!("cannot store a run in {}: {e}", self.dir.display()))
        };
        if let Some(record) = packets {
            let bytes = postcard::to_stdvec(record).map_err(|e| failed(&e))?;
            files::whole(&self.file(&kept.key, "packets"), &bytes).map_err(|e| failed(&e))?;
        }
        let text = serde_json::to_vec(kept).map_err(|e| failed(&e))?;
        files::whole(&self.file(&kept.key, "json"), &text).map_err(|e| failed(&e))
    }

    /// Imports the runs that [`pack`] wrote into `from`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if the runs cannot be written.
    pub fn gather(&self, from: &Path) -> Result<(), LabError> {
        let failed = |e: &dyn core::fmt::Display| {
            let what = "expected the `.runs` file that `lab sweep` writes next to its CSV file";
            LabError::Wrong(format!("cannot read {}: {e}; {what}", from.display()))
        };
        let text = fs::read_to_string(from).map_err(|e| failed(&e))?;
        text.lines().try_for_each(|line| {
            let kept: Kept = serde_json::from_str(line).map_err(|e| failed(&e))?;
            self.keep(&kept, None)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_stored_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let key = Key {
            label: "v".to_owned(),
            cell: "base".to_owned(),
            seed: 1,
            backend: "sim".to_owned(),
            code: String::new(),
            made_by: BTreeMap::new(),
            scenario: String::new(),
        };
        let run = json!({
            "label": "v", "cell": "base", "repeat": 0, "seed": 1, "resolved_hash": "", "params": {}, "flows": [],
            "paths": [], "metrics": {}, "device_drops": 0
        });
        let run = serde_json::from_value(run).unwrap();
        let kept = Kept { key, run, series: AllSeries::new(), found: false };
        // Several threads may store the same run.
        let often = || (0..200).for_each(|_| store.keep(&kept, Some(&RunRecord::default())).unwrap());
        std::thread::scope(|scope| (0..8).for_each(|_| _ = scope.spawn(often)));
        assert!(store.find(&kept.key).is_some() && store.packets(&kept.key).is_some());
        let json = store.file(&kept.key, "json");
        fs::remove_file(&json).unwrap();
        fs::create_dir(&json).unwrap();
        store.keep(&kept, None).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "a part is left");
    }
}
