//! What runs on the data thread: one transfer a session.

use crate::fault::Fault;
use crate::perf::args::{Plan, Role};
use crate::perf::message::ClockId;
use crate::perf::report::Reporter;
use crate::perf::setup;
use crate::perf::transfer::Transfer;
use dccp_net::{App, Core};
use mpdccp_proto::{Reason, SessionEvent, SessionId};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use units::Time;

pub(crate) struct PerfApp {
    plan: Plan,
    clock: ClockId,
    reporter: Reporter,
    /// Open sessions.
    transfers: BTreeMap<SessionId, Transfer>,
    /// When to report next.
    report_at: Option<Time>,
    /// Interrupted: ends with the last session.
    ending: bool,
    /// Why the program fails.
    pub(crate) fault: Option<Fault>,
}

impl PerfApp {
    pub(crate) fn start(core: &mut Core, plan: Plan) -> Result<PerfApp, Fault> {
        let now = core.clock.now();
        let reporter = Reporter::new(plan.json);
        match plan.role {
            Role::Server { listen, .. } => {
                reporter.listening(setup::listen(core, &plan, listen)?, plan.dccp_port);
            }
            Role::Client { .. } => setup::connect(core, now, &plan)?,
        }
        Ok(PerfApp {
            reporter,
            plan,
            clock: ClockId::here(),
            transfers: BTreeMap::new(),
            report_at: None,
            ending: false,
            fault: None,
        })
    }

    /// Closes what is open, then ends.
    pub(crate) fn shut_down(&mut self, core: &mut Core, now: Time) {
        if std::mem::replace(&mut self.ending, true) || self.transfers.is_empty() {
            return core.stop();
        }
        for (session, transfer) in &mut self.transfers {
            transfer.close(core, now, *session);
        }
    }

    /// Nothing more is to come after a session has ended.
    fn is_last(&self) -> bool {
        match self.plan.role {
            Role::Server { once, .. } => (once || self.ending) && self.transfers.is_empty(),
            Role::Client { .. } => true,
        }
    }

    fn on_closed(&mut self, core: &mut Core, now: Time, session: SessionId, reason: Reason) {
        let why = reason.to_string();
        let failure = match self.transfers.remove(&session) {
            None => Some(Fault::usage(format!("no connection to {}: {why}", self.plan.peer()))),
            Some(transfer) => {
                self.reporter.summary(session, &transfer, now, &why);
                let early = !self.ending && !transfer.ended_well(reason);
                early.then(|| Fault::runtime(format!("the connection ended early: {why}")))
            }
        };
        if self.is_last() {
            self.fault = failure;
            core.stop();
        } else if let Some(failure) = failure {
            eprintln!("mpdccp: {failure}");
        }
    }
}

impl App for PerfApp {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn on_readable(&mut self, _: &mut Core, _: Time, _: u32) {}

    fn fill(&mut self, core: &mut Core, now: Time) -> bool {
        let mut any = false;
        for (session, transfer) in &mut self.transfers {
            any |= transfer.fill(core, now, *session, self.plan.queue);
        }
        any
    }

    fn on_deliver(&mut self, _: &mut Core, now: Time, session: SessionId, data: Vec<u8>) {
        // Data may come before the event of opening was read: nothing is lost by making the transfer now.
        let transfer = self.transfers.entry(session);
        transfer.or_insert_with(|| Transfer::new(self.plan.load, self.clock, now)).on_message(now, &data);
    }

    fn on_event(&mut self, core: &mut Core, now: Time, session: SessionId, event: SessionEvent) {
        match event {
            SessionEvent::Opened { multipath } => {
                let new = || Transfer::new(self.plan.load, self.clock, now);
                self.transfers.entry(session).or_insert_with(new);
                self.report_at = self.report_at.or(self.plan.interval.map(|interval| now + interval));
                self.reporter.opened(session, core.endpoint.status(now, session).as_ref(), multipath);
            }
            SessionEvent::PathUp(path) => self.reporter.path(session, path, "up"),
            SessionEvent::PathStale(path) => self.reporter.path(session, path, "silent"),
            SessionEvent::PathDown(path, why) => self.reporter.path(session, path, &format!("down: {why}")),
            SessionEvent::Closed(why) => self.on_closed(core, now, session, why),
            _ => {}
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let transfers = self.transfers.values().filter_map(Transfer::next_timeout);
        transfers.chain(self.report_at.filter(|_| !self.transfers.is_empty())).min()
    }

    fn on_timeout(&mut self, core: &mut Core, now: Time) {
        // Senders are asked in `fill` anyway.
        let (Some(at), Some(interval)) = (self.report_at.filter(|at| *at <= now), self.plan.interval) else {
            return;
        };
        self.report_at = Some((at + interval).max(now));
        for (session, transfer) in &mut self.transfers {
            if let Some(lap) = transfer.lap(core, now, *session) {
                self.reporter.interval(*session, &lap);
            }
        }
    }
}
