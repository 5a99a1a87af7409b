//! Thread priorities that keep other load on the machine from affecting the results.

use thread_priority::unix::{
    RealtimeThreadSchedulePolicy::Fifo, ThreadSchedulePolicy::Realtime, set_thread_priority_and_policy,
    thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// Roles of threads, in order of increasing urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// One end of a tunnel. This priority is the same for all variants of an experiment.
    Tunnel = 10,
    /// Traffic generation. If such a thread ran late, its delay would be measured as latency.
    Traffic = 20,
    /// A link. It determines the timing of the experiment.
    Link = 30,
}

/// Gives the calling thread, and the processes it starts, priority over less urgent ones, and makes the
/// thread wake exactly on time, without the default timer slack. If the system refuses this, the results are
/// only less accurate, and the reported lateness of packets is larger.
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
