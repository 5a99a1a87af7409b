//! Counts what a transfer has sent and received.

use super::{Mode, Stage, Transfer};
use crate::perf::control::Test;
use crate::perf::counts::{In, Lap, Out};
use crate::perf::sent::{PathSent, Sent};
use dccp_net::Core;
use mpdccp_proto::SessionId;
use mpdccp_units::{Duration, Time};

impl Transfer {
    /// Updates the counts of the sending side.
    pub(super) fn look(&mut self, core: &Core, now: Time, session: SessionId) {
        let (Some(sender), Some(status)) = (&self.sender, core.endpoint.status(now, session)) else { return };
        let rows = core.endpoint.rows(now, session);
        let paths = status.paths.iter().map(|path| {
            let row = rows.iter().find(|row| row.id == path.id);
            PathSent {
                id: path.id.0,
                state: path.state,
                left: path.stats.data_sent,
                lost: path.tx.as_ref().map_or(0, |tx| tx.lost.packets),
                rtt: row.and_then(|row| row.srtt),
                cwnd: row.map_or(0, |row| row.cwnd),
                phase: path.tx.as_ref().map_or("", |tx| tx.phase),
                mtu: path.mtu,
            }
        });
        let paths: Vec<PathSent> = paths.collect();
        let drops = status.queue_stats;
        let dropped = drops.dropped_full + drops.dropped_old + drops.dropped_early + drops.dropped_too_big;
        self.sent = Sent {
            dropped,
            // Count messages rather than the paths' packets, because some packets carry no message.
            left: sender.made.saturating_sub(dropped + u64::from(status.queue.packets)),
            lost: status.lost,
            short: sender.short as u64,
            paths,
        };
    }

    /// Ends the period that the results exclude.
    pub(super) fn end_omission(&mut self, core: &Core, now: Time, session: SessionId) {
        self.omitting = false;
        self.look(core, now, session);
        self.omitted = self.sent.clone();
        if let (Some(sender), Some(test)) = (&mut self.sender, &self.test) {
            sender.load.messages = test.messages.map(|n| n.saturating_add(sender.made));
        }
    }

    /// Returns the counts since the last call, or `None` before the test's clock has started and after the
    /// last report.
    pub(crate) fn lap(&mut self, core: &Core, now: Time, session: SessionId) -> Option<Lap> {
        if self.held || matches!(self.stage, Stage::Closing | Stage::Greeting | Stage::Fetching) {
            return None;
        }
        let before = self.sent.clone();
        if !matches!(self.stage, Stage::Asking | Stage::Lingering { .. }) {
            self.look(core, now, session);
        }
        let from = std::mem::replace(&mut self.lapped, now).since(self.opened);
        let to = now.since(self.opened);
        let lost_before = std::mem::replace(&mut self.missing, self.meter.lost());
        Some(Lap {
            from,
            to,
            size: self.size(),
            sent: self.sender.is_some().then(|| (before, self.sent.clone())),
            received: (self.sender.is_none() || self.meter.began.is_some())
                .then(|| In::lap(&mut self.meter, to - from)),
            lost: self.missing.saturating_sub(lost_before),
            omitted: from + to < self.omit() * 2,
        })
    }

    /// Returns the measured time, which ends when the queue becomes empty after the last message.
    pub(crate) fn span(&self, now: Time) -> Duration {
        self.emptied.unwrap_or(now).since(self.opened).saturating_sub(self.omit())
    }

    /// Returns the counts over the measured time if this end sends.
    pub(crate) fn all_sent(&self, now: Time) -> Option<Out> {
        let between = |_| Out::between(&self.omitted, &self.sent, self.size(), self.span(now));
        self.sender.as_ref().map(between)
    }

    /// Returns the test that this end requested or, failing that, the one that the peer requested.
    pub(crate) fn negotiated(&self) -> Option<&Test> {
        match &self.mode {
            Mode::Ask(test) => Some(test),
            _ => self.test.as_ref(),
        }
    }

    /// Returns the size of the messages that this end sends, in bytes, or 0 if it sends none.
    pub(crate) fn size(&self) -> usize {
        self.sender.as_ref().map_or(0, |sender| sender.load.size)
    }
}
