//! Scenarios: what an experiment is, in one TOML file for both backends. `docs/scenarios.md` explains the format to users.

mod check;
mod keys;
mod library;
mod link;
mod load;
mod model;
mod quantity;
mod resolved;
mod rival;
mod short;
mod source;
mod sweep;
mod tunnel;

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use mpdccp_proto::{Fallback, Named as _, SessionConfig, Settings};
use serde::Deserialize;
use toml::{Spanned, Table};
use units::Rate;

pub use keys::LinkKeys;
use keys::with_link_keys;
pub use library::{LIBRARY, Named};
pub use link::{AggregationSpec, BurstLoss, Discipline, JitterSpec, PolicerSpec, SpreadKind};
pub use linkem_net::quantity::QueueLimit;
pub use load::ScenarioError;
pub use model::Modelled;
pub use mpdccp_proto::Variant;
pub use rival::Rival;
pub use short::Sizes;
pub use source::{Ladder, SourceSpec};
pub use sweep::{Point, SweepSpec};
pub use tunnel::TunnelSettings;

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Unique, such as `paper/multipath-udp`.
    pub name: String,
    /// One line.
    pub title: String,
    /// What the experiment is about, for the report.
    #[serde(default)]
    pub about: String,
    /// From t = 0 to the end of the traffic.
    pub duration_s: Spanned<f64>,
    /// What carries the flows.
    #[serde(default)]
    pub mode: Mode,
    /// Runs of each contender in each cell, if the user does not say.
    #[serde(default = "one")]
    pub runs: u32,
    /// The cell that is run if the user does not say, and shown first.
    #[serde(default)]
    pub headline: Option<Spanned<String>>,
    /// Settings of the tunnel or connection, unless a contender has its own.
    #[serde(default)]
    pub tunnel: TunnelSettings,
    /// How hosts differ from run to run in the simulator; real ones do so by themselves.
    #[serde(default)]
    pub host: Host,
    /// At least one.
    #[serde(rename = "path")]
    pub paths: Vec<PathSpec>,
    /// Variants of the links. The file may leave them out: then there is one, `base`, that changes nothing.
    #[serde(rename = "cell", default)]
    pub cells: Vec<Cell>,
    /// At least one.
    #[serde(rename = "contender")]
    pub contenders: Vec<Contender>,
    /// At least one.
    #[serde(rename = "flow")]
    pub flows: Vec<FlowSpec>,
    /// Published or measured figures to compare with.
    #[serde(rename = "reference", default)]
    pub references: Vec<Reference>,
    /// What we set out to reach.
    #[serde(rename = "aim", default)]
    pub aims: Vec<Aim>,
    /// Values to run the scenario with, for `mpdccp lab sweep`.
    #[serde(default)]
    pub sweep: Option<SweepSpec>,
    /// What errors call the file; files that it names lie beside it.
    #[serde(skip)]
    pub(super) file: String,
    /// The file as it was read, to be written again.
    #[serde(skip)]
    pub(super) document: toml::Table,
    /// Hashes of the files that it names, by their names.
    #[serde(skip)]
    pub(super) files: std::collections::BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

/// What carries the flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// IP packets through the virtual interfaces of the tunnel.
    #[default]
    Tunnel,
    /// Datagrams on one plain DCCP connection (or TCP segments, for a contender with `tcp`), no tunnel.
    Direct,
}

/// What differs between two runs of real hosts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Each flow begins at a moment of this stretch after its start, any of them as likely.
    #[serde(default, deserialize_with = "quantity::time")]
    pub start_within: Duration,
    /// Mean time from a packet's arrival at the interface until the program has it; exponentially distributed, in order.
    #[serde(default, deserialize_with = "quantity::time")]
    pub wake_up: Duration,
}

with_link_keys! {
    /// One path: a link. Its keys hold for both directions, but for what `there` and `back` name.
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
        pub there: Option<LinkKeys>,
        /// From server to client only.
        #[serde(default)]
        pub back: Option<LinkKeys>,
        /// Rate from server to client, if it is another.
        #[serde(default, deserialize_with = "quantity::opt_rate")]
        pub back_rate: Option<Rate>,
        /// Limit of the queue from server to client, if it is another.
        #[serde(default, deserialize_with = "quantity::opt_queue")]
        pub back_queue: Option<QueueLimit>,
        /// Priority as RFC 9897 section 3.2.10 counts it: higher is preferred.
        #[serde(default)]
        pub priority: Option<u8>,
        /// The tunnel does not use it; a flow may, with `via` or `mirror`. No such path comes before one that the tunnel uses.
        #[serde(default)]
        pub beside: bool,
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
        pub there: Option<LinkKeys>,
        /// From server to client only.
        #[serde(default)]
        pub back: Option<LinkKeys>,
    }
}

with_link_keys! {
    /// What a path has in a cell. What is not named stays.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PathChange {
        /// From client to server only.
        #[serde(default)]
        pub there: Option<LinkKeys>,
        /// From server to client only.
        #[serde(default)]
        pub back: Option<LinkKeys>,
    }
}

with_link_keys! {
    /// A variant of the links; what is named replaces the same property of every path, or of one.
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

/// What a flow has in a cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowChange {
    /// Offered rate.
    #[serde(deserialize_with = "quantity::rate")]
    pub rate: Rate,
}

/// Who is compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contender {
    /// `ccid2`, `ccid5`, `ccid5-draft`, `tcp-cubic`, `tcp-bbr` in the published scenarios.
    pub label: Spanned<String>,
    /// DCCP congestion control identifier.
    #[serde(default)]
    pub ccid: Option<Spanned<u8>>,
    /// Of what the server sends, if it is another (direct mode only).
    #[serde(default)]
    pub back_ccid: Option<Spanned<u8>>,
    /// Instead of DCCP: kernel TCP with this congestion control (direct mode only).
    #[serde(default)]
    pub tcp: Option<Spanned<String>>,
    /// Instead of DCCP: plain UDP (direct mode only).
    #[serde(default)]
    pub udp: bool,
    /// Instead of our tunnel: somebody else's, or none (mode "tunnel" only).
    #[serde(default)]
    pub rival: Option<Rival>,
    /// Which rules of the CCID apply.
    #[serde(default)]
    pub variant: Variant,
    /// Settings that differ from the scenario's.
    #[serde(default)]
    pub tunnel: TunnelSettings,
    /// The paths it uses, by name; all that the tunnel may use if absent.
    #[serde(default)]
    pub paths: Option<Vec<Spanned<String>>>,
    /// The flows it carries, by name; all if absent.
    #[serde(default)]
    pub flows: Option<Vec<Spanned<String>>>,
}

/// A flow from the client to the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Unique in the scenario.
    pub name: Spanned<String>,
    /// So many alike, called `NAME-1` and so on.
    #[serde(default)]
    pub count: Option<Spanned<u32>>,
    /// What it is.
    pub kind: FlowKind,
    /// Command: what runs in the server's namespace from before t = 0 to the end.
    #[serde(default)]
    pub server: Option<String>,
    /// Command: what runs in the client's from `start_s` to `stop_s`, or until it ends by itself.
    #[serde(default)]
    pub client: Option<String>,
    /// UDP: payload bytes a packet.
    #[serde(default)]
    pub payload: Option<Spanned<u32>>,
    /// UDP: offered rate, payload bytes.
    #[serde(default, deserialize_with = "quantity::opt_rate")]
    pub rate: Option<Rate>,
    /// UDP: how the datagrams come; at a constant rate if absent.
    #[serde(default)]
    pub source: Option<Spanned<SourceSpec>>,
    /// TCP and short: the kernel's congestion control.
    #[serde(default)]
    pub cc: Option<String>,
    /// Short: bytes of each connection, any of these as likely.
    #[serde(default)]
    pub sizes: Option<Sizes>,
    /// Short: mean time from the beginning of one connection to that of the next.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub every: Option<Duration>,
    /// TCP: its packets may be marked instead of dropped (RFC 3168).
    #[serde(default)]
    pub ecn: bool,
    /// TCP: when a segment is lost.
    #[serde(default)]
    pub loss_detection: LossDetection,
    /// Goes beside the tunnel, directly over this path.
    #[serde(default)]
    pub via: Option<Spanned<String>>,
    /// Its other end is so much farther away than the link is long, each way; not for flows through the tunnel.
    #[serde(default, deserialize_with = "quantity::time")]
    pub owd: Duration,
    /// UDP in direct mode: from the server to the client, on the connection of the flow before.
    #[serde(default)]
    pub back: bool,
    /// UDP in direct mode: the server sends every packet back, and what is received is what came back.
    #[serde(default)]
    pub echo: bool,
    /// The server sends each datagram straight back, over this path, which the tunnel does not use.
    #[serde(default)]
    pub mirror: Option<Spanned<String>>,
    /// A packet that takes longer is of no use; see the metric `on_time_pct`.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub deadline: Option<Duration>,
    /// In direct mode: its connection shares its congestion state with those of the other flows that do.
    #[serde(default)]
    pub share_congestion: bool,
    /// From here ...
    #[serde(default)]
    pub start_s: f64,
    /// ... to here; the end of the scenario if absent.
    #[serde(default)]
    pub stop_s: Option<Spanned<f64>>,
}

impl FlowSpec {
    /// How its datagrams come, if it says.
    pub fn source(&self) -> Option<&SourceSpec> {
        self.source.as_ref().map(Spanned::as_ref)
    }

    /// Whether `name` means it: its own, or that of the entry which stands for several alike.
    pub fn is(&self, name: &str) -> bool {
        let number = self.name.as_ref().strip_prefix(name);
        number.is_some_and(|rest| rest.is_empty() || (self.count.is_some() && rest.starts_with('-')))
    }
}

impl PathEvent {
    /// Both directions after it.
    pub fn apply(&self, ways: &[LinkKeys; 2]) -> [LinkKeys; 2] {
        keys::ways(ways, &self.link_keys(), self.there.as_ref(), self.back.as_ref())
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

/// How TCP finds losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossDetection {
    /// RFC 8985, as the kernel.
    #[default]
    Rack,
    /// By three later packets whatever the reordering, as QUIC (RFC 9002).
    Three,
}

/// Kinds of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowKind {
    /// Datagrams.
    Udp,
    /// As much as TCP gives.
    Tcp,
    /// TCP connections that come, carry some bytes and go.
    Short,
    /// Whatever two commands send.
    Command,
}

impl FlowKind {
    /// As in files.
    pub fn name(self) -> &'static str {
        match self {
            FlowKind::Udp => "udp",
            FlowKind::Tcp => "tcp",
            FlowKind::Short => "short",
            FlowKind::Command => "command",
        }
    }
}

/// Figures of somebody else, from the last event to the end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Whose.
    pub source: String,
    /// How they were taken, where that differs from ours: the bytes counted, timers, with a tunnel or without.
    #[serde(default)]
    pub conditions: Option<String>,
    /// The contender it compares with.
    pub label: Spanned<String>,
    /// The cell; every cell if absent.
    #[serde(default)]
    pub cell: Option<Spanned<String>>,
    /// Values by metric name (`docs/scenarios.md` lists them).
    pub values: BTreeMap<Spanned<String>, f64>,
}

/// What we set out to reach.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aim {
    /// Contender.
    pub label: Spanned<String>,
    /// The cell; the headline if absent, every cell if `all`.
    #[serde(default)]
    pub cell: Option<Spanned<String>>,
    /// Name of the metric.
    pub metric: Spanned<String>,
    /// At least.
    #[serde(default)]
    pub min: Option<f64>,
    /// At most.
    #[serde(default)]
    pub max: Option<f64>,
    /// At most what this contender has in the same cell.
    #[serde(default)]
    pub not_above: Option<Spanned<String>>,
}

impl Aim {
    /// As a person would write it.
    pub fn text(&self) -> String {
        let bounds = [
            self.min.map(|min| format!("≥ {min}")),
            self.max.map(|max| format!("≤ {max}")),
            self.not_above.as_ref().map(|label| format!("≤ {}", label.as_ref())),
        ];
        bounds.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Scenario {
    /// How long the traffic runs.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(*self.duration_s.as_ref())
    }

    /// The cell that stands for the experiment.
    pub fn headline(&self) -> &Cell {
        self.headline.as_ref().and_then(|name| self.cell(name.as_ref())).unwrap_or(&self.cells[0])
    }

    /// A cell by name.
    pub fn cell(&self, name: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.name == name)
    }

    /// A contender by label.
    pub fn contender(&self, label: &str) -> Option<&Contender> {
        self.contenders.iter().find(|c| c.label.as_ref() == label)
    }

    /// A path as a cell has it.
    pub fn path_in(&self, path: usize, cell: &Cell) -> PathSpec {
        let mut spec = self.paths[path].clone();
        let named = |(name, _): &(&Spanned<String>, &PathChange)| name.as_ref() == spec.name.as_ref();
        spec.ways = keys::ways(&spec.ways, &cell.link_keys(), None, None);
        if let Some((_, own)) = cell.path.iter().find(named) {
            spec.ways = keys::ways(&spec.ways, &own.link_keys(), own.there.as_ref(), own.back.as_ref());
        }
        spec
    }

    /// The paths as `contender` finds them in a cell: those it does not use are `beside`.
    pub fn paths_of(&self, contender: &Contender, cell: &Cell) -> Vec<PathSpec> {
        let path = |i| {
            let spec = self.path_in(i, cell);
            let named = |names: &Vec<Spanned<String>>| names.iter().any(|n| n.as_ref() == spec.name.as_ref());
            let used = contender.paths.as_ref().is_none_or(named);
            PathSpec { beside: spec.beside || !used, ..spec }
        };
        (0..self.paths.len()).map(path).collect()
    }

    /// The flows that `contender` carries in a cell.
    pub fn flows_of(&self, contender: &Contender, cell: &Cell) -> Vec<FlowSpec> {
        let carried = |flow: &&FlowSpec| {
            contender.flows.as_ref().is_none_or(|all| all.iter().any(|n| flow.is(n.as_ref())))
        };
        let flow = |flow: &FlowSpec| {
            let own = cell.flow.iter().find(|(name, _)| flow.is(name.as_ref()));
            FlowSpec { rate: own.map(|(_, own)| own.rate).or(flow.rate), ..flow.clone() }
        };
        self.flows.iter().filter(carried).map(flow).collect()
    }

    /// The moments at which a path changes, in order, each once; the summary's phases lie between them.
    pub fn events_s(&self) -> Vec<f64> {
        let mut at: Vec<f64> = self.paths.iter().flat_map(|p| &p.events).map(|e| *e.at_s.as_ref()).collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        at.retain(|t| *t > 0.0 && *t < *self.duration_s.as_ref());
        at
    }

    /// What happens at `at_s`, in a word or two: all of it, or "the change" if several things do.
    pub fn event_words(&self, at_s: f64) -> &'static str {
        let mut words = None;
        let mut say = |said: &'static str| {
            words = Some(if words.is_some_and(|w| w != said) { "the change" } else { said });
        };
        for path in &self.paths {
            let course = path.course();
            let before = std::iter::once(&path.ways).chain(course.iter().map(|(_, ways)| ways));
            for ((_, after), before) in course.iter().zip(before).filter(|((at, _), _)| *at == at_s) {
                before.iter().zip(after).flat_map(|(b, a)| a.words_after(b)).for_each(&mut say);
            }
        }
        words.unwrap_or("the change")
    }

    /// What only the simulator can do, if `contender` asks for it.
    pub fn simulator_only_of(&self, contender: &Contender) -> Option<&'static str> {
        // TCP takes what comes as fast as it can; a DCCP connection's sender on namespaces keeps a pace.
        let simple = |f: &FlowSpec| match f.source() {
            None | Some(SourceSpec::Constant {}) => true,
            Some(SourceSpec::Bulk {}) => contender.tcp.is_some(),
            Some(_) => self.mode == Mode::Tunnel || contender.udp,
        };
        let flows = self.flows_of(contender, self.headline());
        if flows.iter().any(|f| f.back && f.kind != FlowKind::Command) {
            return Some("flows from the server to the client");
        }
        if flows.iter().any(|f| f.mirror.is_some()) {
            return Some("mirrored flows");
        }
        if flows.iter().any(|f| f.loss_detection != LossDetection::Rack && f.ecn) {
            return Some("ECN of flows that are modelled");
        }
        let what = "bulk sources, and in mode \"direct\" sources other than constant rate";
        (!flows.iter().all(simple)).then_some(what)
    }

    /// What only namespaces can do, if `contender` asks for it.
    pub fn namespaces_only_of(&self, contender: &Contender) -> Option<&'static str> {
        let flows = self.flows_of(contender, self.headline());
        match contender.rival {
            Some(Rival::Mptcp {}) => return Some("the kernel's Multipath TCP"),
            Some(Rival::Wireguard { .. }) => return Some("WireGuard"),
            Some(Rival::Command { .. }) => return Some("other people's tunnels"),
            Some(Rival::Plain {}) | None => {}
        }
        flows.iter().any(|f| f.kind == FlowKind::Command).then_some("commands as traffic")
    }

    /// What others have of a contender in a cell.
    pub fn references_of<'a>(&'a self, label: &'a str, cell: &'a str) -> impl Iterator<Item = &'a Reference> {
        let here = move |r: &&Reference| {
            *r.label.as_ref() == label && r.cell.as_ref().is_none_or(|c| *c.as_ref() == cell)
        };
        self.references.iter().filter(here)
    }

    /// Names of the paths, in order.
    pub fn path_names(&self) -> Vec<String> {
        self.paths.iter().map(|p| p.name.as_ref().clone()).collect()
    }

    /// The settings of the tunnel or connection as `contender` has them, as the tunnel's file would have them.
    ///
    /// # Errors
    /// What is wrong and where; never in a scenario that was checked.
    pub fn tunnel_of(&self, contender: &Contender) -> Result<Table, (Option<Range<usize>>, String)> {
        let mut table = contender.tunnel.or(&self.tunnel).table()?;
        if let Some(ccid) = &contender.ccid {
            table.insert("ccid".to_owned(), i64::from(*ccid.as_ref()).into());
            table.insert("cc_variant".to_owned(), contender.variant.name().into());
        }
        Ok(table)
    }

    /// Likewise, read.
    pub fn settings_of(&self, contender: &Contender) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in self.tunnel_of(contender).unwrap_or_default() {
            // Each was tried when the scenario was checked.
            let _ = settings.set(&key, value);
        }
        settings
    }
}

/// Makes of a session for IP packets over several paths a plain connection for an application's datagrams.
pub(crate) fn direct(session: &mut SessionConfig) {
    session.multipath = false;
    session.fallback = Fallback::Plain;
    session.connection.ndp_count = false;
    session.queue.discipline = mpdccp_proto::Discipline::Fifo;
}
