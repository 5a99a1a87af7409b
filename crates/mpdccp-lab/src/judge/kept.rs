//! Stores the results of the reference congestion controls (CUBIC and BBR), which do not depend on the judged
//! variants.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::figures::Figures;
use super::random_links::{Distribution, Point};
use crate::{LabError, files};

/// Hash of the sources that influence a reference's run, without the sources of BBR.
const SOURCES: &str = env!("MPDCCP_REFERENCES");
/// Limits on the rate (Mbit/s) and the round-trip time (ms) of the points at which BBR's behaviour is
/// checked. They keep runs at these points short. Each class has one such point.
const THIN: (f64, f64) = (3.0, 100.0);

/// A directory of results.
pub(super) struct Kept<'a> {
    dir: &'a Path,
    code: String,
}

impl<'a> Kept<'a> {
    /// Opens the directory. A stored result is valid if the references were compiled from [`SOURCES`], and
    /// BBR has the same results in `run` as when the result was stored. The hash leaves out the sources of
    /// BBR because the variants share them: otherwise, every change to a variant would invalidate all
    /// results.
    pub(super) fn new(
        dir: &'a Path,
        distribution: &Distribution,
        run: impl Fn(&Point) -> Result<Figures, LabError>,
    ) -> Result<Kept<'a>, LabError> {
        let mut behaviour = Vec::new();
        for class in 0..distribution.classes.len() as u64 {
            let of_class = (class..).step_by(distribution.classes.len());
            let thin = |p: &Point| (0.1..THIN.0).contains(&p.mbps) && p.rtt_ms < THIN.1;
            let point = of_class.map(|index| distribution.point(0, index)).find(thin);
            if let Some(point) = point {
                behaviour.extend(json(&run(&point)?)?);
            }
        }
        Ok(Kept { dir, code: format!("{SOURCES} {}", hash(&behaviour)) })
    }

    /// Returns the stored result of `label` at `point` with the scenario `text`, or calls `run` and stores
    /// its result if there is none.
    pub(super) fn get(
        &self,
        point: &Point,
        text: &str,
        label: &str,
        run: impl FnOnce() -> Result<Figures, LabError>,
    ) -> Result<Figures, LabError> {
        let Point { seed, settle_s, own_loss, pause_s, .. } = point;
        let key = format!("{} {label} {seed} {settle_s} {own_loss} {pause_s}\n{text}", self.code);
        let hash = hash(key.as_bytes());
        let path = self.dir.join(format!("{hash}.json"));
        // If a file cannot be read, compute its result again.
        let known = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(figures) = known {
            return Ok(figures);
        }
        let figures = run()?;
        files::write(&path, json(&figures)?)?;
        Ok(figures)
    }
}

fn json(figures: &Figures) -> Result<Vec<u8>, LabError> {
    serde_json::to_vec(figures).map_err(|e| LabError::failed("cannot write JSON", e))
}

fn hash(of: &[u8]) -> String {
    Sha256::digest(of).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(mbps: f64) -> Figures {
        Figures { mbps: vec![mbps], p95_ms: 0.1, ..Figures::default() }
    }

    /// Opens the store in `dir`, for a BBR that reaches `bbr` Mbit/s.
    fn kept(dir: &Path, bbr: f64) -> Kept<'_> {
        Kept::new(dir, &super::super::random_links::read().unwrap(), |_| Ok(figures(bbr))).unwrap()
    }

    #[test]
    fn a_reference_runs_once_for_each_point_and_behaviour() {
        let dir = tempfile::tempdir().unwrap();
        let mut runs = 0;
        let mut get = |bbr: f64, seed, text: &str, label: &str, pause_s| {
            let point = Point { seed, pause_s, ..Point::default() };
            let run = || {
                runs += 1;
                Ok(figures(f64::from(runs)))
            };
            kept(dir.path(), bbr).get(&point, text, label, run).unwrap()
        };
        let first = get(1.0, 1, "link", "bbr", 0.0);
        assert_eq!(get(1.0, 1, "link", "bbr", 0.0), first);
        for (i, other) in [
            get(1.0, 2, "link", "bbr", 0.0),
            get(1.0, 1, "other", "bbr", 0.0),
            get(1.0, 1, "link", "cubic", 0.0),
            get(1.1, 1, "link", "bbr", 0.0),
            get(1.0, 1, "link", "bbr", 0.5),
        ]
        .iter()
        .enumerate()
        {
            assert_eq!(other.mbps, [i as f64 + 2.0]);
        }
        // A truncated file is ignored.
        for file in fs::read_dir(dir.path()).unwrap() {
            fs::write(file.unwrap().path(), "{\"mbps\"").unwrap();
        }
        assert_eq!(get(1.0, 1, "link", "bbr", 0.0).mbps, [7.0]);
    }

    #[test]
    fn behaviour_is_looked_at_in_every_class() {
        let distribution = super::super::random_links::read().unwrap();
        let classes = std::cell::RefCell::new(Vec::new());
        let run = |point: &Point| {
            classes.borrow_mut().push(point.class.clone());
            Ok(Figures::default())
        };
        Kept::new("".as_ref(), &distribution, run).unwrap();
        let all: Vec<_> = distribution.classes.iter().map(|class| class.name.clone()).collect();
        assert_eq!(classes.into_inner(), all);
    }
}
