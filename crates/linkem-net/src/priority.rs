//! Thread priorities, so that other load on the machine does not affect the results.

use thread_priority::unix::{
    RealtimeThreadSchedulePolicy::Fifo, ThreadSchedulePolicy::Realtime, set_thread_priority_and_policy,
    thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// Roles of threads, in order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// An end of a tunnel. All variants of an experiment have the same priority.
    Tunnel = 10,
    /// Traffic generation. Its delay would be measured as latency.
    Traffic = 20,
    /// A link, which determines the experiment's timing.
    Link = 30,
}

/// Gives the calling thread, and processes that it starts, priority over less urgent ones. Also makes the
/// thread wake exactly on time instead of within the default timer slack. If the system refuses this, only
/// accuracy is lost, and the measured delay shows the loss.
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
