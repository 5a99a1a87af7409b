//! How a sending half shares a [`Control`] with others.

use super::control::Control;
use super::sender::AckVecSender;
use crate::ccid::SenderHalf;
use alloc::boxed::Box;
use dccp_cc::{CcConfig, Reno, RttEstimator};

impl AckVecSender {
    /// Group it is a member of; a number of the owner's.
    pub fn group(&self) -> Option<u64> {
        self.group
    }

    /// Becomes the first member of a group, whose state is what it had to itself. It does not have it from now on: see
    /// [`exchange`](Self::exchange).
    pub fn found_group(&mut self, group: u64) -> Control {
        self.group = Some(group);
        // Keeps the place while the state is away; what it says does not matter.
        let none = Reno::new(&CcConfig { mtu: self.mtu, packets: true, draft: false, seed: 0 });
        let mut control = Control::new(Box::new(none), RttEstimator::default());
        self.exchange(&mut control);
        control
    }

    /// Becomes another member: what it had to itself is given up, what it has in flight counts for the group.
    pub fn join_group(&mut self, group: u64, control: &mut Control) {
        self.group = Some(group);
        // What was counted before says nothing of the group.
        self.history
            .restamp(|packet| control.sampler.on_sent(packet.sent_at, packet.bytes, control.inflight));
        control.inflight = control.inflight.and(self.inflight);
        // As if it had been lent and taken back.
        self.resting = Some(Box::new(self.view()));
    }

    /// Is a member no more, and sends no more data; `control` is the group's, not lent out.
    pub fn leave_group(&mut self, control: &mut Control) {
        self.group = None;
        control.inflight = control.inflight.minus(self.inflight);
    }

    /// Lends it the state of its group, or takes it back if it has it. Without it the half must only be looked at: its view is
    /// that of the last time it had it, its gate is shut.
    pub fn exchange(&mut self, control: &mut Control) {
        let view = self.resting.is_none().then(|| Box::new(self.view()));
        core::mem::swap(&mut self.control, control);
        self.resting = view;
    }
}
