//! The tuned variant's deviations from the draft, each with a switch.
//!
//! The model in `tests/` measures the switches on and off, except `full_pipe_shows`. The results are in the
//! tables in `docs/ccid5.md` and, for `couple`, in `docs/fairness.md`.

use super::states::CYCLE;
use core::time::Duration;

/// One switch for each deviation from the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// As soon as delivery rate and RTT agree that capacity has fallen, the sender drops old bandwidth
    /// samples and drains to one BDP. Without this, the sender stays at the old rate for ten rounds of
    /// inflated RTT.
    pub expire_bandwidth: bool,
    /// An RTT within an eighth of RTprop counts as a fresh RTprop if the packet left with at most a BDP in
    /// flight. Without this, a path whose delay has grown slightly is drained every ten seconds.
    pub confirm_rtprop: bool,
    /// ProbeRTT keeps half a BDP in flight instead of four packets, and ends when RTprop is confirmed.
    /// Without this, throughput drops every ten seconds.
    pub gentle_probe_rtt: bool,
    /// The send quantum is 1 ms of the rate and at least one packet. The draft uses at least two packets
    /// above 1.2 Mbit/s, and its window includes three quanta. On a slow path, these three quanta form a
    /// queue.
    pub small_quantum: bool,
    /// Window and drain targets include the amount that arrives during the variation of delay, which is the
    /// time that packets take beyond RTprop. The window also has room for aggregated acknowledgements
    /// (`aggregation.rs`), and a round of Startup lasts at least as long as packets take on average. Without
    /// this, a path with jitter is under-used, because RTprop is the minimum delay and not the typical delay.
    pub allow_for_jitter: bool,
    /// The 3/4 phase of ProbeBW lasts until the queue is gone, and targets contain no quanta. Without this,
    /// an estimate that is slightly too high builds up a standing queue until the window is full.
    pub full_drain: bool,
    /// The pipe counts as full if a queue lasts for a round, even if the sender is application-limited, and
    /// never without a queue or a loss. This helps in two cases. First, a path may carry only the occasional
    /// overflow of another path: in the draft, such a path leaves Startup with a low estimate, and then takes
    /// seconds to grow when it is needed. Second, the application may respond to acknowledgements, like TCP
    /// in a tunnel: in the draft, such a flow stays application-limited in Startup although the queue is
    /// full.
    pub full_pipe_shows: bool,
    /// In Startup, pacing spreads the window over at most about a third of a round trip. Without this, a TCP
    /// in a tunnel leaves slow start early: the TCP doubles its bursts each round trip, but BtlBw follows one
    /// round trip later, and at the old BtlBw a burst takes so long that the TCP's HyStart considers the path
    /// full.
    pub open_startup: bool,
    /// If more packets are lost or marked than the path's own losses explain, BtlBw falls to the delivered
    /// rate, and the next probe is smaller and, as in BBRv3, starts later. Rate samples count only up to the
    /// pacing rate. Without this, a policer or a short queue drops packets all the time, and TCP in a tunnel
    /// gets almost nothing.
    pub bound_by_losses: bool,
    /// If losses coincide with the queues of other flows, the window is at most as large as CUBIC's. Without
    /// this, TCP starves on a queue of a BDP or less.
    pub heed_competitors: bool,
    /// If a probe found more bandwidth and left no queue, the next probe follows within one round instead of
    /// after six. Without this, the estimate grows by only a quarter per eight rounds when a path's rate
    /// returns.
    pub probe_on: bool,
    /// Subflows that share a bottleneck probe and yield as one flow. Without this, they take the share of
    /// several flows.
    pub couple: bool,
    /// Linux's deviations from the draft. Pacing is 1 % below the estimate, so that queues shrink. The window
    /// includes aggregated acknowledgements, is an even number of packets, and is two packets larger while
    /// probing. Only the model TCP uses this switch.
    pub linux: bool,
    /// Linux's detection of policers. If at least a fifth as many packets are lost as delivered, and the
    /// delivery rate stays the same, the sender uses this rate for 48 rounds and does not probe. Without
    /// this, it loses a large share of its packets at a policer. Only the model TCP uses this switch.
    pub detect_policers: bool,
}

impl Tuning {
    /// Exactly the draft.
    pub const DRAFT: Tuning = Tuning {
        expire_bandwidth: false,
        confirm_rtprop: false,
        gentle_probe_rtt: false,
        small_quantum: false,
        allow_for_jitter: false,
        full_drain: false,
        full_pipe_shows: false,
        open_startup: false,
        bound_by_losses: false,
        heed_competitors: false,
        probe_on: false,
        couple: false,
        linux: false,
        detect_policers: false,
    };

    /// The draft as implemented in Linux's TCP.
    pub(crate) const LINUX: Tuning = Tuning { linux: true, detect_policers: true, ..Tuning::DRAFT };

    /// All deviations.
    pub const TUNED: Tuning = Tuning {
        expire_bandwidth: true,
        confirm_rtprop: true,
        gentle_probe_rtt: true,
        small_quantum: true,
        allow_for_jitter: true,
        full_drain: true,
        full_pipe_shows: true,
        open_startup: true,
        bound_by_losses: true,
        heed_competitors: true,
        probe_on: true,
        couple: true,
        linux: false,
        detect_policers: false,
    };
}

/// `linux`: pacing rate as a share of the estimate.
pub(super) const PACED: f64 = 0.99;
/// `expire_bandwidth`: capacity has fallen if the delivery rate is below this share of BtlBw. Even during the
/// 5/4 probe of a single competitor, this flow keeps a larger share.
pub(super) const FALLEN: f64 = 1.0 / CYCLE[0];
/// `expire_bandwidth`: minimum number of consecutive acknowledgements that show the fall (N_RTT_SAMPLE,
/// RFC 9406 section 4.3).
pub(super) const FALLEN_ACKS: u32 = 8;
/// A relative difference of less than 1/`PARTS` is not significant (MIN_RTT_DIVISOR, RFC 9406 section 4.3).
pub(super) const PARTS: u32 = 8;
/// Two values count as equal if the larger is at most this multiple of the smaller.
pub(crate) const NEAR: f64 = 1.0 + 1.0 / PARTS as f64;
/// `expire_bandwidth`: a drain removes half of the amount in flight. If the RTT is still at least this share
/// of its old value, there was no queue: a queueing delay of an eighth of the RTT would have disappeared, and
/// the RTT would be lower.
pub(crate) const UNDRAINED: f64 = 1.0 - 0.5 / PARTS as f64;
/// Largest burst of the draft (section 4.2.2). Queueing delay up to this value does not count as a queue.
pub(super) const BURST: Duration = Duration::from_millis(1);
/// `gentle_probe_rtt`: amount in flight during ProbeRTT, in BDPs (BBRv3's ProbeRTTCwndGain).
pub(super) const PROBE_RTT_GAIN: f64 = 0.5;
/// `full_drain`: maximum duration of the 3/4 phase, in RTprops. A phase of this length drains a whole BDP.
pub(super) const DRAIN_RTPROPS: f64 = 1.0 / (1.0 - CYCLE[1]);
/// `bound_by_losses`: a reduction after losses leaves BtlBw with at least this share of its old value
/// (BBRv3's Beta).
pub(super) const LEFT: f64 = 0.7;
/// How long the lowest RTT is remembered. `heed_competitors`: after this time, competitors must be detected
/// again.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// `couple`: for this long after a ProbeRTT, a subflow does not join the ProbeRTT of another subflow (BBRv3's
/// ProbeRTTInterval).
pub(super) const PROBED: Duration = Duration::from_secs(5);
