//! Paths, and what of them differs in a cell or changes while the scenario runs.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{FlowChange, LinkKeys, keys};
use linkem_net::with_link_keys;

with_link_keys! {
    /// One path: a link. Its keys hold for both directions, but for what `forward` and `reverse` name.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PathSpec {
        /// Unique in the scenario.
        pub name: Spanned<String>,
        /// The whole link is that of another path, named before this one, and so are all the keys of a link.
        #[serde(default)]
        pub shares: Option<Spanned<String>>,
        /// From client to server only.
        #[serde(default)]
        pub forward: Option<LinkKeys>,
        /// From server to client only.
        #[serde(default)]
        pub reverse: Option<LinkKeys>,
        /// Priority as RFC 9897 section 3.2.10 counts it: higher is preferred.
        #[serde(default)]
        pub priority: Option<u8>,
        /// The tunnel does not use it; cross traffic may, with `via` or `mirror`. No such path comes before one that the tunnel uses.
        #[serde(default)]
        pub outside: bool,
        /// Changes while the scenario runs, in order of time.
        #[serde(default)]
        pub events: Vec<PathEvent>,
        /// All its keys, client to server and back.
        #[serde(skip)]
        pub ways: [LinkKeys; 2],
        /// Of what is random about its model.
        #[serde(skip)]
        pub seed: u64,
    }
}

with_link_keys! {
    /// A change of a path. What is not named stays.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PathEvent {
        /// When.
        pub at_s: Spanned<f64>,
        /// From client to server only.
        #[serde(default)]
        pub forward: Option<LinkKeys>,
        /// From server to client only.
        #[serde(default)]
        pub reverse: Option<LinkKeys>,
    }
}

with_link_keys! {
    /// What a path has in a cell. What is not named stays.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PathChange {
        /// From client to server only.
        #[serde(default)]
        pub forward: Option<LinkKeys>,
        /// From server to client only.
        #[serde(default)]
        pub reverse: Option<LinkKeys>,
    }
}

with_link_keys! {
    /// A version of the links; what is named replaces the same property of every path, or of one.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Cell {
        /// Unique in the scenario.
        pub name: String,
        /// What single paths have else, by name.
        #[serde(default)]
        pub path: BTreeMap<Spanned<String>, PathChange>,
        /// What single flows have else, by name.
        #[serde(default)]
        pub flow: BTreeMap<Spanned<String>, FlowChange>,
    }
}

impl PathEvent {
    /// Both directions after it.
    pub fn apply(&self, ways: &[LinkKeys; 2]) -> [LinkKeys; 2] {
        keys::ways(ways, &self.link_keys(), self.forward.as_ref(), self.reverse.as_ref())
    }
}

impl PathSpec {
    /// Both directions from each of its events on, in order of time (seconds after t = 0).
    pub fn course(&self) -> Vec<(f64, [LinkKeys; 2])> {
        let mut ways = self.ways.clone();
        let mut after = |event: &PathEvent| {
            ways = event.apply(&ways);
            (*event.at_s.as_ref(), ways.clone())
        };
        self.events.iter().map(&mut after).collect()
    }

    /// The same from t = 0 to `end_s`, with all that a model does by itself.
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
