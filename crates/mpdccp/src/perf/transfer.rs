//! A transfer sends and receives the messages of one session, and ends it.

mod ending;
mod laps;
mod size;
#[cfg(test)]
mod tests;

use crate::perf::control::{Control, Test, VERSION};
use crate::perf::counts::{In, Tally};
use crate::perf::cpu::{Cpu, Share};
use crate::perf::file::{Source, Store};
use crate::perf::limits::{Limits, Use};
use crate::perf::message::{self, ClockId};
use crate::perf::meter::Meter;
use crate::perf::sender::{Load, Sender};
use crate::perf::sent::Sent;
use dccp_net::Core;
use mpdccp_proto::{PktInfo, SessionId};
use mpdccp_units::{Duration, Time};
use size::Fit;
use std::path::PathBuf;

/// Time to wait for the acknowledgement of the last packets, on top of the retransmission timeout.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between repetitions of a control datagram.
const REPEAT: Duration = Duration::from_millis(250);
/// Maximum number of repetitions of a control datagram.
const REPEATS: u32 = 14;
/// How long a client that has sent all its own data waits for the next message of a server that still sends.
const LINGER: Duration = Duration::from_secs(5);

/// Size limit of the output that a server sends to its client, in bytes.
pub(crate) const MOST_OUTPUT: usize = 1 << 16;

/// The part that this end plays in a test.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// Sends or receives without a test request. The peer may be any DCCP program.
    Plain(Option<Load>),
    /// Client: requests a test.
    Ask(Test),
    /// Server: runs the test that the client requests.
    Obey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The client is waiting for the answer to its request.
    Greeting,
    /// The sender creates messages.
    Sending,
    /// The sender has created all messages. They must still be sent and acknowledged before the time limit.
    Draining {
        until: Option<Time>,
    },
    /// This end is waiting for the peer's results.
    Asking,
    /// The peer is still sending. This end waits until the time limit at most.
    Lingering {
        until: Time,
    },
    /// Client: fetches the server's output.
    Fetching,
    Closing,
    /// This end has nothing to send and is waiting for the peer to close.
    Receiving,
}

/// A control datagram to repeat until it is answered.
struct Say {
    what: Control,
    at: Time,
    left: u32,
}

pub(crate) struct Transfer {
    pub(crate) opened: Time,
    mode: Mode,
    clock: ClockId,
    stage: Stage,
    /// The test that was negotiated, if any.
    test: Option<Test>,
    say: Option<Say>,
    /// Why this end refused the peer's request, or ended the test.
    refused: Option<String>,
    /// The file that holds the data to send or takes the received data.
    file: Option<PathBuf>,
    store: Option<Store>,
    /// Server: the client has requested the output starting at this byte.
    pub(crate) asked: Option<usize>,
    /// Client: the part of the server's output that has arrived so far.
    pub(crate) server_output: String,
    /// Total number of bytes in all messages sent and received.
    carried: u64,
    /// Whether the peer has reported the end of its data.
    peer_done: bool,
    /// The counts reported by the peer.
    pub(crate) peer_sent: Option<Tally>,
    pub(crate) peer_received: Option<In>,
    pub(crate) peer_cpu: Option<Share>,
    /// CPU use of this end.
    pub(crate) cpu: Cpu,
    /// The error that ends the transfer.
    pub(crate) failure: Option<String>,
    pub(crate) sender: Option<Sender>,
    fit: Fit,
    /// Whether the first message is still held back. A sender holds it back until a path is known to carry
    /// messages of this size. The test's clock starts with the first message.
    pub(crate) held: bool,
    pub(crate) meter: Meter,
    /// Time and counts of the last report.
    lapped: Time,
    pub(crate) sent: Sent,
    /// The counts at the end of the period that the results exclude.
    pub(crate) omitted: Sent,
    /// Number of missing messages at the last report.
    missing: u64,
    /// Whether the period that the results exclude is still running.
    omitting: bool,
    /// When the queue became empty after the last message.
    pub(crate) emptied: Option<Time>,
}

impl Transfer {
    pub(crate) fn new(mode: Mode, file: Option<PathBuf>, clock: ClockId, now: Time) -> Transfer {
        let mut transfer = Transfer {
            opened: now,
            clock,
            stage: Stage::Receiving,
            test: None,
            say: None,
            refused: None,
            file,
            store: None,
            asked: None,
            server_output: String::new(),
            carried: 0,
            peer_done: false,
            peer_sent: None,
            peer_received: None,
            peer_cpu: None,
            cpu: Cpu::new(),
            failure: None,
            sender: None,
            fit: Fit::Unknown,
            held: false,
            meter: Meter::new(clock),
            lapped: now,
            sent: Sent::default(),
            omitted: Sent::default(),
            missing: 0,
            omitting: false,
            emptied: None,
            mode: mode.clone(),
        };
        match mode {
            Mode::Plain(load) => transfer.begin(now, load),
            Mode::Ask(test) => {
                let hello = Control::Hello { version: VERSION, test };
                transfer.stage = Stage::Greeting;
                transfer.say = Some(Say { what: hello, at: now, left: REPEATS });
            }
            Mode::Obey => {}
        }
        transfer
    }

    /// Checks the message size again after a path's MTU changed.
    pub(crate) fn on_path_mtu(&mut self) {
        self.fit = Fit::Unknown;
    }

    /// Returns what this connection has used, to be checked against the server's limits.
    pub(crate) fn usage(&self) -> Use {
        Use { opened: self.opened, bytes: self.carried, ended: self.refused.is_some() }
    }

    /// Returns whether the test has begun: it was negotiated or, if none is negotiated, data has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.test.is_some() || (matches!(self.mode, Mode::Plain(_)) && self.meter.first.is_some())
    }

    /// Returns whether the client will request this server's output.
    pub(crate) fn gives_output(&self) -> bool {
        matches!(self.mode, Mode::Obey) && self.test.as_ref().is_some_and(|test| test.server_output)
    }

    /// Returns whether this client will request the server's output.
    pub(crate) fn wants_output(&self) -> bool {
        matches!(&self.mode, Mode::Ask(test) if test.server_output)
    }

    fn begin(&mut self, now: Time, load: Option<Load>) {
        (self.opened, self.lapped, self.cpu) = (now, now, Cpu::new());
        self.stage = if load.is_some() { Stage::Sending } else { Stage::Receiving };
        self.held = load.is_none();
        // Do not use the file for echoes: they contain the client's data, and the file serves only one
        // direction.
        let file = self.file.take().filter(|_| self.test.as_ref().is_none_or(|test| !test.echo));
        let opened = match (&file, load) {
            (None, _) => Ok(None),
            (Some(file), Some(_)) => Source::open(file).map(Some),
            (Some(file), None) => Store::create(file).map(|store| {
                self.store = Some(store);
                None
            }),
        };
        let source = opened.unwrap_or_else(|e| {
            let file = file.unwrap_or_default();
            self.failure = Some(format!("--file {}: {e}", file.display()));
            None
        });
        self.sender = load.map(|load| Sender::new(load, source, self.clock, now));
        self.meter.omit = self.omit();
        self.meter.echo = self.echo();
        self.omitting = !self.omit().is_zero();
    }

    /// Returns the time at the start of the test to exclude from the results.
    pub(crate) fn omit(&self) -> Duration {
        self.test.as_ref().map_or(Duration::ZERO, Test::omit)
    }

    /// Returns whether this end receives echoes.
    pub(crate) fn echo(&self) -> bool {
        matches!(self.mode, Mode::Ask(_)) && self.test.as_ref().is_some_and(|test| test.echo)
    }

    pub(crate) fn on_message(
        &mut self,
        core: &mut Core,
        now: Time,
        session: SessionId,
        (queue, limits): (u32, &Limits),
        mut data: Vec<u8>,
    ) {
        let plain = matches!(self.mode, Mode::Plain(_));
        match Control::read(&data).filter(|_| !plain) {
            Some(Ok(control)) => self.on_control(core, now, session, limits, control),
            Some(Err(_)) => self.meter.malformed += 1,
            None => {
                if self.sender.is_none() && std::mem::take(&mut self.held) {
                    (self.opened, self.lapped, self.cpu) = (now, now, Cpu::new());
                }
                self.meter.on_message(now, &data);
                if let (Stage::Lingering { until }, None) = (&mut self.stage, &self.refused) {
                    *until = now + LINGER;
                }
                self.carried += data.len() as u64;
                if let Some(Err(e)) = self.store.as_mut().map(|store| store.add(&data)) {
                    self.store = None;
                    self.failure = Some(format!("cannot write the file of --file: {e}"));
                }
                let echo =
                    matches!(self.mode, Mode::Obey) && self.test.as_ref().is_some_and(|test| test.echo);
                if echo && core.endpoint.backlog(now, session).packets < queue {
                    message::note_arrival(&mut data, now);
                    self.carried += data.len() as u64;
                    core.endpoint.send(now, session, data, PktInfo::default());
                }
            }
        }
    }

    fn on_control(
        &mut self,
        core: &mut Core,
        now: Time,
        session: SessionId,
        limits: &Limits,
        control: Control,
    ) {
        let mut answer = |control: Control| {
            core.endpoint.send(now, session, control.write(), PktInfo::default());
        };
        match (control, &self.mode) {
            (Control::Hello { version, test }, Mode::Obey) => {
                if version != VERSION {
                    let why = format!(
                        "the server uses version {VERSION} of the perf protocol, the client version {version}; update the older end"
                    );
                    return answer(Control::Refused { why });
                }
                if let Some(why) = self.refused.clone() {
                    return answer(Control::Refused { why });
                }
                if let Some(why) = limits.refusal(&test).filter(|_| self.test.is_none()) {
                    answer(Control::Refused { why: why.clone() });
                    return self.refuse_because(now, why);
                }
                answer(Control::Ready);
                if self.test.is_none() {
                    self.test = Some(test.clone());
                    self.begin(now, test.down.then(|| test.load()));
                }
            }
            (Control::Ready, Mode::Ask(test)) if self.stage == Stage::Greeting => {
                let test = test.clone();
                self.say = None;
                self.test = Some(test.clone());
                self.begin(now, test.up.then(|| test.load()));
            }
            (Control::Refused { why }, Mode::Ask(_)) if self.stage == Stage::Greeting => {
                self.failure = Some(format!("the server refused the test: {why}"));
                self.close(core, now, session);
            }
            (Control::Refused { why }, Mode::Ask(_)) if self.stage != Stage::Closing => {
                self.failure = Some(format!("the server ended the test: {why}"));
                self.close(core, now, session);
            }
            (Control::Done { sent, cpu }, _) => {
                (self.peer_sent, self.peer_cpu) = (sent, cpu.or(self.peer_cpu));
                answer(Control::Results { received: In::total(&self.meter), cpu: Some(self.cpu.share()) });
                self.peer_done = true;
                if self.wants_output() && self.stage == Stage::Receiving {
                    self.fetch(now);
                }
            }
            // The output is complete only once this end has stopped sending.
            (Control::Output { from }, Mode::Obey) if self.stage == Stage::Receiving => {
                self.asked = Some(from)
            }
            (Control::Text { from, total, text }, _)
                if self.stage == Stage::Fetching && from == self.server_output.len() =>
            {
                self.server_output += &text;
                let all = self.server_output.len() >= total.min(MOST_OUTPUT) || text.is_empty();
                if all { self.close(core, now, session) } else { self.fetch(now) }
            }
            // The results may arrive late, because the peer's data waits in the same queue.
            (Control::Results { received, cpu }, _)
                if matches!(self.stage, Stage::Asking | Stage::Lingering { .. }) =>
            {
                (self.peer_received, self.peer_cpu) = (Some(received), cpu.or(self.peer_cpu));
                if self.stage == Stage::Asking {
                    self.on_results(core, now, session);
                }
            }
            _ => {}
        }
    }

    /// Continues once the peer's results have arrived or can no longer be expected.
    fn on_results(&mut self, core: &mut Core, now: Time, session: SessionId) {
        self.say = None;
        let both = self.test.as_ref().is_some_and(|test| test.up && test.down);
        match (&self.mode, both) {
            // The server waits, because the client closes the session once it has all results.
            (Mode::Obey, true) => self.stage = Stage::Receiving,
            (_, true) => self.stage = Stage::Lingering { until: now + LINGER },
            _ if self.gives_output() => self.stage = Stage::Receiving,
            _ => self.end(core, now, session),
        }
    }

    /// Client: requests the next part of the server's output.
    fn fetch(&mut self, now: Time) {
        self.stage = Stage::Fetching;
        let what = Control::Output { from: self.server_output.len() };
        self.say = Some(Say { what, at: now, left: REPEATS });
    }

    /// Ends the transfer once all data has been sent and received. A client that wants the server's output
    /// fetches it first.
    fn end(&mut self, core: &mut Core, now: Time, session: SessionId) {
        if self.wants_output() { self.fetch(now) } else { self.close(core, now, session) }
    }

    /// Sends the pending control datagram if it is due. Returns whether it was sent.
    fn speak(&mut self, core: &mut Core, now: Time, session: SessionId) -> bool {
        let Some(say) = self.say.as_mut().filter(|say| say.at <= now) else { return false };
        if say.left > 0 {
            (say.at, say.left) = (now + REPEAT, say.left - 1);
            core.endpoint.send(now, session, say.what.write(), PktInfo::default());
            return true;
        }
        self.say = None;
        if self.stage == Stage::Greeting {
            self.failure = Some(
                "the other end is not `mpdccp perf -s`; to test without it, use --send or --receive at both ends".into(),
            );
            self.close(core, now, session);
        } else if self.stage == Stage::Fetching {
            self.server_output = "the server did not send its output".into();
            self.close(core, now, session);
        } else if self.stage == Stage::Asking {
            let both = self.test.as_ref().is_some_and(|test| test.up && (test.down || test.echo));
            // If the peer sends data, too, its results may still wait behind that data in its queue.
            if !both {
                self.lack_results();
            }
            self.on_results(core, now, session);
        }
        false
    }

    /// Queues the messages that are due. Returns whether any message or control datagram was sent. Closes the
    /// session once everything has been sent.
    pub(crate) fn fill(&mut self, core: &mut Core, now: Time, session: SessionId, queue: u32) -> bool {
        let mut any = self.speak(core, now, session);
        if self.omitting && !self.held && now >= self.opened + self.omit() {
            self.end_omission(core, now, session);
        }
        if let Stage::Lingering { until } = self.stage {
            // Closing the session drops queued packets, so wait until the results have reached the peer.
            let told = self.peer_done
                && core.endpoint.backlog(now, session).packets == 0
                && core.endpoint.rows(now, session).iter().all(|row| row.inflight.packets == 0);
            match self.refused {
                Some(_) if now >= until => self.close(core, now, session),
                None if told || (self.peer_done && now >= until) => {
                    if self.peer_received.is_none() {
                        self.lack_results();
                    }
                    self.end(core, now, session);
                }
                None if now >= until => {
                    let why = "the server stopped sending before it had sent all its data";
                    self.fail(core, now, session, why.into());
                }
                _ => {}
            }
        }
        let fits = match self.stage {
            Stage::Sending => self.fit.check(core, now, session, self.size()),
            _ => Ok(true),
        };
        let fits = fits.unwrap_or_else(|why| {
            self.fail(core, now, session, why);
            false
        });
        if let (Stage::Sending, Some(sender)) = (self.stage, &mut self.sender) {
            let held = !fits && sender.made == 0;
            if std::mem::replace(&mut self.held, held) && !held {
                sender.restart(now);
                (self.opened, self.lapped, self.cpu) = (now, now, Cpu::new());
            }
        }
        if let (Stage::Sending, false, Some(sender)) = (self.stage, self.held, &mut self.sender) {
            // At a constant rate, messages are due even if no path can carry them.
            let fits = fits || sender.load.rate.is_some();
            let mut waiting = core.endpoint.backlog(now, session).packets;
            // Check for room once, before the loop; otherwise later messages of a burst would displace
            // earlier ones.
            let full = waiting >= queue;
            while let Some(data) = sender.poll(now, fits && waiting < queue, full) {
                let info = PktInfo { len: data.len(), ..PktInfo::default() };
                self.carried += data.len() as u64;
                core.endpoint.send(now, session, data, info);
                waiting += 1;
                any = true;
            }
            if let Some(e) = sender.take_read_error() {
                self.fail(core, now, session, format!("cannot read the file of --file: {e}"));
            } else if sender.is_done(now) {
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
                self.look(core, now, session);
                match self.test {
                    None => self.close(core, now, session),
                    Some(_) => {
                        self.stage = Stage::Asking;
                        let sent = self.all_sent(now).as_ref().map(Tally::from);
                        let what = Control::Done { sent, cpu: Some(self.cpu.share()) };
                        self.say = Some(Say { what, at: now, left: REPEATS });
                        any = true;
                    }
                }
            }
        }
        any
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let stage = match self.stage {
            Stage::Sending if self.held => None,
            Stage::Sending => self.sender.as_ref().and_then(Sender::next_timeout),
            Stage::Draining { until } => until,
            Stage::Lingering { until } => Some(until),
            Stage::Greeting | Stage::Asking | Stage::Fetching => None,
            Stage::Closing | Stage::Receiving => None,
        };
        let fit = self.fit.next_timeout().filter(|_| self.stage == Stage::Sending);
        stage.into_iter().chain(self.say.as_ref().map(|say| say.at)).chain(fit).min()
    }
}
