//! Where the tuned variant leaves the draft: one switch a deviation, and its constants.
//!
//! Every switch was measured on and off in the model of `tests/`; the table is in `docs/ccid5.md`.

use core::time::Duration;

/// The deviations from the draft, one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Forget old bandwidth samples, and drain to one BDP, as soon as delivery rate and RTT agree that capacity fell.
    /// Else ten rounds of inflated RTT are spent at the old rate.
    pub expire_bandwidth: bool,
    /// An RTT within an eighth of RTprop, of a packet sent with no more than a BDP in flight, counts as a fresh RTprop.
    /// Else a path that became a little slower is emptied every ten seconds.
    pub confirm_rtprop: bool,
    /// ProbeRTT keeps half a BDP in flight instead of four packets and ends when RTprop is confirmed. Else
    /// throughput has a hole every ten seconds.
    pub gentle_probe_rtt: bool,
    /// Send quantum of 1 ms of rate, at least one packet, instead of at least two above 1.2 Mbit/s. Three quanta stand
    /// in the queue of a slow path.
    pub small_quantum: bool,
    /// Window and drain targets get what arrives during the variation of delay: how long packets are under way beyond RTprop. Else a
    /// path with jitter is under-used, for RTprop is the least delay and not the usual one.
    pub allow_for_jitter: bool,
    /// The 3/4 phase of ProbeBW lasts until the queue is gone, and targets have no quanta in them. Else an estimate that
    /// is a little high builds a standing queue up to the window.
    pub full_drain: bool,
    /// A pipe is full if a queue stands for a round, whoever is limited, and not without a queue or a loss. Else a path that
    /// gets an overflow packet now and then, each finding its gate shut by the low rate the last ones made, leaves Startup at
    /// that rate and is useless for seconds when needed; and one whose application answers to acknowledgements, as a TCP in a
    /// tunnel does, stays in Startup with a full queue, application-limited all the time.
    pub full_pipe_shows: bool,
    /// Losses and marks beyond what the path loses anyhow bound BtlBw by what comes through and put off the next probe, as in BBRv3. Else
    /// a policer or a short queue loses for ever, and TCP there gets next to nothing.
    pub bound_by_losses: bool,
    /// Where losses come with the queues of others, the window is no larger than CUBIC's would be. Else TCP starves on a queue of a BDP or less.
    pub heed_competitors: bool,
    /// After a probe that found more, without a queue, the next one follows within a round instead of after six. Else a path whose rate
    /// comes back is found by a quarter in eight rounds.
    pub probe_on: bool,
    /// Subflows at one bottleneck probe, and give way to others, as one flow would. Else they take the part of several.
    pub couple: bool,
    /// Linux's own: pacing 1 % below the estimate, so that queues shrink; the window gets what acknowledgements bring in lumps, is even in packets, and two
    /// packets larger while it probes. No tuning of ours: the model of TCP has it.
    pub linux: bool,
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
        bound_by_losses: false,
        heed_competitors: false,
        probe_on: false,
        couple: false,
        linux: false,
    };

    /// The draft as Linux's TCP has it.
    pub(crate) const LINUX: Tuning = Tuning { linux: true, ..Tuning::DRAFT };

    /// All deviations.
    pub const TUNED: Tuning = Tuning {
        expire_bandwidth: true,
        confirm_rtprop: true,
        gentle_probe_rtt: true,
        small_quantum: true,
        allow_for_jitter: true,
        full_drain: true,
        full_pipe_shows: true,
        bound_by_losses: true,
        heed_competitors: true,
        probe_on: true,
        couple: true,
        linux: false,
    };
}

/// `linux`: share of the estimated rate that is paced.
pub(super) const PACED: f64 = 0.99;
/// `expire_bandwidth`: capacity fell if delivery is below this share of BtlBw. A single competitor's 5/4 probe leaves more than this.
pub(super) const FALLEN: f64 = 0.8;
/// `expire_bandwidth`: for at least this many acknowledgements in a row, ...
pub(super) const FALLEN_ACKS: u32 = 8;
/// ... and at least this long (or an RTprop, if longer).
pub(super) const FALLEN_FOR: Duration = Duration::from_millis(10);
/// `expire_bandwidth`: not for this long after it proved wrong. Some paths are like that.
pub(super) const FALLEN_PAUSE: Duration = Duration::from_secs(10);
/// `expire_bandwidth`: an RTT that a drain leaves at this share of what it was, or more, is the path's own.
pub(super) const SAME: f64 = 0.95;
/// An RTT up to this multiple of RTprop is as good as RTprop.
pub(super) const NEAR: f64 = 1.125;
/// A queue shorter than this many packets is none, ...
pub(super) const QUEUE_PACKETS: u64 = 4;
/// ... nor is one shorter than this, which a busy host delays packets by.
pub(super) const QUEUE_FLOOR: Duration = Duration::from_millis(1);
/// `gentle_probe_rtt`: BDPs in flight.
pub(super) const PROBE_RTT_GAIN: f64 = 0.5;
/// `full_drain`: the 3/4 phase lasts this many RTprops at most, which drains a whole BDP.
pub(super) const DRAIN_RTPROPS: u32 = 4;
/// `bound_by_losses`: share of BtlBw that one bound leaves at least (BBRv3's Beta).
pub(super) const LEFT: f64 = 0.7;
/// `probe_on`: a probe by 5/4 paid if BtlBw is this multiple of what it was.
pub(super) const PAID: f64 = 1.15;
/// `probe_on`: and not for this long after losses put probes off. A policer lets the first burst through.
pub(super) const LESSON: Duration = Duration::from_secs(5);
/// `couple`: after a ProbeRTT, none for the sake of another subflow for this long.
pub(super) const PROBED: Duration = Duration::from_secs(5);
