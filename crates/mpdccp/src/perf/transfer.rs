//! One session: what is sent and received in it, and when it is over.

use crate::perf::message::ClockId;
use crate::perf::meter::{Meter, Span};
use crate::perf::sender::{Load, Sender};
use dccp_net::Core;
use mpdccp_proto::{Health, PktInfo, Reason, SessionId};
use units::{Duration, Time};

/// How long to wait, beyond the retransmission timeout, for the acknowledgement of the last packets.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The sender makes messages.
    Sending,
    /// All are made; they leave and are acknowledged, at the latest then.
    Draining {
        until: Option<Time>,
    },
    Closing,
    /// Nothing to send: the peer closes.
    Receiving,
}

/// A sending side at one moment; counts from the beginning on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    /// Dropped in the queue.
    pub(crate) dropped: u64,
    /// Left the queue.
    pub(crate) left: u64,
    /// Declared lost.
    pub(crate) lost: u64,
    /// Each path there is now.
    pub(crate) paths: Vec<PathSent>,
}

/// The same for one path.
#[derive(Clone, Debug)]
pub(crate) struct PathSent {
    pub(crate) id: u32,
    pub(crate) health: Health,
    /// Data packets that left.
    pub(crate) left: u64,
    pub(crate) lost: u64,
    pub(crate) rtt: Option<Duration>,
    /// Window, bytes.
    pub(crate) cwnd: u64,
    pub(crate) phase: &'static str,
}

/// What happened since the last report.
pub(crate) struct Lap {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) size: usize,
    pub(crate) sent: Option<(Sent, Sent)>,
    pub(crate) received: Option<Span>,
    /// Missing from the beginning on.
    pub(crate) lost: u64,
}

pub(crate) struct Transfer {
    pub(crate) opened: Time,
    stage: Stage,
    pub(crate) sender: Option<Sender>,
    pub(crate) meter: Meter,
    /// When it was last looked at, and what was seen.
    lapped: Time,
    pub(crate) sent: Sent,
    /// When the last message had left.
    pub(crate) emptied: Option<Time>,
}

impl Transfer {
    pub(crate) fn new(load: Option<Load>, clock: ClockId, now: Time) -> Transfer {
        Transfer {
            opened: now,
            stage: if load.is_some() { Stage::Sending } else { Stage::Receiving },
            sender: load.map(|load| Sender::new(load, clock, now)),
            meter: Meter::new(clock),
            lapped: now,
            sent: Sent::default(),
            emptied: None,
        }
    }

    pub(crate) fn on_message(&mut self, now: Time, data: &[u8]) {
        self.meter.on_message(now, data);
    }

    /// Queues what is due; true if there was something. Closes when all has been sent.
    pub(crate) fn fill(&mut self, core: &mut Core, now: Time, session: SessionId, queue: u32) -> bool {
        let mut any = false;
        if let (Stage::Sending, Some(sender)) = (self.stage, &mut self.sender) {
            let mut waiting = core.endpoint.backlog(now, session).packets;
            // Messages that came due together must not push each other out of the queue before any could leave.
            let full = waiting >= queue;
            while let Some(data) = sender.poll(now, waiting < queue, full) {
                let info = PktInfo { len: data.len(), ..PktInfo::default() };
                core.endpoint.send(now, session, data, info);
                waiting += 1;
                any = true;
            }
            if sender.is_done(now) {
                self.stage = Stage::Draining { until: None };
            }
        }
        if let (Stage::Draining { until }, false) = (self.stage, any)
            && core.endpoint.backlog(now, session).packets == 0
        {
            let rows = core.endpoint.rows(now, session);
            let acknowledged = rows.iter().all(|row| row.inflight.packets == 0);
            let rto = rows.iter().map(|row| row.srtt.unwrap_or(PATIENCE) + row.rttvar * 4).max();
            let until = until.unwrap_or(now + PATIENCE + rto.unwrap_or_default());
            self.emptied.get_or_insert(now);
            self.stage = Stage::Draining { until: Some(until) };
            if acknowledged || now >= until {
                self.close(core, now, session);
            }
        }
        any
    }

    pub(crate) fn close(&mut self, core: &mut Core, now: Time, session: SessionId) {
        self.look(core, now, session);
        self.stage = Stage::Closing;
        core.endpoint.close(now, session);
    }

    /// Whether this is how a transfer should end.
    pub(crate) fn ended_well(&self, why: Reason) -> bool {
        match self.stage {
            Stage::Closing => true,
            Stage::Receiving => why.is_orderly(),
            Stage::Sending | Stage::Draining { .. } => false,
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        match self.stage {
            Stage::Sending => self.sender.as_ref().and_then(Sender::next_timeout),
            Stage::Draining { until } => until,
            Stage::Closing | Stage::Receiving => None,
        }
    }

    /// Looks at the sending side.
    fn look(&mut self, core: &Core, now: Time, session: SessionId) {
        let (Some(sender), Some(status)) = (&self.sender, core.endpoint.status(now, session)) else { return };
        let rows = core.endpoint.rows(now, session);
        let paths = status.paths.iter().map(|path| {
            let row = rows.iter().find(|row| row.id == path.id);
            PathSent {
                id: path.id.0,
                health: path.health,
                left: path.stats.data_sent,
                lost: path.tx.as_ref().map_or(0, |tx| tx.lost.packets),
                rtt: row.and_then(|row| row.srtt),
                cwnd: row.map_or(0, |row| row.cwnd),
                phase: path.tx.as_ref().map_or("", |tx| tx.phase),
            }
        });
        let paths: Vec<PathSent> = paths.collect();
        let drops = status.queue_stats;
        let dropped = drops.dropped_full + drops.dropped_old + drops.dropped_early + drops.dropped_too_big;
        self.sent = Sent {
            dropped,
            // Not the packets of the paths: some carry signals instead of messages.
            left: u64::from(sender.made).saturating_sub(dropped + u64::from(status.queue.packets)),
            lost: paths.iter().map(|path| path.lost).sum(),
            paths,
        };
    }

    /// What happened since the last call; `None` once nothing more will.
    pub(crate) fn lap(&mut self, core: &Core, now: Time, session: SessionId) -> Option<Lap> {
        if self.stage == Stage::Closing {
            return None;
        }
        let before = self.sent.clone();
        self.look(core, now, session);
        let from = std::mem::replace(&mut self.lapped, now);
        Some(Lap {
            from: from.since(self.opened),
            to: now.since(self.opened),
            size: self.size(),
            sent: self.sender.is_some().then(|| (before, self.sent.clone())),
            received: (self.sender.is_none() || self.meter.first.is_some()).then(|| self.meter.lap()),
            lost: self.meter.lost(),
        })
    }

    /// Bytes of each message it sends.
    pub(crate) fn size(&self) -> usize {
        self.sender.as_ref().map_or(0, |sender| sender.load.size)
    }
}
