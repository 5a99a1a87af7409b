//! Scenarios. A scenario describes an experiment, for any backend, in a single TOML file. `docs/scenarios.md`
//! explains the format to users.

mod aim;
mod baseline;
mod event;
mod flow;
mod keys;
mod library;
mod load;
mod path;
mod place;
mod quantity;
mod resolved;
mod short;
mod source;
mod sweep;
mod tunnel;
mod validate;
mod variant;

use core::ops::Range;
use core::time::Duration;

use mpdccp_proto::{Fallback, Named as _, SessionConfig, Settings};
use serde::Deserialize;
use toml::{Spanned, Table};

pub use aim::{Aim, Reference};
pub use baseline::Baseline;
pub use event::{Reload, TunnelEvent};
pub use flow::{FlowChange, FlowKind, FlowSpec, LossDetection};
pub use library::{LIBRARY, Named};
pub use linkem_net::keys::{AggregationSpec, LinkKeys, Modelled};
pub use linkem_net::quantity::QueueLimit;
pub use load::ScenarioError;
pub use mpdccp_proto::Variant as CcVariant;
pub use path::{Cell, PathChange, PathEvent, PathSpec};
pub use quantity::Sizes;
pub use source::{Ladder, SourceSpec};
pub use sweep::{Point, SweepSpec};
pub(crate) use tunnel::SECURITY;
pub use tunnel::TunnelSettings;
pub use variant::Variant;

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Unique name, such as `paper/multipath-udp`.
    pub name: String,
    /// Title in one line.
    pub title: String,
    /// Purpose of the experiment, as shown in the report.
    #[serde(default)]
    pub about: String,
    /// Time from t = 0 to the end of the traffic, in seconds.
    pub duration_s: Spanned<f64>,
    /// How long before t = 0 the tunnel or connection is up without traffic.
    #[serde(default, rename = "idle_s", deserialize_with = "quantity::seconds")]
    pub idle: Duration,
    /// Warm-up: the time after t = 0 that metrics exclude.
    #[serde(default, rename = "warm_up_s", deserialize_with = "quantity::seconds")]
    pub warm_up: Duration,
    /// Name of the measured flow; if absent, the first flow. The flows of an entry with `count` are measured
    /// together.
    #[serde(default)]
    pub measured: Option<Spanned<String>>,
    /// Transport of the flows.
    #[serde(default)]
    pub mode: Mode,
    /// Default number of runs of each variant in each cell.
    #[serde(default = "one")]
    pub runs: u32,
    /// Name of the default cell, which is also shown first.
    #[serde(default)]
    pub headline: Option<Spanned<String>>,
    /// Settings of the tunnel or connection, which variants can override.
    #[serde(default)]
    pub tunnel: TunnelSettings,
    /// Random differences between the simulated hosts of different runs. Real hosts differ without this key.
    #[serde(default)]
    pub host: Host,
    /// The paths; at least one.
    #[serde(rename = "path")]
    pub paths: Vec<PathSpec>,
    /// Cells: versions of the links. If the file has none, there is a single cell, `base`, that changes
    /// nothing.
    #[serde(rename = "cell", default)]
    pub cells: Vec<Cell>,
    /// The variants; at least one.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// Events of the tunnel, in time order.
    #[serde(rename = "event", default)]
    pub events: Vec<TunnelEvent>,
    /// The flows; at least one.
    #[serde(rename = "flow")]
    pub flows: Vec<FlowSpec>,
    /// Published or measured figures to compare with.
    #[serde(rename = "reference", default)]
    pub references: Vec<Reference>,
    /// Aims.
    #[serde(rename = "aim", default)]
    pub aims: Vec<Aim>,
    /// Values for which `mpdccp lab sweep` runs the scenario.
    #[serde(default)]
    pub sweep: Option<SweepSpec>,
    /// The file's name in errors. Paths of other files are relative to this file's directory.
    #[serde(skip)]
    pub(super) file: String,
    /// The parsed document, for summaries and hashes.
    #[serde(skip)]
    pub(super) document: toml::Table,
    /// Hashes of the files that the scenario names, by name.
    #[serde(skip)]
    pub(super) files: std::collections::BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

/// Transport of the flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// IP packets through the tunnel's virtual interfaces.
    #[default]
    Tunnel,
    /// Datagrams over a single plain DCCP connection without a tunnel (or TCP segments, if the variant has
    /// `tcp`).
    Direct,
}

/// Random differences between runs, such as real hosts have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Each flow's start is delayed by a uniformly distributed random time of at most this length.
    #[serde(default, deserialize_with = "quantity::time")]
    pub start_within: Duration,
    /// Mean time from the arrival of a packet at the interface until the program receives it. The time is
    /// exponentially distributed; packets stay in order.
    #[serde(default, deserialize_with = "quantity::time")]
    pub wake_up: Duration,
}

impl Scenario {
    /// Returns the duration of the traffic.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(*self.duration_s.as_ref())
    }

    /// Returns the headline cell.
    pub fn headline(&self) -> &Cell {
        self.headline.as_ref().and_then(|name| self.cell(name.as_ref())).unwrap_or(&self.cells[0])
    }

    /// Returns the cell with this name.
    pub fn cell(&self, name: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.name == name)
    }

    /// Returns the variant with this label.
    pub fn variant(&self, label: &str) -> Option<&Variant> {
        self.variants.iter().find(|c| c.label.as_ref() == label)
    }

    /// Returns the path with index `path`, including the changes made by a cell.
    pub fn path_in(&self, path: usize, cell: &Cell) -> PathSpec {
        let mut spec = self.paths[path].clone();
        let named = |(name, _): &(&Spanned<String>, &PathChange)| name.as_ref() == spec.name.as_ref();
        spec.ways = keys::ways(&spec.ways, &cell.link_keys(), None, None);
        if let Some((_, own)) = cell.path.iter().find(named) {
            spec.ways = keys::ways(&spec.ways, &own.link_keys(), own.forward.as_ref(), own.reverse.as_ref());
        }
        spec
    }

    /// Returns all paths of a cell for `variant`. Paths that the variant does not use are marked `outside`.
    pub fn paths_of(&self, variant: &Variant, cell: &Cell) -> Vec<PathSpec> {
        let path = |i| {
            let spec = self.path_in(i, cell);
            let named = |names: &Vec<Spanned<String>>| names.iter().any(|n| n.as_ref() == spec.name.as_ref());
            let used = variant.paths.as_ref().is_none_or(named);
            PathSpec { outside: spec.outside || !used, ..spec }
        };
        (0..self.paths.len()).map(path).collect()
    }

    /// Returns the flows of `variant` in a cell.
    pub fn flows_of(&self, variant: &Variant, cell: &Cell) -> Vec<FlowSpec> {
        let carried = |flow: &&FlowSpec| {
            variant.flows.as_ref().is_none_or(|all| all.iter().any(|n| flow.is(n.as_ref())))
        };
        let flow = |flow: &FlowSpec| {
            let own = cell.flow.iter().find(|(name, _)| flow.is(name.as_ref()));
            FlowSpec { rate: own.map(|(_, own)| own.rate).or(flow.rate), ..flow.clone() }
        };
        self.flows.iter().filter(carried).map(flow).collect()
    }

    /// Returns the labels of all variants.
    pub fn labels(&self) -> Vec<&str> {
        self.variants.iter().map(|variant| variant.label.as_ref().as_str()).collect()
    }

    /// Returns the name of a variant's measured flow, or of a measured entry with `count`. This is the
    /// scenario's `measured` or, if absent, the first flow that the variant carries.
    fn measured_of(&self, label: &str) -> &str {
        let first = || {
            let carried = self.variant(label).and_then(|variant| variant.flows.as_ref());
            let own =
                |flow: &&FlowSpec| carried.is_none_or(|all| all.iter().any(|name| flow.is(name.as_ref())));
            self.flows.iter().find(own).map(|flow| flow.name.as_ref())
        };
        self.measured.as_ref().map(Spanned::as_ref).or_else(first).map_or("", String::as_str)
    }

    /// Returns whether a flow is measured for a variant.
    pub fn is_measured(&self, label: &str, name: &str) -> bool {
        let measured = self.measured_of(label);
        self.flows.iter().any(|flow| flow.name.as_ref() == name && flow.is(measured))
    }

    /// Returns text that names the flow measured for a variant.
    pub fn measured_words(&self, label: &str) -> String {
        let name = self.measured_of(label);
        let several = self.flows.iter().filter(|flow| flow.is(name)).count() > 1;
        if several { format!("`{name}`, all together") } else { format!("`{name}`") }
    }

    /// Returns the start of the time that most metrics cover, in seconds after t = 0. This is the last event
    /// or the end of the warm-up, whichever is later.
    pub fn measured_from_s(&self) -> f64 {
        self.events_s().last().copied().unwrap_or(0.0).max(self.warm_up.as_secs_f64())
    }

    /// Returns the times of all path changes and tunnel events, sorted and without duplicates.
    pub fn events_s(&self) -> Vec<f64> {
        let paths = self.paths.iter().flat_map(|p| &p.events).map(|e| *e.at_s.as_ref());
        let mut at: Vec<f64> = paths.chain(self.events.iter().map(|e| *e.at_s.as_ref())).collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        at.retain(|t| *t > 0.0 && *t < *self.duration_s.as_ref());
        at
    }

    /// Returns a short phrase for the event at `at_s` in a cell, or "the change" if different events happen
    /// at that time.
    pub fn event_words(&self, at_s: f64, cell: &Cell) -> &'static str {
        let mut words = None;
        let mut say = |said: &'static str| {
            words = Some(if words.is_some_and(|w| w != said) { "the change" } else { said });
        };
        for path in (0..self.paths.len()).map(|i| self.path_in(i, cell)) {
            let course = path.course();
            let before = std::iter::once(&path.ways).chain(course.iter().map(|(_, ways)| ways));
            for ((_, after), before) in course.iter().zip(before).filter(|((at, _), _)| *at == at_s) {
                before.iter().zip(after).flat_map(|(b, a)| keys::words_after(a, b)).for_each(&mut say);
            }
        }
        let here = self.events.iter().filter(|event| *event.at_s.as_ref() == at_s);
        here.map(TunnelEvent::phrase).for_each(&mut say);
        words.unwrap_or("the change")
    }

    /// If `variant` has a feature that only the simulator supports, returns text that names it.
    pub fn simulator_only_of(&self, variant: &Variant) -> Option<&'static str> {
        // In namespaces, a TCP connection can carry only records of one size.
        let simple = |f: &FlowSpec| match f.source() {
            Some(SourceSpec::Bulk {}) => self.mode == Mode::Direct && !variant.udp,
            Some(SourceSpec::Video { .. } | SourceSpec::Trace { .. }) => variant.tcp.is_none(),
            None | Some(_) => true,
        };
        let flows = self.flows_of(variant, self.headline());
        if flows.iter().any(|f| f.reverse && f.kind != FlowKind::Command) {
            return Some("flows from the server to the client");
        }
        if flows.iter().any(|f| f.mirror.is_some()) {
            return Some("mirrored flows");
        }
        if flows.iter().any(|f| f.loss_detection != LossDetection::Rack && f.ecn) {
            return Some("ECN of modelled TCP flows");
        }
        if flows.iter().any(|f| f.share_congestion) {
            return Some("`share_congestion`");
        }
        if variant.reverse_ccid.is_some() {
            return Some("`reverse_ccid`");
        }
        let kernel_tcp = |f: &&FlowSpec| matches!(f.kind, FlowKind::Tcp | FlowKind::Short);
        if flows.iter().any(|f| f.ecn) && flows.iter().filter(kernel_tcp).any(|f| !f.ecn) {
            return Some("TCP flows with and without `ecn` in one run");
        }
        if self.events.iter().any(|e| e.restart.is_some() || e.kill.is_some()) {
            return Some("events that restart an end of the tunnel");
        }
        let what = "a video or a trace over TCP, or a backlogged source without congestion control";
        (!flows.iter().all(simple)).then_some(what)
    }

    /// If `variant` has a feature that only namespaces support, returns text that names it.
    pub fn namespaces_only_of(&self, variant: &Variant) -> Option<&'static str> {
        let flows = self.flows_of(variant, self.headline());
        match variant.baseline {
            Some(Baseline::Mptcp {}) => return Some("the kernel's Multipath TCP"),
            Some(Baseline::Wireguard { .. }) => return Some("WireGuard"),
            Some(Baseline::Command { .. }) => return Some("tunnels of other programs"),
            Some(Baseline::Plain {}) | None => {}
        }
        flows.iter().all(|f| f.kind == FlowKind::Command).then_some("commands as traffic")
    }

    /// Returns the name of a bulk flow, if any, that has no congestion control in a variant because the
    /// variant uses plain UDP.
    pub fn unslowed_of(&self, variant: &Variant) -> Option<String> {
        let plain = variant.udp || variant.baseline == Some(Baseline::Plain {});
        let bulk = |f: &&FlowSpec| matches!(f.source(), Some(SourceSpec::Bulk {}));
        let flows = self.flows_of(variant, self.headline());
        flows.iter().filter(bulk).find(|f| plain || f.via.is_some()).map(|f| f.name.as_ref().clone())
    }

    /// Returns the reference figures for a variant in a cell.
    pub fn references_of<'a>(&'a self, label: &'a str, cell: &'a str) -> impl Iterator<Item = &'a Reference> {
        let here = move |r: &&Reference| {
            *r.label.as_ref() == label && r.cell.as_ref().is_none_or(|c| *c.as_ref() == cell)
        };
        self.references.iter().filter(here)
    }

    /// Returns the names of the paths, in order.
    pub fn path_names(&self) -> Vec<String> {
        self.paths.iter().map(|p| p.name.as_ref().clone()).collect()
    }

    /// Returns the settings of the tunnel or connection for `variant`, as keys of the tunnel's file.
    ///
    /// # Errors
    /// Fails if the settings are invalid; the error includes the position. This cannot happen once a scenario
    /// has been checked.
    pub fn tunnel_of(&self, variant: &Variant) -> Result<Table, (Option<Range<usize>>, String)> {
        self.tunnel_after(variant, &TunnelSettings::default())
    }

    /// Like [`tunnel_of`](Self::tunnel_of), but after reloads with these changes.
    ///
    /// # Errors
    /// Fails like [`tunnel_of`](Self::tunnel_of).
    pub(crate) fn tunnel_after(
        &self,
        variant: &Variant,
        changed: &TunnelSettings,
    ) -> Result<Table, (Option<Range<usize>>, String)> {
        let mut table = changed.or(&variant.tunnel).or(&self.tunnel).table()?;
        if let (Some(ccid), false) = (&variant.ccid, changed.has("ccid")) {
            table.insert("ccid".to_owned(), i64::from(*ccid.as_ref()).into());
        }
        if let (Some(rules), false) = (variant.cc_variant, changed.has("ccid") || changed.has("cc_variant")) {
            table.insert("cc_variant".to_owned(), rules.name().into());
        }
        Ok(table)
    }

    /// Returns whether `variant`'s tunnel is encrypted.
    pub fn is_sealed(&self, variant: &Variant) -> bool {
        let table = self.tunnel_of(variant).unwrap_or_default();
        table.get(tunnel::SECURITY).is_some_and(|value| value.as_str() == Some(tunnel::SEALED))
    }

    /// Returns whether `variant`'s tunnel carries TCP as streams.
    pub fn has_streams(&self, variant: &Variant) -> bool {
        let table = self.tunnel_of(variant).unwrap_or_default();
        let asked = table.get(tunnel::TCP).is_some_and(|value| value.as_str() == Some(tunnel::STREAMS));
        asked && variant.baseline.is_none()
    }

    /// Returns the session settings for `variant`.
    pub fn settings_of(&self, variant: &Variant) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in self.tunnel_of(variant).unwrap_or_default() {
            // No error is possible, because each setting was checked along with the scenario.
            let _ = settings.set(&key, value);
        }
        settings
    }
}

/// Adapts session settings, which are meant for IP packets over several paths, to a plain connection that
/// carries an application's datagrams.
pub(crate) fn direct(session: &mut SessionConfig) {
    session.multipath = false;
    session.fallback = Fallback::Plain;
    session.connection.ndp_count = false;
    session.queue.discipline = mpdccp_proto::Discipline::Fifo;
}
