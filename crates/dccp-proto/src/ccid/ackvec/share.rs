//! Sharing a [`Control`] between sending halves.

use super::control::Control;
use super::sender::AckVecSender;
use crate::ccid::SenderHalf;
use alloc::boxed::Box;
use dccp_cc::{CcConfig, Reno, RttEstimator};

impl AckVecSender {
    /// Returns the group to which this half belongs. The owner assigns the number.
    pub fn group(&self) -> Option<u64> {
        self.group
    }

    /// Makes this half the first member of a group, and returns the half's state, which becomes the group's
    /// control. From now on, the owner must lend the control to this half (see [`exchange`](Self::exchange)).
    pub fn found_group(&mut self, group: u64) -> Control {
        self.group = Some(group);
        // This placeholder stands in for the state while the state is lent out. Its values do not matter.
        let none = Reno::new(&CcConfig { mtu: self.mtu, packets: true, draft: false, seed: 0 });
        let mut control = Control::new(Box::new(none), RttEstimator::default());
        self.exchange(&mut control);
        control
    }

    /// Joins a group. The half drops its own congestion state, and its packets in flight count for the group.
    pub fn join_group(&mut self, group: u64, control: &mut Control) {
        self.group = Some(group);
        // The delivery counts stored with this half's packets refer to its old state, so replace them.
        self.history
            .restamp(|packet| control.sampler.on_sent(packet.sent_at, packet.bytes, control.inflight));
        control.inflight = control.inflight.and(self.inflight);
        // From now on, the half is without the control, as if the owner had taken it back.
        self.resting = Some(Box::new(self.view()));
    }

    /// Leaves the group. Afterwards the half sends no more data. `control` is the group's and must not be
    /// lent out.
    pub fn leave_group(&mut self, control: &mut Control) {
        self.group = None;
        control.inflight = control.inflight.minus(self.inflight);
    }

    /// Lends the group's control to the half, or takes it back. Without the control, the half may only be
    /// read: its view does not change, and its gate is closed.
    pub fn exchange(&mut self, control: &mut Control) {
        let view = self.resting.is_none().then(|| Box::new(self.view()));
        core::mem::swap(&mut self.control, control);
        self.resting = view;
    }
}
