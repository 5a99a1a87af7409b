use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Mutex;

use mpdccp_proto::Named;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::scenario::{Cell, FlowSpec, Mode, PathSpec, Scenario, Variant};
use crate::{Random, RunRecord};

/// Time that a run continues after its traffic ends, on every backend, so that packets still queued can
/// arrive.
pub(crate) const DRAIN: Duration = Duration::from_millis(1_500);

/// A run to be made.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Scenario to run.
    pub scenario: &'a Scenario,
    /// Variant to run.
    pub variant: &'a Variant,
    /// Cell with the links.
    pub cell: &'a Cell,
    /// Index of the repeat, from 0.
    pub repeat: u32,
    /// Seed of this run.
    pub seed: u64,
}

/// Progress of a run, for the live view.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Time since t = 0.
    pub t: Duration,
    /// Rate received by all flows together since the last sample, in Mbit/s.
    pub rx_mbps: f64,
    /// Latency of the last packet received.
    pub latency_ms: Option<f64>,
    /// Rate offered to each path since the last sample, in Mbit/s of outer packets.
    pub path_mbps: Vec<f64>,
}

/// Simulated time and real time spent on all runs of a backend in virtual time.
#[derive(Debug, Default)]
pub(crate) struct Spent(Mutex<(Duration, Duration)>);

impl Spent {
    pub(crate) fn add(&self, simulated: Duration, real: Duration) {
        if let Ok(mut spent) = self.0.lock() {
            spent.0 += simulated;
            spent.1 += real;
        }
    }

    /// Returns the simulated seconds per second of real time.
    pub(crate) fn speed(&self) -> Option<f64> {
        let (simulated, real) = *self.0.lock().ok()?;
        (!real.is_zero()).then(|| simulated.as_secs_f64() / real.as_secs_f64())
    }
}

/// A way to make runs.
pub trait Backend: Sync {
    /// Returns `sim`, `netns` or `uml`.
    fn name(&self) -> &'static str;

    /// If the machine lacks prerequisites of a run, returns a message for the user that names them.
    fn lacks(&self, _plan: &Plan<'_>) -> Option<String> {
        None
    }

    /// If this backend cannot run some of the flows, returns a message for the user that names them. The
    /// other flows still run.
    fn leaves_out(&self, _plan: &Plan<'_>) -> Option<String> {
        None
    }

    /// Returns the properties of the machine that influence results, such as the kernel and external
    /// programs. The store reuses a run only if these properties are the same.
    fn made_by(&self, _plan: &Plan<'_>) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Makes one run, then removes everything that it created on the machine.
    ///
    /// # Errors
    /// On failure, returns the reason as a message for the user.
    fn run(&self, plan: &Plan<'_>, watch: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError>;

    /// Returns whether runs may be made in parallel.
    fn parallel(&self) -> bool {
        false
    }

    /// Returns the simulated seconds per second of real time over all runs so far, or `None` if the backend
    /// runs in real time.
    fn speed(&self) -> Option<f64> {
        None
    }
}

/// Error of an experiment.
#[derive(Debug, Serialize, Deserialize)]
pub enum LabError {
    /// A prerequisite is missing. The text names it and says how to obtain it.
    Missing(String),
    /// The request is invalid. The text says what is wrong, where, and which values are allowed.
    Wrong(String),
    /// The user asked to stop.
    Interrupted,
    /// A command of the scenario failed, and would fail in every other run too.
    Command(String),
    /// Anything else.
    Failed(String),
}

impl LabError {
    /// Returns the error for a failure such as `cannot write FILE`, including its cause.
    pub fn failed(doing: impl fmt::Display, why: impl fmt::Display) -> LabError {
        LabError::Failed(format!("{doing}: {why}"))
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Missing(text)
            | LabError::Wrong(text)
            | LabError::Command(text)
            | LabError::Failed(text) => f.write_str(text),
            LabError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for LabError {}

impl Plan<'_> {
    /// Returns all paths with their seeds for this run.
    pub fn paths(&self) -> Vec<PathSpec> {
        let seeded = |(i, path)| PathSpec { seed: self.seed_of(Random::Model(i)), ..path };
        self.scenario.paths_of(self.variant, self.cell).into_iter().enumerate().map(seeded).collect()
    }

    /// Returns the flows of this run.
    pub fn flows(&self) -> Vec<FlowSpec> {
        self.scenario.flows_of(self.variant, self.cell)
    }

    /// Returns the seed of one random stream of this run.
    pub(crate) fn seed_of(&self, random: Random) -> u64 {
        random.seed(self.seed)
    }

    /// Returns the seed of a host's sequence numbers, ports and keys. Side 0 is the client, side 1 the
    /// server.
    pub(crate) fn host_seed(&self, side: usize) -> [u8; 32] {
        let mut bytes = [side as u8; 32];
        bytes[..8].copy_from_slice(&self.seed_of(Random::Host(side)).to_le_bytes());
        bytes
    }

    /// Returns the seed of a flow's traffic.
    pub(crate) fn flow_seed(&self, flow: &FlowSpec) -> u64 {
        self.seed_of(Random::Flow(self.place_of(flow)))
    }

    /// Returns the index of a flow among all flows of the scenario, including those that the variant does not
    /// carry.
    fn place_of(&self, flow: &FlowSpec) -> usize {
        let flows = &self.scenario.flows;
        flows.iter().position(|other| other.name.as_ref() == flow.name.as_ref()).unwrap_or(flows.len())
    }

    /// Returns the times after t = 0 at which `flow` starts and stops sending, both shifted by the random
    /// offset from `start_within`.
    pub(crate) fn span_of(&self, flow: &FlowSpec) -> (Duration, Duration) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed_of(Random::Start(self.place_of(flow))));
        let share = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let late = self.scenario.host.start_within.mul_f64(share);
        let end = self.scenario.duration();
        let stop = flow.stop_s.as_ref().map(|stop| Duration::from_secs_f64(*stop.as_ref()) + late);
        (Duration::from_secs_f64(flow.start_s) + late, stop.map_or(end, |stop| end.min(stop)))
    }

    /// Returns the settings of this run by name, for `summary.json`.
    pub fn params(&self) -> BTreeMap<String, Value> {
        let tunnel = self.scenario.settings_of(self.variant);
        let ms = |d: Duration| json!(d.as_secs_f64() * 1e3);
        let mut params = BTreeMap::from([("seed".to_owned(), json!(self.seed))]);
        let mut put = |name: &str, value: Option<Value>| params.extend(value.map(|v| (name.to_owned(), v)));
        put("ccid", self.variant.ccid.as_ref().map(|c| json!(c.as_ref())));
        put("cc_variant", self.variant.ccid.as_ref().map(|_| json!(tunnel.cc_variant.name())));
        put("tcp", self.variant.tcp.as_ref().map(|t| json!(t.as_ref())));
        if self.scenario.mode == Mode::Tunnel {
            put("scheduler", Some(json!(tunnel.scheduler.name())));
            put("reordering", Some(json!(tunnel.reordering.kind.name())));
            put("reorder_timeout_ms", Some(ms(tunnel.reordering.wait)));
        }
        put("session_queue_ms", Some(ms(tunnel.queue.max_sojourn)));
        put("session_queue_packets", Some(json!(tunnel.queue.max_packets)));
        let first = self.scenario.path_in(0, self.cell);
        put("queue", Some(json!(first.ways[0].queue_limit().text())));
        put("owd_ms", Some(ms(first.ways[0].delay())));
        params
    }
}
