//! BBR's variables and their initial values.

use super::path_model::{ExtraAcked, MaxBw, MinRtt, Rounds, Signals, Undo};
use super::states::{FullBw, Probe, ProbeRtt, State};
use crate::CcConfig;
use crate::jitter::Jitter;
use crate::losses::Losses;
use mpdccp_units::{Duration, Rate};

/// C.InitialCwnd in packets (RFC 6928). The transport chooses it (section 5.6.4.1).
pub(super) const INITIAL_CWND: u64 = 10;

/// BBR version 3 (draft-ietf-ccwg-bbr-06).
///
/// The draft says that marks are congestion (section 3.6), but does not define the response. Here, every rule
/// about losses treats a marked packet as a lost one.
#[derive(Debug)]
pub struct Bbr3 {
    /// Whether the controller deviates from the draft for jitter, random losses and short queues
    /// (docs/ccid250.md).
    pub(super) tuned: bool,
    pub(super) packets: bool,
    pub(super) mtu: u16,
    pub(super) random: u64,

    pub(super) state: State,
    pub(super) rounds: Rounds,
    pub(super) max_bw: MaxBw,
    /// Bandwidth in use. It is max_bw, bounded by the short-term model.
    pub(super) bw: f64,
    pub(super) bw_shortterm: f64,
    /// `u64::MAX` means infinite.
    pub(super) inflight_shortterm: u64,
    /// `u64::MAX` means infinite.
    pub(super) inflight_longterm: u64,
    pub(super) min_rtt: MinRtt,
    pub(super) extra_acked: ExtraAcked,
    pub(super) jitter: Jitter,
    pub(super) losses: Losses,
    /// Number of further losses that still count as the path's own.
    pub(super) excused: f64,
    /// Minimum round-trip time of the last round.
    pub(super) least: Option<Duration>,
    /// Whether the last round's minimum round-trip time exceeded the path's minimum by at least the threshold
    /// that RFC 9406 uses to detect a queue.
    pub(super) queue_grew: bool,
    pub(super) signals: Signals,
    pub(super) full_bw: FullBw,
    pub(super) drain_start_round: u64,
    pub(super) probe: Probe,
    pub(super) probe_rtt: ProbeRtt,
    pub(super) idle_restart: bool,
    pub(super) undo: Undo,

    pub(super) cwnd: u64,
    pub(super) prior_cwnd: u64,
    /// Set after a timeout, until a round passes without congestion.
    pub(super) recovering: bool,
    /// Whether the window was full in the running round, and in the last round.
    pub(super) limited: [bool; 2],
    pub(super) pacing_rate: Rate,
    pub(super) pacing_from_rtt: bool,
    /// Packets delivered.
    pub(super) delivered: u64,
}

impl Bbr3 {
    /// Creates a controller.
    pub fn new(cfg: &CcConfig) -> Bbr3 {
        let mut bbr = Bbr3 {
            tuned: !cfg.draft,
            packets: cfg.packets,
            mtu: cfg.mtu,
            random: cfg.seed,
            state: State::Startup,
            rounds: Rounds::default(),
            max_bw: MaxBw::default(),
            bw: 0.0,
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: u64::MAX,
            inflight_longterm: u64::MAX,
            min_rtt: MinRtt::default(),
            extra_acked: ExtraAcked::new(),
            jitter: Jitter::default(),
            losses: Losses::default(),
            excused: 0.0,
            least: None,
            queue_grew: false,
            signals: Signals::default(),
            full_bw: FullBw::default(),
            drain_start_round: 0,
            probe: Probe { acked_per_inc: u64::MAX, ..Probe::default() },
            probe_rtt: ProbeRtt::default(),
            idle_restart: false,
            undo: Undo::default(),
            cwnd: INITIAL_CWND * u64::from(cfg.mtu.max(1)),
            prior_cwnd: 0,
            recovering: false,
            limited: [false; 2],
            pacing_rate: Rate::ZERO,
            pacing_from_rtt: false,
            delivered: 0,
        };
        bbr.init_pacing_rate(Duration::from_millis(1));
        bbr
    }
}
