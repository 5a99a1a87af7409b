//! Plays a script against the model.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use mpdccp_units::Time;

use super::check::{self, Failed};
use super::packet::{Options, Packet};
use super::script::{Action, Event, Script, When};
use crate::sim::Side;
use crate::sim::tcp::segment::{self, Ack, Data, HEADERS, Segment, Step};
use crate::sim::tcp::{Rule, Tcp};

/// Maximum segment size of a peer that announces none (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u64 = 536;
/// Size in bytes of the timestamp option, including its padding.
const TIMESTAMPS: u64 = 12;
/// Echo number for a connection without timestamps. It is larger than the number of every retransmission.
const NO_ECHO: u64 = u64::MAX;

/// The reason why a script failed.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Failure {
    /// The script is invalid, or uses a feature that the model lacks.
    Script { line: usize, why: String },
    /// The model's behaviour differs from the script.
    Differs { line: usize, expected: String, got: String },
}

/// The reason why an event failed.
enum Stop {
    Script(String),
    Differs { expected: String, got: String },
}

impl From<&str> for Stop {
    fn from(why: &str) -> Stop {
        Stop::Script(why.to_owned())
    }
}

impl Script {
    /// Plays the script against the model. `congestion` replaces the script's congestion control, which is
    /// CUBIC by default.
    pub fn play(&self, congestion: Option<&str>) -> Result<(), Failure> {
        let mut player = Player::new(congestion, self.tolerance);
        for event in &self.events {
            player.event(event).map_err(|stop| match stop {
                Stop::Script(why) => Failure::Script { line: event.line, why },
                Stop::Differs { expected, got } => Failure::Differs { line: event.line, expected, got },
            })?;
        }
        Ok(())
    }
}

/// Earliest and latest time of an event, before applying the tolerance, and the tolerance itself.
struct Span {
    first: Time,
    last: Time,
    tolerance: Duration,
}

#[derive(Default)]
struct Player<'a> {
    congestion: Option<&'a str>,
    set: Option<String>,
    tolerance: Duration,
    now: Time,
    /// Time of the previous event, to which relative times refer.
    previous: Time,
    handshake: Handshake,
    tcp: Option<Tcp>,
    /// Segments that the model sent and that no event of the script has matched yet.
    sent: VecDeque<(Time, Data)>,
    /// The number of the transmission that each of the script's timestamps belongs to.
    transmissions: BTreeMap<u32, u64>,
    acks: u32,
    written: u64,
}

/// The handshake so far.
#[derive(Default)]
struct Handshake {
    /// Time at which the model sent its SYN or SYN-ACK.
    sent_at: Option<Time>,
    /// The peer's options, from its SYN or SYN-ACK.
    peer: Options,
    ecn: bool,
    /// Whether the model opened the connection and still has to send the last packet of the handshake.
    active: bool,
}

impl Player<'_> {
    fn new(congestion: Option<&str>, tolerance: Duration) -> Player<'_> {
        Player { congestion, tolerance, ..Player::default() }
    }

    fn event(&mut self, event: &Event) -> Result<(), Stop> {
        let span = self.span(event.when);
        if let (Action::Packet(packet), Some(_)) = (&event.action, &self.tcp)
            && !packet.injected
        {
            return self.expect(packet, &span, &event.text);
        }
        self.run_until(span.first);
        self.previous = span.first;
        match &event.action {
            Action::Packet(packet) if self.tcp.is_none() => self.shake_hands(packet),
            Action::Packet(packet) => self.inject(packet),
            Action::Congestion(cc) => {
                self.set = Some(cc.clone());
                if self.tcp.is_none() {
                    Ok(())
                } else {
                    Err("the script must set TCP_CONGESTION before the handshake".into())
                }
            }
            Action::Write(bytes) => {
                let tcp =
                    self.tcp.as_mut().ok_or("the script writes data before the end of the handshake")?;
                tcp.write(*bytes);
                self.written += bytes;
                self.run_until(self.now);
                Ok(())
            }
            Action::Code(code) => self.check(code),
            Action::Nothing => Ok(()),
        }
    }

    fn span(&self, when: When) -> Span {
        let (first, last) = match when {
            When::Any => (self.now, Time::MAX),
            When::At { first, last } => (Time::ZERO + first, Time::ZERO + last),
            When::After { first, last } => (self.previous + first, self.previous + last),
        };
        // Tolerate at least an eighth of the time since the previous event, as packetdrill does.
        Span { first, last, tolerance: self.tolerance.max(first.since(self.previous) / 8) }
    }

    fn shake_hands(&mut self, packet: &Packet) -> Result<(), Stop> {
        let (syn, ack) = (packet.has('S'), packet.has('.'));
        match (packet.injected, syn, ack) {
            (true, true, _) => {
                if !packet.options.sack_ok {
                    return Err("the model needs SACK; add sackOK to the peer's SYN or SYN-ACK".into());
                }
                self.handshake.peer = packet.options.clone();
                if ack {
                    self.handshake.ecn = packet.has('E');
                    self.open(packet)?;
                }
            }
            (false, true, _) => {
                if self.handshake.sent_at.replace(self.now).is_some() {
                    return Err("the model does not retransmit SYNs".into());
                }
                (self.handshake.ecn, self.handshake.active) = (ack && packet.has('E'), !ack);
            }
            (true, false, true) => self.open(packet)?,
            _ => return Err("expected a handshake first".into()),
        }
        Ok(())
    }

    /// Opens the connection on arrival of the handshake's last packet.
    fn open(&mut self, packet: &Packet) -> Result<(), Stop> {
        let sent_at = self.handshake.sent_at.ok_or("expected the model's SYN or SYN-ACK first")?;
        let peer = &self.handshake.peer;
        let options = if peer.times.is_some() { TIMESTAMPS } else { 0 };
        let mtu = peer.mss.unwrap_or(DEFAULT_MSS).saturating_sub(options) + HEADERS as u64;
        let mtu = u16::try_from(mtu).map_err(|_| "the maximum segment size is too large")?;
        let cc = self.congestion.or(self.set.as_deref()).unwrap_or("cubic");
        if !["cubic", "reno", "bbr"].contains(&cc) {
            return Err(Stop::Script(format!(
                "unknown congestion control `{cc}`; the model has cubic, reno and bbr"
            )));
        }
        let mut tcp = Tcp::new(0, mtu, cc, Rule::Rack, 1);
        if self.handshake.ecn {
            tcp.use_ecn();
        }
        tcp.poll(sent_at);
        tcp.handle(self.now, Side::Client, &Segment::Open(0, Step::SynAck));
        tcp.poll(self.now);
        self.tcp = Some(tcp);
        // The window in a SYN is not scaled.
        let window = packet.window.unwrap_or_default() << if packet.has('S') { 0 } else { self.scale() };
        self.acknowledge(Ack { window, ..Ack::default() });
        Ok(())
    }

    fn scale(&self) -> u32 {
        self.handshake.peer.scale.unwrap_or_default()
    }

    fn inject(&mut self, packet: &Packet) -> Result<(), Stop> {
        let upto = packet.ack.filter(|_| packet.len == 0 && !packet.flags.contains(['S', 'F', 'R']));
        let upto = upto.ok_or("the model accepts only acknowledgements, without data")?.saturating_sub(1);
        // Linux ignores acknowledgements of data that it has not sent. So if the script contains such an
        // acknowledgement, the model has sent less data than the script expects.
        let sent = self.tcp.as_ref().map_or(0, |tcp| self.written - tcp.sender().unsent());
        if let Some(end) =
            packet.options.blocks.iter().map(|(_, end)| end - 1).chain([upto]).find(|end| *end > sent)
        {
            let got = format!("only 1:{}({sent}) until {:.3} s", sent + 1, self.now.as_secs_f64());
            return Err(Stop::Differs {
                expected: format!("data up to {}, which this packet acknowledges", end + 1),
                got,
            });
        }
        let blocks: Vec<(u64, u64)> = packet
            .options
            .blocks
            .iter()
            .map(|(start, end)| (start.saturating_sub(1), end.saturating_sub(1)))
            .collect();
        // The first block is a DSACK if it is below the cumulative acknowledgement or inside the second block
        // (RFC 2883 section 4).
        let dsack = match blocks[..] {
            [(_, end), ..] if end <= upto => true,
            [(start, end), (begin, stop), ..] => begin <= start && end <= stop,
            _ => false,
        };
        let echo = match packet.options.times {
            None => NO_ECHO,
            Some((_, echo)) => self.transmissions.get(&echo).copied().unwrap_or_default(),
        };
        let window = packet.window.unwrap_or_default() << self.scale();
        self.acknowledge(Ack { upto, echo, window, ece: packet.has('E'), dsack, blocks, ..Ack::default() });
        Ok(())
    }

    fn acknowledge(&mut self, ack: Ack) {
        self.acks += 1;
        if let Some(tcp) = &mut self.tcp {
            tcp.handle(self.now, Side::Client, &Segment::Ack(Ack { no: self.acks, ..ack }));
        }
        self.run_until(self.now);
    }

    /// Runs the model up to and including the time `until`.
    fn run_until(&mut self, until: Time) {
        let mut before = None;
        while let Some(tcp) = &mut self.tcp {
            while let Some(out) = tcp.poll(self.now) {
                if let Some(Segment::Data(data)) = segment::read(&out.packet) {
                    self.sent.push_back((self.now, data));
                }
            }
            let next = tcp.next_timeout().filter(|at| *at <= until && Some(*at) != before);
            let Some(at) = next else { break };
            before = next;
            self.now = self.now.max(at);
        }
        self.now = self.now.max(until);
    }

    /// Fails unless the model sends this packet within `span`.
    fn expect(&mut self, packet: &Packet, span: &Span, text: &str) -> Result<(), Stop> {
        if packet.len == 0 {
            let last_of_handshake = std::mem::take(&mut self.handshake.active);
            return if last_of_handshake {
                Ok(())
            } else {
                Err("the model's sender sends no acknowledgements".into())
            };
        }
        let until = if span.last == Time::MAX { Time::MAX } else { span.last + span.tolerance };
        while self.sent.is_empty() {
            match self.tcp.as_ref().and_then(Tcp::next_timeout).filter(|at| *at <= until) {
                Some(at) => self.run_until(at),
                None => return Err(differs(text, span, "nothing".to_owned())),
            }
        }
        let Some((at, first)) = self.sent.pop_front() else { return Ok(()) };
        // The kernel passes consecutive segments to the device as one large packet, and the script expects
        // this packet. So join the model's segments to match it.
        let (mut last, end) = (first, packet.start + packet.len - 1);
        let reaches = |data: &Data| data.start + u64::from(data.len);
        while let Some((_, next)) =
            self.sent.front().filter(|(t, d)| *t == at && d.start == reaches(&last) && reaches(d) <= end)
        {
            last = *next;
            self.sent.pop_front();
        }
        let in_time = at + span.tolerance >= span.first && at <= until;
        let capable = packet.capable.is_none_or(|capable| capable == (first.ecn != 0));
        let same = (first.start + 1, reaches(&last), first.cwr) == (packet.start, end, packet.has('W'));
        if !(in_time && capable && same) {
            return Err(differs(text, span, shown(at, &first, reaches(&last))));
        }
        if let Some((time, _)) = packet.options.times {
            self.transmissions.insert(time, last.no);
        }
        self.now = self.now.max(at);
        self.previous = if span.first == span.last { span.first } else { self.now };
        Ok(())
    }

    fn check(&self, code: &str) -> Result<(), Stop> {
        let value = |name: &str| match name {
            "TCP_CA_Open" => Some(0),
            "TCP_CA_Disorder" => Some(1),
            "TCP_CA_CWR" => Some(2),
            "TCP_CA_Recovery" => Some(3),
            "TCP_CA_Loss" => Some(4),
            name => self.tcp.as_ref()?.sender().info(name),
        };
        check::check(code, &value).map_err(|failed| match failed {
            Failed::Script(why) => Stop::Script(why),
            Failed::False { assertion, values } => {
                Stop::Differs { expected: format!("`{assertion}`"), got: values }
            }
        })
    }
}

fn differs(text: &str, span: &Span, got: String) -> Stop {
    let Span { first, last, tolerance } = span;
    let time = |t: &Time| format!("{:.3}", t.as_secs_f64());
    let when = match *last {
        Time::MAX => "at any time".to_owned(),
        last if last == *first => format!("at {} s", time(first)),
        last => format!("at {} to {} s", time(first), time(&last)),
    };
    Stop::Differs {
        expected: format!("`{text}` {when}, within {:.1} ms", tolerance.as_secs_f64() * 1e3),
        got,
    }
}

fn shown(at: Time, data: &Data, end: u64) -> String {
    let ecn = if data.ecn == 0 { "" } else { "[ect0] " };
    let cwr = if data.cwr { "W" } else { "" };
    format!(
        "`> {ecn}{cwr}. {}:{}({})` at {:.3} s",
        data.start + 1,
        end + 1,
        end - data.start,
        at.as_secs_f64()
    )
}
