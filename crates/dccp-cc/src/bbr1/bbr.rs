//! BBR's variables, their initial values, and its variants.

use super::aggregation::Aggregation;
use super::competitors::Competitors;
use super::long_term::LongTerm;
use super::path_model::{PathModel, Units};
use super::states::{Drained, ProbeRtt, Recovery, State};
use super::tuning::Tuning;
use crate::losses::Losses;
use crate::{CcConfig, Controller, Part};
use alloc::boxed::Box;
use mpdccp_units::{Duration, Rate, Time};

/// BBRHighGain, 2/ln 2: the lowest gain that doubles the rate each round (section 2).
pub(super) const HIGH_GAIN: f64 = 2.885_39;
/// InitialCwnd in packets (RFC 6928). The transport chooses it (section 4.2.3.1).
pub(super) const INITIAL_CWND: u64 = 10;
/// The lowest pacing rate is one full packet in this many seconds. Without this limit, a bandwidth estimate
/// near zero would stall the path forever.
pub(super) const MIN_PACING_SECS: u64 = 1;

/// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00).
///
/// Only [`Bbr1::tcp`] has Linux's long-term bandwidth sampler, which detects policers and is not part of the
/// draft.
#[derive(Debug)]
pub struct Bbr1 {
    pub(super) tuning: Tuning,
    pub(super) units: Units,
    pub(super) random: u64,

    pub(super) path: PathModel,
    pub(super) aggregation: Aggregation,
    pub(super) losses: Losses,
    pub(super) competitors: Competitors,
    pub(super) long_term: LongTerm,
    /// No probe for bandwidth starts before this time.
    pub(super) no_probe_until: Option<Time>,
    /// Whether losses have reduced BtlBw since the last probe began.
    pub(super) probe_lost: bool,
    /// Size of the last probe for bandwidth, relative to a full probe at 5/4 of the rate.
    pub(super) probe_share: f64,
    /// Highest pacing rates of this round and of the previous one, in units per second.
    pub(super) paced: [f64; 2],
    pub(super) state: State,
    pub(super) pacing_gain: f64,
    pub(super) cwnd_gain: f64,

    // Full pipe (section 4.3.2.2).
    pub(super) filled_pipe: bool,
    pub(super) full_bw: f64,
    pub(super) full_bw_count: u8,
    /// RTT above which there was a queue when bandwidth last grew.
    pub(super) full_bw_rtt: Duration,
    pub(super) lost_in_round: bool,
    /// Whether, at some time in the current round, the window was full and the amount in flight exceeded
    /// Startup's window without the jitter allowance.
    pub(super) overfull: bool,
    /// Start of the running round of Startup.
    pub(super) startup_round_start: Time,
    /// Whether more packets were lost or marked in the round that is just ending than the path's own losses
    /// explain.
    pub(super) congested: bool,

    // ProbeBW (section 4.3.4).
    pub(super) cycle_index: usize,
    pub(super) cycle_stamp: Time,
    /// BtlBw when the last probe for bandwidth began.
    pub(super) probed_from: f64,

    pub(super) probe_rtt: ProbeRtt,
    pub(super) part: Part,
    pub(super) idle_restart: bool,
    /// State for [`Bbr1::check_drained`], set when capacity seems to have fallen and [`State::CapacityDrain`]
    /// begins.
    pub(super) drained: Option<Drained>,
    /// [`State::CapacityDrain`] does not begin before this time.
    pub(super) no_expiry_until: Time,

    // Control parameters (section 4.2).
    pub(super) cwnd: u64,
    /// Whether the window was full in the running round.
    pub(super) window_limited: bool,
    pub(super) prior_cwnd: u64,
    pub(super) recovery: Option<Recovery>,
    pub(super) pacing_rate: Rate,
    pub(super) pacing_from_rtt: bool,
    pub(super) delivered: u64,
}

impl Bbr1 {
    /// Creates the draft's controller or the tuned variant, depending on `cfg.draft`.
    pub fn new(cfg: &CcConfig) -> Bbr1 {
        Bbr1::with_tuning(cfg, Tuning::of(cfg.draft))
    }

    /// Creates a controller that behaves like BBR in Linux's TCP.
    pub fn tcp(mtu: u16, seed: u64) -> Bbr1 {
        let cfg = CcConfig { mtu, packets: false, draft: true, seed };
        Bbr1::with_tuning(&cfg, Tuning::LINUX)
    }

    /// Creates a controller with the given deviations from the draft. `tuning` replaces `cfg.draft`.
    pub fn with_tuning(cfg: &CcConfig, tuning: Tuning) -> Bbr1 {
        let units = Units { packets: cfg.packets, mtu: cfg.mtu };
        let mut bbr = Bbr1 {
            tuning,
            units,
            random: cfg.seed,
            path: PathModel::new(),
            aggregation: Aggregation::default(),
            losses: Losses::default(),
            competitors: Competitors::default(),
            long_term: LongTerm::default(),
            no_probe_until: None,
            probe_lost: false,
            probe_share: 1.0,
            paced: [0.0; 2],
            state: State::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            filled_pipe: false,
            full_bw: 0.0,
            full_bw_count: 0,
            full_bw_rtt: Duration::MAX,
            lost_in_round: false,
            overfull: false,
            startup_round_start: Time::ZERO,
            congested: false,
            cycle_index: 0,
            probed_from: 0.0,
            cycle_stamp: Time::ZERO,
            probe_rtt: ProbeRtt::default(),
            part: Part::ALONE,
            idle_restart: false,
            drained: None,
            no_expiry_until: Time::ZERO,
            cwnd: INITIAL_CWND * units.packet(),
            window_limited: false,
            prior_cwnd: 0,
            recovery: None,
            pacing_rate: Rate::ZERO,
            pacing_from_rtt: false,
            delivered: 0,
        };
        // BBRInitPacingRate (section 4.2.1): 1 ms replaces an unknown RTT.
        bbr.init_pacing_rate(Duration::from_millis(1));
        bbr
    }
}

/// A function that creates a controller.
type Make = fn(&CcConfig) -> Box<dyn Controller>;

macro_rules! without {
    ($($switch:ident),+ $(,)?) => {
        &[$((stringify!($switch), |cfg| {
            Box::new(Bbr1::with_tuning(cfg, Tuning { $switch: false, ..Tuning::TUNED }))
        })),+]
    };
}

/// Variants of the tuned controller. Each turns off one deviation from the draft and has the name of this
/// deviation. The list covers every deviation that concerns a single path.
pub const WITHOUT: &[(&str, Make)] = without![
    expire_bandwidth,
    confirm_rtprop,
    gentle_probe_rtt,
    small_quantum,
    allow_for_jitter,
    full_drain,
    full_pipe_shows,
    open_startup,
    bound_by_losses,
    heed_competitors,
    probe_on,
];
