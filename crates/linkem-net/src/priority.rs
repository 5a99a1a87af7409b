//! Who runs first on a busy machine: what else it does must not show in the results.

use thread_priority::unix::{
    RealtimeThreadSchedulePolicy::Fifo, ThreadSchedulePolicy::Realtime, set_thread_priority_and_policy,
    thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// What a thread does, in order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A tunnel's end. All variants run at it.
    Tunnel = 10,
    /// Traffic: its own lateness would count as latency.
    Traffic = 20,
    /// A link: the experiment's clockwork.
    Link = 30,
}

/// Lets the calling thread, and processes it starts, go before everything that is less urgent, and wake on time rather than when it suits
/// the kernel. A refusal only costs accuracy, and the lateness measured tells.
pub fn hurry(urgency: Urgency) {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if let Ok(value) = ThreadPriorityValue::try_from(urgency as u8) {
        let _ = set_thread_priority_and_policy(
            thread_native_id(),
            ThreadPriority::Crossplatform(value),
            Realtime(Fifo),
        );
    }
}
