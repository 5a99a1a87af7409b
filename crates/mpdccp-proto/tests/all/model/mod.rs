//! A model of the MP-DCCP handshakes between one client and one server, based on RFC 9897 and
//! RFC 4340 section 8.5. It contains the first subflow, an advertised address and the join to it, MP_PRIO,
//! the removal of the address, and every kind of close. `check` visits all states of the model, and `replay`
//! compares the model with the code.
//!
//! Subflow 0 is the first one. Subflows 1 and 2 go to the address that the server advertises, the first time
//! and after readvertisement. Sequence numbers are only ever compared, so [`State::normal`] keeps only their
//! order and whether they are adjacent. Keys and HMACs cannot be forged, so the model represents an HMAC by
//! the incarnation of the connection whose nonces it covers.

mod actions;
mod check;
mod normal;
mod replay;

const CLIENT: usize = 0;
const SERVER: usize = 1;
const CONNS: usize = 3;
/// Address IDs that the server may assign.
const IDS: usize = 2;
/// An end may give up on an option after this many transmissions.
const TRIES: u8 = 3;

/// State of a connection at one end (RFC 4340 section 8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
enum Conn {
    /// There is no connection. On a server, this is the listening state.
    #[default]
    Closed,
    TimeWait,
    Request,
    Respond,
    PartOpen,
    Open,
    Closing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Code {
    Closed,
    Aborted,
    NoConnection,
    PacketError,
    OptionError,
    Refused,
    /// Reset code 13, "Abrupt MP termination". The value says whether the Reset has MP_FAST_CLOSE.
    Abrupt(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Request,
    Response,
    /// An Ack. `handshake` is true if it carries the HMAC of a join in PARTOPEN.
    Ack {
        handshake: bool,
        confirms: Option<(Told, u16)>,
    },
    Data(Told, u16),
    /// A Close. The value says whether it has MP_CLOSE.
    Close(bool),
    Reset(Code),
    /// A Sync. The value says whether it carries the HMAC of a join in PARTOPEN.
    Sync(bool),
    /// A SyncAck. The value is the same as for a Sync.
    SyncAck(bool),
}
use Kind::{Ack, Close, Data, Request, Reset, Response, Sync, SyncAck};

/// An option that needs confirmation. The number stored with it is its MP_SEQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Told {
    Prio(u8),
    Add(u8),
    Remove(u8),
}

/// A packet in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Packet {
    conn: usize,
    from: usize,
    /// Incarnation of the connection: how often the server had accepted the connection when this packet's
    /// handshake began. 0 on a Request.
    inc: u16,
    /// Sequence number. 0 is below all numbers.
    seq: u16,
    /// Acknowledgement Number, or `None` if the packet has none. 0 is below all other numbers.
    ack: Option<u16>,
    kind: Kind,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Half {
    state: Conn,
    inc: u16,
    gss: u16,
    gsr: u16,
    isr: u16,
    gar: u16,
    /// Whether this end's Close carries MP_CLOSE.
    mp: bool,
    /// The Address ID of the connection's destination.
    id: u8,
    /// The peer's MP_PRIO and its MP_SEQ.
    prio: Option<(u8, u16)>,
}

/// A session at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Session {
    #[default]
    None,
    Connecting,
    Open,
    Closing,
    Closed,
}

/// An option that is not confirmed yet, with the MP_SEQs of its first and newest transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pending {
    told: Told,
    conn: usize,
    sent: Option<(u16, u16)>,
    /// Number of transmissions, counted up to [`TRIES`].
    tries: u8,
}

/// An action that a host takes by itself or on command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    /// The server advertises its second address (MP_ADDADDR). `Withdraw` removes it.
    Advertise,
    Withdraw,
    /// The client sends MP_PRIO for its subflow to the server's second address.
    Prio,
    /// The client closes only its subflow to the server's second address.
    Leave,
    Close(usize),
    Abort(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Deliver(Packet),
    Lose(Packet),
    Duplicate(Packet),
    /// A retransmission timer of a connection fires. With `true`, the end gives up on the connection instead
    /// of retransmitting.
    Timer(usize, usize, bool),
    /// A timer of an unconfirmed option fires. With `true`, the end gives up on the option instead of
    /// retransmitting.
    Repeat(usize, Told, bool),
    /// An end suspects that its peer is gone, and sends a Sync.
    Probe(usize, usize),
    Command(Command),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct State {
    conns: [[Half; 2]; CONNS],
    sessions: [Session; 2],
    /// Packets in the network, sorted.
    net: Vec<Packet>,
    pending: [[Option<Pending>; IDS]; 2],
    next_mp_seq: [u16; 2],
    /// For each Address ID: whether the client knows the address, and the newest MP_SEQ for the ID.
    known: [Option<(bool, u16)>; IDS],
    /// For each Address ID: whether the server has assigned it.
    given: [bool; IDS],
    /// For each Address ID: whether its connection has failed or ended. If so, only readvertising the address
    /// brings the connection back.
    shunned: [bool; IDS],
    joins: usize,
    prios: u8,
    faults: u8,
    commands: [u8; 8],
}

impl State {
    /// Returns the state in which the client connects.
    fn new() -> State {
        let mut state = State { next_mp_seq: [1, 1], ..State::default() };
        state.sessions[CLIENT] = Session::Connecting;
        state.connect(0, 0);
        state
    }

    /// Allows up to `faults` faults from here on, and each command as often as it is listed.
    fn with(mut self, faults: u8, commands: &[Command]) -> State {
        self.faults = faults;
        commands.iter().for_each(|command| self.commands[slot(*command)] += 1);
        self
    }

    /// Delivers all packets, then executes these commands one by one.
    fn then(mut self, commands: &[Command]) -> (State, Vec<Action>) {
        let mut trace = Vec::new();
        let mut commands = commands.iter();
        loop {
            let action = match self.net.first() {
                Some(packet) => Action::Deliver(*packet),
                None => match commands.next() {
                    Some(command) => Action::Command(*command),
                    None => return (self, trace),
                },
            };
            if let Action::Command(command) = action {
                self.commands[slot(command)] += 1;
            }
            self = self.after(&action);
            trace.push(action);
        }
    }

    fn half(&mut self, end: usize, c: usize) -> &mut Half {
        &mut self.conns[c][end]
    }

    fn is_open(&self, end: usize, c: usize) -> bool {
        self.conns[c][end].state == Conn::Open
    }

    fn is_live(&self, end: usize, c: usize) -> bool {
        !matches!(self.conns[c][end].state, Conn::Closed | Conn::TimeWait)
    }

    fn launch(&mut self, packet: Packet) {
        self.net.push(packet);
    }

    /// Sends a packet of a connection.
    fn send(&mut self, from: usize, c: usize, kind: Kind, ack: Option<u16>) {
        let half = self.half(from, c);
        half.gss += 1;
        let inc = if kind == Request { 0 } else { half.inc };
        let packet = Packet { conn: c, from, inc, seq: half.gss, ack, kind };
        self.launch(packet);
    }

    fn send_acking(&mut self, from: usize, c: usize, kind: Kind) {
        let ack = self.half(from, c).gsr;
        self.send(from, c, kind, Some(ack));
    }

    /// Answers a packet with a Reset that belongs to no connection and takes its numbers from the packet
    /// (RFC 4340 section 8.3.1).
    fn refuse(&mut self, packet: &Packet, code: Code) {
        let seq = packet.ack.map_or(0, |ack| if ack == 0 { 0 } else { ack + 1 });
        let (from, ack) = (1 - packet.from, Some(packet.seq));
        self.launch(Packet { from, seq, ack, kind: Reset(code), ..*packet });
    }

    fn connect(&mut self, c: usize, id: u8) {
        *self.half(CLIENT, c) = Half { state: Conn::Request, id, ..Half::default() };
        self.send(CLIENT, c, Request, None);
    }

    fn handshake_ack(&mut self, c: usize) {
        self.send_acking(CLIENT, c, Ack { handshake: true, confirms: None });
    }

    /// Handles a packet following the steps of RFC 4340 section 8.5.
    fn receive(&mut self, packet: &Packet) {
        let (end, c) = (1 - packet.from, packet.conn);
        let state = self.conns[c][end].state;
        // Steps 2 and 3: without a connection, only a Request to the server is accepted.
        if matches!(state, Conn::Closed | Conn::TimeWait) {
            if end == SERVER && packet.kind == Request && state == Conn::Closed {
                return self.listen(packet);
            }
            if !matches!(packet.kind, Reset(_)) {
                self.refuse(packet, Code::NoConnection);
            }
            return;
        }
        // A Sync or SyncAck that overtakes the client's Ack moves the server to OPEN (RFC 4340 section 8.5,
        // step 11), so in PARTOPEN it carries the HMAC of the join, too.
        let proves = c > 0 && state == Conn::PartOpen;
        let half = self.half(end, c);
        // Step 4: only an answer to this Request is valid.
        if state == Conn::Request {
            let acks_us = packet.ack.is_some_and(|ack| ack > 0 && ack <= half.gss);
            match packet.kind {
                Response | Reset(_) if acks_us => {
                    (half.isr, half.gsr, half.inc) = (packet.seq, packet.seq, packet.inc)
                }
                Reset(_) => return,
                _ => return self.refuse(packet, Code::PacketError),
            }
        }
        // Steps 5 and 6: check the sequence and acknowledgement numbers. Sequence numbers need no upper bound
        // here, because the model's numbers are all below the upper end of the window.
        let ends = matches!(packet.kind, Close(_) | Reset(_));
        let low = if ends { half.gsr + 1 } else { half.isr };
        let first = state == Conn::Request;
        let seq = first || packet.seq > 0 && packet.seq >= low;
        let least = if ends { half.gar.max(1) } else { 1 };
        let ack = packet.ack.is_none_or(|ack| (least..=half.gss).contains(&ack));
        let same = packet.kind == Request || packet.inc == half.inc;
        if !(seq && ack && same) {
            // A later Request has overtaken this one; see docs/rfc4340.md.
            let overtaken = packet.kind == Request && state == Conn::Respond;
            if !matches!(packet.kind, Sync(_) | SyncAck(_)) && !overtaken {
                let (ack, inc) = match packet.kind {
                    Reset(_) => (half.gsr, half.inc),
                    _ => (packet.seq, packet.inc),
                };
                self.send(end, c, Sync(proves), Some(ack));
                if end == CLIENT
                    && let Some(sync) = self.net.last_mut()
                {
                    sync.inc = inc;
                }
            }
            return;
        }
        half.gsr = half.gsr.max(packet.seq);
        if !matches!(packet.kind, Sync(_)) {
            half.gar = half.gar.max(packet.ack.unwrap_or(0));
        }
        // Step 7: no Data arrives from this client in RESPOND, because the client sends none before OPEN.
        match packet.kind {
            Reset(code) => return self.on_reset(end, c, code),
            Request if state == Conn::Respond => return self.send_acking(SERVER, c, Response),
            Request => return,
            _ => {}
        }
        let mut confirm = false;
        // Steps 10 to 12: advance the handshake.
        match (state, packet.kind) {
            (Conn::Request, _) => {
                half.state = Conn::PartOpen;
                return self.handshake_ack(c);
            }
            (Conn::Respond, _) => {
                // RFC 9897 section 3.3: the first packet of a join must prove that the client knows the keys.
                // A Close need not, because it ends the subflow anyway.
                let proven = matches!(
                    packet.kind,
                    Ack { handshake: true, .. } | Sync(true) | SyncAck(true) | Close(_)
                );
                if c > 0 && !proven {
                    self.send_acking(end, c, Reset(Code::OptionError));
                    return self.gone(end, c, Conn::Closed);
                }
                half.state = Conn::Open;
                self.opened(end, c, ends);
                confirm = !ends;
                // A client that joins again has probably lost its earlier subflow, so the server probes the
                // earlier one.
                for old in (1..CONNS).filter(|old| *old != c) {
                    if self.is_open(end, old) {
                        self.send_acking(end, old, Sync(false));
                    }
                }
            }
            (Conn::PartOpen, Response) => return self.handshake_ack(c),
            (Conn::PartOpen, Sync(_)) => {}
            (Conn::PartOpen, _) => {
                half.state = Conn::Open;
                self.opened(end, c, ends);
            }
            // RFC 9897 section 3.3: the server repeats the last Ack of the handshake.
            (Conn::Open, Ack { handshake: true, .. }) => confirm = true,
            _ => {}
        }
        match packet.kind {
            Close(mp) => {
                self.send_acking(end, c, Reset(Code::Closed));
                self.half(end, c).state = Conn::Closed;
                // RFC 9897 section 3.2.11: the first MP_CLOSE closes the session.
                if mp && self.sessions[end] == Session::Open {
                    self.begin_closing(end, false);
                }
                self.gone(end, c, Conn::Closed);
            }
            Sync(_) => self.send(end, c, SyncAck(proves), Some(packet.seq)),
            Data(told, mp_seq) => self.on_told(end, c, told, mp_seq),
            Ack { confirms: Some((told, mp_seq)), .. } => self.on_confirm(end, told, mp_seq),
            _ => {}
        }
        if confirm {
            self.send_acking(end, c, Ack { handshake: false, confirms: None });
        }
    }

    fn listen(&mut self, packet: &Packet) {
        let c = packet.conn;
        if c > 0 {
            match self.sessions[SERVER] {
                Session::Open => {}
                // RFC 9897 section 3.2.11: joins are ignored while closing.
                Session::Closing => return,
                _ => return self.refuse(packet, Code::Refused),
            }
        } else if matches!(self.sessions[SERVER], Session::None | Session::Closed) {
            self.sessions[SERVER] = Session::Connecting;
        }
        let inc = self.conns[c][SERVER].inc + 1;
        let seq = packet.seq;
        *self.half(SERVER, c) = Half { state: Conn::Respond, inc, gsr: seq, isr: seq, ..Half::default() };
        self.send_acking(SERVER, c, Response);
    }

    fn opened(&mut self, end: usize, c: usize, ends: bool) {
        match self.sessions[end] {
            Session::Connecting if c == 0 => self.sessions[end] = Session::Open,
            Session::Closing if !ends => self.close_conn(end, c, false),
            _ => {}
        }
    }

    fn on_reset(&mut self, end: usize, c: usize, code: Code) {
        // RFC 4340 section 7.5.6: a peer in REQUEST may start again at once, so there is no TIMEWAIT.
        self.half(end, c).state = if code == Code::PacketError { Conn::Closed } else { Conn::TimeWait };
        if code == Code::Abrupt(true) {
            self.end_all(end, Code::Abrupt(false));
            self.sessions[end] = Session::Closed;
        }
        let now = self.conns[c][end].state;
        self.gone(end, c, now);
    }

    /// Returns the code of a Reset from an end that gives up a subflow. RFC 9897 section 3.2.3: once the
    /// client has accepted the first Response, the server's session may be open, so the Reset also ends it.
    fn giving_up(&self, end: usize, c: usize) -> Code {
        match (end, c, self.conns[c][end].state) {
            (CLIENT, 0, Conn::PartOpen) => Code::Abrupt(true),
            _ => Code::Aborted,
        }
    }

    /// Resets all subflows.
    fn end_all(&mut self, end: usize, code: Code) {
        for c in (0..CONNS).filter(|c| self.is_live(end, *c)).collect::<Vec<_>>() {
            self.send_acking(end, c, Reset(code));
            self.half(end, c).state = Conn::Closed;
        }
    }

    /// Handles the end of a subflow.
    fn gone(&mut self, end: usize, c: usize, state: Conn) {
        let half = self.half(end, c);
        half.state = state;
        let id = usize::from(half.id);
        if end == CLIENT && c > 0 {
            self.shunned[id - 1] = true;
            self.pending[end][0] = self.pending[end][0].filter(|p| p.conn != c);
        }
        let left = (0..CONNS).any(|c| self.is_live(end, c));
        self.sessions[end] = match self.sessions[end] {
            Session::Closing | Session::Connecting if !left => Session::Closed,
            session => session,
        };
        self.join();
    }

    /// Returns the subflow that uses the advertised address, unless it is closing.
    fn user(&self) -> Option<usize> {
        let uses = |state| matches!(state, Conn::Request | Conn::PartOpen | Conn::Open);
        (1..CONNS).find(|c| uses(self.conns[*c][CLIENT].state))
    }

    /// Makes the client join a known address to which it has no subflow.
    fn join(&mut self) {
        let busy = self.user().is_some();
        let ids = (0..IDS).filter(|id| matches!(self.known[*id], Some((true, _))) && !self.shunned[*id]);
        if let (Session::Open, false, Some(id)) = (self.sessions[CLIENT], busy, ids.min())
            && self.joins + 1 < CONNS
        {
            self.joins += 1;
            self.connect(self.joins, id as u8 + 1);
        }
    }

    fn close_conn(&mut self, end: usize, c: usize, mp: bool) {
        match self.conns[c][end].state {
            Conn::PartOpen | Conn::Open => {
                (self.half(end, c).state, self.half(end, c).mp) = (Conn::Closing, mp);
                self.send_acking(end, c, Close(mp));
            }
            Conn::Request | Conn::Respond => {
                self.send_acking(end, c, Reset(Code::Aborted));
                self.gone(end, c, Conn::Closed);
            }
            Conn::Closing => self.half(end, c).mp |= mp,
            Conn::Closed | Conn::TimeWait => {}
        }
    }

    /// Begins to close the session, on the decision of either this end or the peer (RFC 9897 section 3.2.11).
    fn begin_closing(&mut self, end: usize, ours: bool) {
        self.sessions[end] = Session::Closing;
        self.pending[end] = Default::default();
        for c in 0..CONNS {
            let opening = matches!(self.conns[c][end].state, Conn::Request | Conn::Respond);
            if ours || opening {
                self.close_conn(end, c, true);
            }
        }
    }

    /// Returns the subflow that is to carry a new transmission of the option.
    fn path_for(&self, end: usize, pending: &Pending) -> Option<usize> {
        let open = |c: &usize| self.conns[*c][end].state == Conn::Open;
        match pending.told {
            Told::Prio(_) => Some(pending.conn).filter(open),
            _ => (0..CONNS).find(open),
        }
    }

    /// Sends or repeats an option, with a new MP_SEQ (RFC 9897 section 3.2.1).
    fn tell(&mut self, end: usize, slot: usize) {
        let Some(mut pending) = self.pending[end][slot] else { return };
        if let Some(c) = self.path_for(end, &pending) {
            let mp_seq = self.next_mp_seq[end];
            self.next_mp_seq[end] += 1;
            pending.tries = (pending.tries + 1).min(TRIES);
            pending.sent = Some((pending.sent.map_or(mp_seq, |(first, _)| first), mp_seq));
            self.send(end, c, Data(pending.told, mp_seq), None);
        }
        self.pending[end][slot] = Some(pending);
    }

    fn announce(&mut self, end: usize, told: Told, conn: usize) {
        let slot = place(told);
        self.pending[end][slot] = Some(Pending { told, conn, sent: None, tries: 0 });
        self.tell(end, slot);
    }

    fn on_told(&mut self, end: usize, c: usize, told: Told, mp_seq: u16) {
        let mut closes = Vec::new();
        match told {
            Told::Prio(value) => {
                let half = self.half(end, c);
                // RFC 9897 section 3.2.1: an outdated option is ignored.
                if half.prio.is_none_or(|(_, known)| known <= mp_seq) {
                    half.prio = Some((value, mp_seq));
                }
            }
            Told::Add(id) | Told::Remove(id) => {
                let known = &mut self.known[usize::from(id) - 1];
                let add = matches!(told, Told::Add(_));
                match known {
                    Some((_, newest)) if *newest >= mp_seq => {}
                    // The server repeats the option. Its nonce shows that it is not a new advertisement.
                    Some((true, _)) if add => {}
                    // RFC 9897 section 3.2.9: an unknown address is ignored silently.
                    None if !add => return,
                    _ => {
                        *known = Some((add, mp_seq));
                        self.shunned[usize::from(id) - 1] &= !add;
                        closes.extend((1..CONNS).filter(|c| !add && self.conns[*c][end].id == id));
                    }
                }
            }
        }
        for c in closes {
            self.close_conn(end, c, false);
        }
        self.join();
        if self.conns[c][end].state == Conn::Open {
            self.send_acking(end, c, Ack { handshake: false, confirms: Some((told, mp_seq)) });
        }
    }

    fn on_confirm(&mut self, end: usize, told: Told, mp_seq: u16) {
        let pending = &mut self.pending[end][place(told)];
        let confirmed = |p: &Pending| {
            p.told == told && p.sent.is_some_and(|(first, newest)| (first..=newest).contains(&mp_seq))
        };
        if pending.as_ref().is_some_and(confirmed) {
            *pending = None;
            self.release(told);
        }
    }

    /// Releases an ID, which is free once the removal is confirmed (RFC 9897 section 3.2.9).
    fn release(&mut self, told: Told) {
        if let Told::Remove(id) = told {
            self.given[usize::from(id) - 1] = false;
        }
    }

    fn may(&self, command: Command) -> bool {
        let withdrawn =
            |id: usize| matches!(self.pending[SERVER][id], Some(Pending { told: Told::Remove(_), .. }));
        let offered = (0..IDS).any(|id| self.given[id] && !withdrawn(id));
        let open = |end: usize| self.sessions[end] == Session::Open;
        match command {
            Command::Advertise => open(SERVER) && !offered,
            Command::Withdraw => open(SERVER) && offered,
            Command::Prio | Command::Leave => open(CLIENT) && self.joined().is_some(),
            Command::Close(CLIENT) => matches!(self.sessions[CLIENT], Session::Open | Session::Connecting),
            Command::Abort(CLIENT) => matches!(self.sessions[CLIENT], Session::Open | Session::Closing),
            Command::Close(_) => open(SERVER),
            Command::Abort(_) => matches!(self.sessions[SERVER], Session::Open | Session::Closing),
        }
    }

    /// Returns the client's open subflow to the advertised address.
    fn joined(&self) -> Option<usize> {
        (1..CONNS).find(|c| self.conns[*c][CLIENT].state == Conn::Open)
    }

    fn command(&mut self, command: Command) {
        self.commands[slot(command)] -= 1;
        match command {
            Command::Advertise => {
                let Some(id) = (0..IDS).find(|id| !self.given[*id]) else { return };
                self.given[id] = true;
                self.announce(SERVER, Told::Add(id as u8 + 1), 0);
            }
            Command::Withdraw => {
                let removed = |id: &usize| {
                    self.given[*id]
                        && !matches!(self.pending[SERVER][*id], Some(Pending { told: Told::Remove(_), .. }))
                };
                let Some(id) = (0..IDS).find(removed) else { return };
                self.announce(SERVER, Told::Remove(id as u8 + 1), 0);
            }
            Command::Prio => {
                let Some(c) = self.joined() else { return };
                self.prios += 1;
                self.announce(CLIENT, Told::Prio(self.prios), c);
            }
            Command::Leave => {
                let Some(c) = self.joined() else { return };
                let id = usize::from(self.conns[c][CLIENT].id);
                self.shunned[id - 1] = true;
                self.close_conn(CLIENT, c, false);
            }
            Command::Close(end) if self.sessions[end] == Session::Connecting => {
                self.end_all(end, self.giving_up(end, 0));
                self.sessions[end] = Session::Closed;
            }
            Command::Close(end) => {
                self.begin_closing(end, true);
                if !(0..CONNS).any(|c| self.is_live(end, c)) {
                    self.sessions[end] = Session::Closed;
                }
            }
            Command::Abort(end) => {
                self.end_all(end, Code::Abrupt(true));
                self.sessions[end] = Session::Closed;
            }
        }
    }

    /// Handles a retransmission timer that fires. If `give_up`, the end gives up instead of retransmitting.
    fn timer(&mut self, end: usize, c: usize, give_up: bool) {
        let half = self.conns[c][end];
        match (half.state, give_up) {
            (Conn::Request, false) => self.send(end, c, Request, None),
            (Conn::PartOpen, false) => self.handshake_ack(c),
            (Conn::Closing, false) => self.send_acking(end, c, Close(half.mp)),
            (Conn::Request | Conn::Respond | Conn::PartOpen | Conn::Closing, true) => {
                self.send_acking(end, c, Reset(self.giving_up(end, c)));
                self.gone(end, c, Conn::Closed);
            }
            // The session has waited long enough for the peer to close all subflows.
            (Conn::Open, true) if self.sessions[end] == Session::Closing => {
                self.end_all(end, Code::Closed);
                self.sessions[end] = Session::Closed;
            }
            _ => {}
        }
    }
}

const COMMANDS: [Command; 8] = [
    Command::Advertise,
    Command::Withdraw,
    Command::Prio,
    Command::Leave,
    Command::Close(CLIENT),
    Command::Close(SERVER),
    Command::Abort(CLIENT),
    Command::Abort(SERVER),
];

fn slot(command: Command) -> usize {
    COMMANDS.iter().position(|c| *c == command).unwrap_or(0)
}

/// Returns the slot of an unconfirmed option. A newer option on the same subject has the same slot, and so
/// replaces the older one.
fn place(told: Told) -> usize {
    match told {
        Told::Prio(_) => 0,
        Told::Add(id) | Told::Remove(id) => usize::from(id) - 1,
    }
}
