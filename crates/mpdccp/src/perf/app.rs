//! The application on the data thread. It manages one transfer per session.

use crate::error::Error;
use crate::perf::control::Control;
use crate::perf::keys::Keys;
use crate::perf::limits::Watch;
use crate::perf::message::ClockId;
use crate::perf::plan::{Plan, Role};
use crate::perf::report::Reporter;
use crate::perf::setup;
use crate::perf::table::Sum;
use crate::perf::transfer::Transfer;
use dccp_net::{App, Core, FixedDscp};
use dccp_secure::PublicKey;
use mpdccp_proto::{PktInfo, Reason, SessionEvent, SessionId, SessionStatus};
use mpdccp_units::{Duration, Time, source};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Interval at which a server checks its limits.
const LOOK: Duration = Duration::from_millis(200);

/// Hint for a client without keys that gets no answer.
const WITHOUT_KEY: &str = " A server with --private-key-file answers only clients with a key.";

pub(crate) struct PerfApp {
    plan: Plan,
    clock: ClockId,
    pub(crate) reporter: Reporter,
    /// The transfer of each open session.
    transfers: BTreeMap<SessionId, Transfer>,
    /// Server: the client of each session.
    clients: BTreeMap<SessionId, IpAddr>,
    /// Client: the sessions that were opened to the server's current address, each with its sockets.
    begun: BTreeMap<SessionId, Vec<u32>>,
    /// Client: number of sessions that have not ended.
    left: u32,
    /// Client: if no session has opened by this time, try the server's next address.
    answer_by: Option<Time>,
    /// Client: if no session has opened by this time, give up.
    give_up_at: Option<Time>,
    /// The summed results of all ended sessions.
    sum: Sum,
    /// When to report next.
    report_at: Option<Time>,
    /// Server: compares the connections with the limits. `look_at` is when to do so next.
    watch: Watch,
    look_at: Option<Time>,
    /// Whether the program was interrupted. If so, it ends with the last session.
    ending: bool,
    /// The error that the program ends with.
    pub(crate) error: Option<Error>,
}

impl PerfApp {
    pub(crate) fn start(core: &mut Core, plan: Plan) -> Result<PerfApp, Error> {
        let now = core.clock.now();
        let reporter = plan.reporter()?;
        if plan.dscp > 0 {
            core.net.marking = Some(Box::new(FixedDscp(plan.dscp)));
        }
        core.net.heed_refusals = true;
        let mut app = PerfApp {
            reporter,
            begun: BTreeMap::new(),
            left: 0,
            answer_by: None,
            give_up_at: None,
            sum: Sum::default(),
            watch: Watch::new(plan.limits, now),
            plan,
            clock: ClockId::here(),
            transfers: BTreeMap::new(),
            clients: BTreeMap::new(),
            report_at: None,
            look_at: None,
            ending: false,
            error: None,
        };
        match app.plan.role {
            Role::Server { listen, ref rendezvous, .. } => {
                let place = setup::listen(core, now, &app.plan, listen, rendezvous)?;
                app.reporter.listening(place, app.plan.dccp_port, app.plan.keys.as_ref().map(Keys::public));
                app.look_at = app.plan.limits.any().then_some(now);
            }
            Role::Client { .. } => {
                if let Some(keys) = &app.plan.keys {
                    keys.secure(core, None)?;
                }
                app.connect(core, now)?;
            }
        }
        Ok(app)
    }

    /// Opens sessions to the server's current address. If that fails at once, tries the next address that the
    /// server's name resolves to.
    fn connect(&mut self, core: &mut Core, now: Time) -> Result<(), Error> {
        let Role::Client { parallel, .. } = self.plan.role else { return Ok(()) };
        while let Err(error) = self.begin(core, now, parallel) {
            self.abandon(core, now);
            if !self.plan.take_next_address() {
                return Err(error);
            }
        }
        let give_up_at = *self.give_up_at.get_or_insert(now + self.plan.patience);
        // Divide the remaining time equally among this address and those after it. If this address does not
        // use up its share, the others get more time.
        let part = give_up_at.since(now) / (1 + self.plan.addresses_left());
        (self.left, self.answer_by) = (parallel, Some(now + part));
        Ok(())
    }

    fn begin(&mut self, core: &mut Core, now: Time, parallel: u32) -> Result<(), Error> {
        for _ in 0..parallel {
            let (session, sockets) = setup::connect(core, now, &self.plan)?;
            self.begun.insert(session, sockets);
        }
        Ok(())
    }

    /// Ends the sessions to an address that did not answer, without reporting them, so that the sessions to
    /// the next address can use their ports.
    fn abandon(&mut self, core: &mut Core, now: Time) {
        for (session, sockets) in std::mem::take(&mut self.begun) {
            core.endpoint.abort(now, session);
            sockets.iter().for_each(|socket| core.net.remove(*socket));
        }
    }

    /// Tries the next address, because the current one does not answer. Returns false if there is no other
    /// address.
    fn try_elsewhere(&mut self, core: &mut Core, now: Time) -> bool {
        if !self.plan.take_next_address() {
            return false;
        }
        self.abandon(core, now);
        if let Err(error) = self.connect(core, now) {
            self.error = Some(error);
            core.stop();
        }
        true
    }

    /// Closes the open sessions. The program ends when the last one has ended.
    pub(crate) fn shut_down(&mut self, core: &mut Core, now: Time) {
        if std::mem::replace(&mut self.ending, true) || self.transfers.is_empty() {
            if self.left > 0 && self.transfers.is_empty() {
                let why = format!("interrupted before the connection to {} was open", self.plan.peer());
                self.error = self.error.take().or(Some(Error::usage(why)));
            }
            return core.stop();
        }
        for (session, transfer) in &mut self.transfers {
            transfer.close(core, now, *session);
        }
    }

    /// Returns whether the program ends with the session that has just ended.
    fn is_last(&self) -> bool {
        match self.plan.role {
            Role::Server { once, .. } => (once || self.ending) && self.transfers.is_empty(),
            Role::Client { .. } => self.left == 0,
        }
    }

    fn on_closed(&mut self, core: &mut Core, now: Time, session: SessionId, reason: Reason) {
        let why = reason.to_string();
        self.clients.remove(&session);
        let nobody = self.answer_by.is_some() && self.begun.contains_key(&session);
        if nobody && self.try_elsewhere(core, now) {
            return;
        }
        // The client has already given up this session together with its address.
        if matches!(self.plan.role, Role::Client { .. }) && !self.begun.contains_key(&session) {
            return;
        }
        self.left = self.left.saturating_sub(1);
        let mut transfer = self.transfers.remove(&session);
        // If the peer closed the session, received data may still be buffered. Its loss is an error.
        transfer.iter_mut().for_each(Transfer::flush);
        let failure = match transfer {
            None if reason == Reason::NobodyListens => Some(Error::usage(format!(
                "the host reports that nothing listens at {}; start `mpdccp perf -s` there, or correct the port",
                self.plan.peer()
            ))),
            None => Some(Error::usage(format!("no connection to {}: {why}", self.plan.peer()))),
            Some(transfer) if transfer.failure.is_some() => {
                let failure = transfer.failure.clone().unwrap_or_default();
                let begun = transfer.has_begun();
                if begun {
                    self.reporter.summary(session, &transfer, now, &why, &mut self.sum);
                }
                Some(if begun { Error::runtime(failure) } else { Error::usage(failure) })
            }
            Some(transfer) => {
                self.reporter.summary(session, &transfer, now, &why, &mut self.sum);
                let early = !self.ending && !transfer.ended_well(reason);
                early.then(|| Error::runtime(format!("the connection ended early: {why}")))
            }
        };
        // A server writes one JSON document for all sessions that overlap in time.
        if matches!(self.plan.role, Role::Server { .. }) && self.transfers.is_empty() {
            self.reporter.finish(None);
        }
        match (failure, self.is_last()) {
            // A server reports the failure and continues.
            (Some(failure), false) if self.left == 0 => self.reporter.complain(&failure.to_string()),
            (Some(failure), _) => self.error = self.error.take().or(Some(failure)),
            (None, _) => {}
        }
        if self.is_last() {
            if matches!(self.plan.role, Role::Client { parallel: 2.., .. }) {
                self.reporter.sum(&self.sum);
            }
            core.stop();
        }
    }

    /// Server: refuses the session of a client that already has too many sessions.
    fn admit(&mut self, core: &Core, now: Time, session: SessionId) {
        let route =
            core.endpoint.status(now, session).and_then(|status| status.paths.first().map(|path| path.route));
        let (Role::Server { .. }, Some(route)) = (&self.plan.role, route) else { return };
        let client = source(route.remote.ip());
        self.clients.insert(session, client);
        let own = self.clients.values().filter(|other| **other == client).count();
        if setup::crowded(own, self.clients.len()) {
            self.transfer(now, session).refuse(now);
        }
    }

    fn transfer(&mut self, now: Time, session: SessionId) -> &mut Transfer {
        let PerfApp { transfers, plan, clock, .. } = self;
        transfers
            .entry(session)
            .or_insert_with(|| Transfer::new(plan.mode.clone(), plan.common.file.clone(), *clock, now))
    }

    /// Starts the reports. A client's first interval begins with its first message.
    fn on_first_message(&mut self, now: Time, begun: bool) {
        if begun && matches!(self.plan.role, Role::Client { .. }) {
            self.report_at = self.plan.interval.map(|interval| now + interval);
        }
    }

    /// Server: ends the tests that exceed a limit. A server for a single client also ends itself if no client
    /// connects within the idle limit.
    fn look(&mut self, core: &mut Core, now: Time) {
        self.look_at = Some(now + LOOK);
        let used = self.transfers.iter().map(|(session, transfer)| (*session, transfer.usage()));
        for (session, why) in self.watch.look(now, used) {
            if let Some(transfer) = self.transfers.get_mut(&session) {
                transfer.stop(core, now, session, &why);
            }
        }
        if let (Some(idle), Role::Server { once: true, .. }) = (self.watch.idle(now), &self.plan.role) {
            let idle = idle.as_secs_f64();
            self.error = Some(Error::runtime(format!("no client connected for {idle} s (--idle-timeout)")));
            core.stop();
        }
    }
}

/// Returns the local address of a session, and the peer's key if the session is encrypted.
fn ends(core: &Core, status: &SessionStatus) -> (Option<SocketAddr>, Option<PublicKey>) {
    let Some(route) = status.paths.first().map(|path| path.route) else { return (None, None) };
    let to = core.net.resolve(&route);
    let bound = core.net.socket(to.socket).and_then(|socket| socket.local_addr().ok());
    // A server's socket may be bound to all addresses, so prefer the address in the route.
    let local = bound.map(|bound| SocketAddr::new(to.local.unwrap_or(bound.ip()), bound.port()));
    let key = || core.net.channels()?.peer_key(core.net.peer_of(route.socket)?);
    (local, key())
}

impl App for PerfApp {
    fn fill(&mut self, core: &mut Core, now: Time) -> bool {
        let (mut any, mut begun) = (false, false);
        for (session, transfer) in &mut self.transfers {
            let held = transfer.held;
            any |= transfer.fill(core, now, *session, self.plan.common.queue);
            begun |= held && !transfer.held;
        }
        self.on_first_message(now, begun);
        any
    }

    fn on_deliver(&mut self, core: &mut Core, now: Time, session: SessionId, data: Vec<u8>) {
        let (queue, limits) = (self.plan.common.queue, self.plan.limits);
        // Data can arrive before the event that opens the session, so create the transfer here.
        let transfer = self.transfer(now, session);
        let held = transfer.held;
        transfer.on_message(core, now, session, (queue, &limits), data);
        let (begun, asked) = (held && !transfer.held, transfer.asked.take());
        let gives_output = transfer.gives_output();
        self.on_first_message(now, begun);
        if !gives_output {
            return;
        }
        self.reporter.keep_copy(session);
        if let (Some(from), Some(transfer)) = (asked, self.transfers.get(&session)) {
            let part = Control::part(self.reporter.output(session, transfer, now), from);
            core.endpoint.send(now, session, part.write(), PktInfo::default());
        }
    }

    fn on_event(&mut self, core: &mut Core, now: Time, session: SessionId, event: SessionEvent) {
        match event {
            SessionEvent::Opened { multipath } => {
                self.answer_by = None;
                self.transfer(now, session);
                self.admit(core, now, session);
                if self.transfers.len() == 1 {
                    // A server that had no session still has the time at which it would have reported next.
                    self.report_at = None;
                }
                self.report_at = self.report_at.or(self.plan.interval.map(|interval| now + interval));
                let status = core.endpoint.status(now, session);
                let ends = status.as_ref().map(|status| ends(core, status)).unwrap_or_default();
                self.reporter.opened(session, status.as_ref(), ends, multipath);
            }
            SessionEvent::PathUp(path) => self.reporter.up(session, path),
            SessionEvent::PathSuspect(path) => self.reporter.silent(session, path, self.plan.survive),
            SessionEvent::PathDown(path, why) => self.reporter.path(session, path, &format!("down: {why}")),
            SessionEvent::PathMtu { path, now: mtu, .. } => {
                self.reporter.path_mtu(session, path, mtu);
                self.transfer(now, session).on_path_mtu();
            }
            SessionEvent::Closed(why) => self.on_closed(core, now, session, why),
            _ => {}
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let transfers = self.transfers.values().filter_map(Transfer::next_timeout);
        let report = self.report_at.filter(|_| !self.transfers.is_empty());
        transfers.chain(report).chain(self.answer_by).chain(self.look_at).min()
    }

    fn on_timeout(&mut self, core: &mut Core, now: Time) {
        if self.answer_by.is_some_and(|at| at <= now) {
            self.answer_by = None;
            if self.try_elsewhere(core, now) {
                return;
            }
            self.error = Some(Error::usage(format!(
                "no answer from {}; start `mpdccp perf -s` there, and allow its port in all firewalls on the way.{}",
                self.plan.peer(),
                self.plan.keys.as_ref().map_or_else(|| WITHOUT_KEY.into(), Keys::hint)
            )));
            return core.stop();
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look(core, now);
        }
        // Report only if a report is due.
        let (Some(at), Some(interval)) = (self.report_at.filter(|at| *at <= now), self.plan.interval) else {
            return;
        };
        // After a pause, do not catch up with empty intervals.
        self.report_at = Some(if at + interval > now { at + interval } else { now + interval });
        let mut sum = Sum::default();
        for (session, transfer) in &mut self.transfers {
            if let Some(lap) = transfer.lap(core, now, *session) {
                self.reporter.interval(*session, lap, &mut sum);
            }
        }
        if matches!(self.plan.role, Role::Client { parallel: 2.., .. }) {
            self.reporter.sum(&sum);
        }
    }
}
