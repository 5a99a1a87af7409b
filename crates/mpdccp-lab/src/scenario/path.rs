//! Paths, and how cells and events change them.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::place::{Problem, is_plain};
use super::{FlowChange, FlowSpec, LinkKeys, keys};
use linkem_net::with_link_keys;

with_link_keys! {
    /// A path and its link. The link keys apply to both directions, except those in `forward` and `reverse`.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PathSpec {
        /// Name, unique in the scenario.
        pub name: Spanned<String>,
        /// Name of an earlier path. This path shares that path's link, and therefore has all its link keys.
        #[serde(default)]
        pub shares: Option<Spanned<String>>,
        /// Keys for the direction from client to server only.
        #[serde(default)]
        pub forward: Option<LinkKeys>,
        /// Keys for the direction from server to client only.
        #[serde(default)]
        pub reverse: Option<LinkKeys>,
        /// Priority as in RFC 9897 section 3.2.10: paths with a higher value are preferred.
        #[serde(default)]
        pub priority: Option<u8>,
        /// Whether the path is outside the tunnel, so that only flows with `via` or `mirror` use it. Paths
        /// outside the tunnel come after the others.
        #[serde(default)]
        pub outside: bool,
        /// Changes during the scenario, in time order.
        #[serde(default)]
        pub events: Vec<PathEvent>,
        /// All link keys, for the forward and the reverse direction.
        #[serde(skip)]
        pub ways: [LinkKeys; 2],
        /// Seed of the path's model.
        #[serde(skip)]
        pub seed: u64,
    }
}

with_link_keys! {
    /// A change to a path during the scenario. Keys that are absent stay the same.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PathEvent {
        /// Time of the change in seconds after t = 0.
        pub at_s: Spanned<f64>,
        /// Keys for the direction from client to server only.
        #[serde(default)]
        pub forward: Option<LinkKeys>,
        /// Keys for the direction from server to client only.
        #[serde(default)]
        pub reverse: Option<LinkKeys>,
    }
}

with_link_keys! {
    /// Changes that a cell makes to a path. Keys that are absent stay the same.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PathChange {
        /// Keys for the direction from client to server only.
        #[serde(default)]
        pub forward: Option<LinkKeys>,
        /// Keys for the direction from server to client only.
        #[serde(default)]
        pub reverse: Option<LinkKeys>,
    }
}

with_link_keys! {
    /// A cell: a version of the links. Its own keys replace those of every path, and keys in `path` replace
    /// those of single paths.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Cell {
        /// Name, unique in the scenario.
        pub name: String,
        /// Changes of single paths, by name.
        #[serde(default)]
        pub path: BTreeMap<Spanned<String>, PathChange>,
        /// Changes of single flows, by name.
        #[serde(default)]
        pub flow: BTreeMap<Spanned<String>, FlowChange>,
    }
}

impl Cell {
    /// Returns the error in the cell's name or in its changes of `flows`, if any.
    pub(super) fn problem(&self, flows: &[FlowSpec]) -> Option<Problem> {
        // `--cell all` means every cell.
        if !is_plain(&self.name) || self.name == "all" {
            let what = "use letters, digits, `-`, `_` and `.` only, and not `all`";
            return Some((None, format!("cell `{}`: {what}", self.name)));
        }
        self.flow.iter().find_map(|(name, change)| {
            let what = if change.rate.bps() == 0 {
                "rate must be above 0"
            } else if flows.iter().any(|flow| flow.is(name.as_ref()) && flow.rate.is_none()) {
                "this flow has no `rate` that a cell can change"
            } else {
                return None;
            };
            Some((Some(name.span()), what.to_owned()))
        })
    }
}

impl PathEvent {
    /// Returns the keys of both directions after the change.
    pub fn apply(&self, ways: &[LinkKeys; 2]) -> [LinkKeys; 2] {
        keys::ways(ways, &self.link_keys(), self.forward.as_ref(), self.reverse.as_ref())
    }
}

impl PathSpec {
    /// Returns the keys of both directions before t = 0. A trace begins at t = 0, so that all runs have the
    /// same rates, however long their set-up takes. Until then, the link has the trace's mean rate.
    pub(crate) fn ways_before_start(&self) -> [LinkKeys; 2] {
        self.ways.clone().map(|keys| match keys.trace {
            Some(_) => LinkKeys { rate: Some(keys.mean_rate()), trace: None, rate_trace: None, ..keys },
            None => keys,
        })
    }

    /// Returns the keys of both directions after each event of the path, in order of time (seconds after t =
    /// 0).
    pub fn course(&self) -> Vec<(f64, [LinkKeys; 2])> {
        let mut ways = self.ways.clone();
        let mut after = |event: &PathEvent| {
            ways = event.apply(&ways);
            (*event.at_s.as_ref(), ways.clone())
        };
        self.events.iter().map(&mut after).collect()
    }

    /// Returns the keys of both directions at each change from t = 0 to `end_s`, including the changes that a
    /// model makes.
    pub fn course_with_models(&self, end_s: f64) -> Vec<(f64, [LinkKeys; 2])> {
        let stages: Vec<_> = std::iter::once((0.0, self.ways.clone())).chain(self.course()).collect();
        let mut course = Vec::new();
        for (i, (from, ways)) in stages.iter().enumerate() {
            let to = stages.get(i + 1).map_or(end_s, |stage| stage.0);
            let states = ways.each_ref().map(|keys| keys.states(self.seed, to));
            let mut at: Vec<f64> = states.iter().flatten().map(|state| state.0).collect();
            at.retain(|at| at > from);
            at.push(*from);
            at.sort_by(f64::total_cmp);
            at.dedup();
            for at in at {
                let now = |way: usize| {
                    let passed = states[way].partition_point(|state| state.0 <= at);
                    ways[way].in_state(passed.checked_sub(1).map(|last| states[way][last].1))
                };
                course.push((at, [now(0), now(1)]));
            }
        }
        course
    }
}
