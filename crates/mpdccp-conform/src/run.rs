//! Runs a script over a [`Net`]. Of a connection's state, only the numbers that a script may leave out are
//! kept.

use crate::expr::{Expr, Scope};
use crate::option;
use crate::packet::{Outgoing, Packet};
use crate::script::{Action, Match, Script, Send, Step};
use crate::value::Value;
use dccp_wire::{PacketType, Seq};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// The network between the suite and the target. Each flow has its own address and port.
pub trait Net {
    /// Returns the time since the start of the script.
    fn now(&self) -> Duration;
    /// Opens the next flow. The first flow has the number 0.
    fn open(&mut self) -> io::Result<Place>;
    /// Sends a packet. If the packet has a checksum, adds `damage` to it.
    fn send(&mut self, flow: usize, packet: Vec<u8>, damage: u8) -> io::Result<()>;
    /// Waits for the next packet and returns it with its flow, or `None` if no packet arrives before `until`.
    fn receive(&mut self, until: Duration) -> io::Result<Option<(usize, Vec<u8>)>>;
}

/// The local end of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The flow's local address, as the target sees it.
    pub address: IpAddr,
    /// The local DCCP port of the flow.
    pub port: u16,
}

/// The parameters of the target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// DCCP port of the target.
    pub port: u16,
    /// Service Code of the target.
    pub service: u32,
    /// How long a script waits for an expected packet.
    pub wait: Duration,
}

/// The reason why a script has failed, and the packets of the test.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The script line that failed, and the error.
    pub message: String,
    /// The test's packets, one per line.
    pub trace: Vec<String>,
}

struct Flow {
    name: String,
    place: Place,
    next: u64,
    iss: u64,
    /// Greatest sequence number received (GSR).
    gsr: Option<Seq>,
    /// Whether a Reset was sent or received on this flow.
    ended: bool,
    /// Confirm options to be sent with the next packet that may carry them. `None` if the script answers
    /// Change options itself.
    confirms: Option<Vec<u8>>,
}

enum Bound {
    Value(Value),
    Packet(Packet),
}

struct Runner<'a> {
    net: &'a mut dyn Net,
    target: Target,
    flows: Vec<Flow>,
    current: usize,
    names: BTreeMap<String, Bound>,
    /// Received packets that no step has consumed so far.
    inbox: Vec<(usize, Packet)>,
    /// Steps that apply to all received packets, each with the flow for which the script set it.
    rules: Vec<(usize, &'a Step)>,
    trace: Vec<String>,
}

/// Runs a script. If the script fails, the error contains the reason.
pub fn play(script: &Script, net: &mut dyn Net, target: Target) -> Result<(), Failure> {
    let mut runner = Runner {
        net,
        target,
        flows: Vec::new(),
        current: 0,
        names: BTreeMap::new(),
        inbox: Vec::new(),
        rules: Vec::new(),
        trace: Vec::new(),
    };
    let mut outcome = runner.flow("a");
    for step in &script.steps {
        outcome = outcome
            .and_then(|()| runner.step(step).map_err(|e| format!("{}: {}\n    {e}", step.place, step.text)));
    }
    runner.leave();
    outcome.map_err(|message| Failure { message, trace: runner.trace })
}

impl Scope for Runner<'_> {
    fn variable(&self, name: &str) -> Result<Value, String> {
        let flow = &self.flows[self.current];
        let builtin = match name {
            "next" => Some(Value::Number(flow.next, 6)),
            "iss" => Some(Value::Number(flow.iss, 6)),
            "gsr" => Some(Value::Number(flow.gsr.unwrap_or_default().value(), 6)),
            "sport" => Some(Value::Number(flow.place.port.into(), 2)),
            "dport" => Some(Value::Number(self.target.port.into(), 2)),
            "service" => Some(Value::Number(self.target.service.into(), 4)),
            "address" => Some(Value::Bytes(match flow.place.address {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            })),
            _ => None,
        };
        let (first, rest) = name.split_once('.').unwrap_or((name, ""));
        match (self.names.get(first), rest) {
            (Some(Bound::Value(value)), "") => Ok(value.clone()),
            (Some(Bound::Packet(packet)), rest) if !rest.is_empty() => {
                packet.field(rest).ok_or(format!("${first} has no {rest}: {packet}"))
            }
            _ => builtin.ok_or(format!("unknown variable ${name}")),
        }
    }

    fn random(&self, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes.min(1024)];
        // Ignore an error, which cannot occur on supported systems. The bytes would then be zeros, so scripts
        // would only vary less.
        let _ = rustix::rand::getrandom(&mut found[..], rustix::rand::GetRandomFlags::empty());
        found
    }
}

impl<'a> Runner<'a> {
    fn flow(&mut self, name: &str) -> Result<(), String> {
        let known = self.flows.iter().position(|f| f.name == name);
        self.current = match known {
            Some(known) => known,
            None => {
                let place = self.net.open().map_err(|e| format!("cannot open a flow: {e}"))?;
                let iss = Seq::new(crate::value::read(&self.random(6))).value();
                self.flows.push(Flow {
                    name: name.into(),
                    place,
                    next: iss,
                    iss,
                    gsr: None,
                    ended: false,
                    confirms: None,
                });
                self.flows.len() - 1
            }
        };
        Ok(())
    }

    fn step(&mut self, step: &'a Step) -> Result<(), String> {
        match &step.action {
            Action::Flow(name) => self.flow(name)?,
            Action::Let(name, expr) => {
                let value = expr.value(self)?;
                self.names.insert(name.clone(), Bound::Value(value));
            }
            Action::Send(send) => self.send(send)?,
            Action::Expect(wanted, within, name) => {
                let wait = within.map_or(self.target.wait, |w| w.max(self.target.wait));
                let packet = self.expect(wanted, wait)?;
                if let Some(name) = name {
                    self.names.insert(name.clone(), Bound::Packet(packet));
                }
            }
            Action::Quiet(unwanted, time) => {
                let until = self.net.now() + *time;
                while self.receive(until)? {}
                if let Some(at) = self.find(unwanted)? {
                    return Err(format!("unexpected packet: {}", self.inbox[at].1));
                }
            }
            Action::Never(_) | Action::Every(..) | Action::Whenever(..) => {
                self.rules.push((self.current, step))
            }
            Action::Wait(time) => {
                let until = self.net.now() + *time;
                while self.receive(until)? {}
            }
            Action::Check(expr, pattern) => {
                let value = expr.value(self)?;
                // Use the width of a sequence number, 48 bits, so that differences of sequence numbers wrap
                // correctly.
                if !pattern.fits(&value, 6, self)? {
                    return Err(format!("the value is {value}"));
                }
            }
            Action::Skip(count) => {
                let count = count.value(self)?.number()?;
                let flow = &mut self.flows[self.current];
                flow.next = Seq::new(flow.next).add(count).value();
            }
            Action::Start(number) => {
                let number = Seq::new(number.value(self)?.number()?).value();
                let flow = &mut self.flows[self.current];
                (flow.next, flow.iss) = (number, number);
            }
            Action::Forget => self.inbox.clear(),
            Action::Negotiate => self.flows[self.current].confirms = Some(Vec::new()),
        }
        Ok(())
    }

    /// Returns the next packet of a flow, with the default value of each field.
    fn packet(&self, flow: usize, ptype: PacketType) -> Outgoing {
        let flow = &self.flows[flow];
        Outgoing {
            ptype,
            ports: (flow.place.port, self.target.port),
            seq: flow.next,
            ack: flow.gsr.unwrap_or_default().value(),
            service: self.target.service,
            reset: [0; 4],
            cc: (0, 0),
            extended: true,
            offset: None,
            kind: None,
            options: Vec::new(),
            data: Vec::new(),
        }
    }

    fn send(&mut self, send: &Send) -> Result<(), String> {
        for i in 1..=send.times {
            self.names.insert("i".into(), Bound::Value(Value::Number(i, 0)));
            let number = |expr: &Expr| expr.value(self)?.number();
            let mut out = self.packet(self.current, send.ptype);
            let (mut counted, mut cut, mut damage) = (true, None, 0);
            for (field, expr) in &send.fields {
                let place = ["code", "data1", "data2", "data3"].iter().position(|name| name == field);
                match field.as_str() {
                    "data" => out.data = expr.value(self)?.bytes(0)?,
                    "seq" => (out.seq, counted) = (number(expr)?, false),
                    "ack" => out.ack = number(expr)?,
                    "service" => out.service = number(expr)? as u32,
                    "sport" => out.ports.0 = number(expr)? as u16,
                    "dport" => out.ports.1 = number(expr)? as u16,
                    "ccval" => out.cc.0 = number(expr)? as u8,
                    "cscov" => out.cc.1 = number(expr)? as u8,
                    "x" => out.extended = number(expr)? != 0,
                    "offset" => out.offset = Some(number(expr)? as u8),
                    "type" => out.kind = Some(number(expr)? as u8),
                    "cut" => cut = Some(number(expr)? as usize),
                    "badsum" => damage = number(expr)? as u8,
                    _ => match place {
                        Some(place) => out.reset[place] = number(expr)? as u8,
                        None => return Err(format!("`{field}` cannot be set")),
                    },
                }
            }
            for (name, arguments) in &send.options {
                let values = arguments.iter().map(|a| a.value(self)).collect::<Result<Vec<_>, _>>()?;
                out.options.extend(option::write(name, &values)?);
            }
            // Confirms are sent only on packets with an Acknowledgement Number (RFC 4340 section 6.2).
            if out.ptype.has_ack() && !matches!(out.ptype, PacketType::Reset | PacketType::Sync) {
                let confirms = self.flows[self.current].confirms.as_mut().map(std::mem::take);
                out.options.splice(..0, confirms.unwrap_or_default());
            }
            let mut bytes = out.bytes();
            bytes.truncate(cut.unwrap_or(bytes.len()));
            let seen = Packet::read_sent(&bytes, self.net.now().as_millis() as u64);
            let text =
                seen.as_ref().map_or_else(|e| format!("{} bytes: {e}", bytes.len()), ToString::to_string);
            self.note('>', self.current, &text);
            if let (Some(name), Ok(packet)) = (&send.name, seen) {
                self.names.insert(name.clone(), Bound::Packet(packet));
            }
            let flow = &mut self.flows[self.current];
            if counted {
                flow.next = Seq::new(flow.next).next().value();
            }
            flow.ended |=
                send.ptype == PacketType::Reset && send.fields.iter().all(|(f, _)| f != "seq" && f != "ack");
            self.net.send(self.current, bytes, damage).map_err(|e| format!("cannot send: {e}"))?;
        }
        Ok(())
    }

    fn note(&mut self, way: char, flow: usize, text: &str) {
        let line = format!("{:7.3} {} {way} {text}", self.net.now().as_secs_f64(), self.flows[flow].name);
        self.trace.push(line);
    }

    fn expect(&mut self, wanted: &Match, wait: Duration) -> Result<Packet, String> {
        let until = self.net.now() + wait;
        loop {
            if let Some(at) = self.find(wanted)? {
                return Ok(self.inbox.remove(at).1);
            }
            if !self.receive(until)? {
                return Err(format!("no matching packet arrived within {:.1} s", wait.as_secs_f64()));
            }
        }
    }

    fn find(&self, wanted: &Match) -> Result<Option<usize>, String> {
        for (at, (flow, packet)) in self.inbox.iter().enumerate() {
            if (wanted.anywhere || *flow == self.current) && self.fits(wanted, packet)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn fits(&self, wanted: &Match, packet: &Packet) -> Result<bool, String> {
        if !wanted.types.is_empty() && !wanted.types.contains(&packet.ptype) {
            return Ok(false);
        }
        for (name, pattern) in &wanted.fields {
            let field = packet.fields.iter().find(|f| f.0 == name);
            let fit = field.map(|(_, width, value)| pattern.fits(value, *width, self)).transpose()?;
            if fit != Some(true) {
                return Ok(false);
            }
        }
        for (positive, name, patterns) in &wanted.options {
            let mut found = false;
            for option in packet.options.iter().filter(|o| o.name == name) {
                let mut all = true;
                for ((_, width, value), pattern) in option.fields.iter().zip(patterns) {
                    all &= pattern.fits(value, *width, self)?;
                }
                found |= all;
            }
            if found != *positive {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Receives one packet. Returns false if none arrives before `until`.
    fn receive(&mut self, until: Duration) -> Result<bool, String> {
        let received = self.net.receive(until).map_err(|e| format!("cannot receive: {e}"))?;
        let Some((flow, bytes)) = received else { return Ok(false) };
        let packet = match Packet::read(&bytes, self.net.now().as_millis() as u64) {
            Ok(packet) => packet,
            Err(e) => {
                self.note('<', flow, &e);
                return Err(e);
            }
        };
        self.note('<', flow, &packet.to_string());
        self.see(flow, &packet);
        let (current, it) = (self.current, self.names.remove("it"));
        self.current = flow;
        self.names.insert("it".into(), Bound::Packet(packet.clone()));
        let outcome = self.negotiate(&packet).and_then(|()| self.obey(flow, &packet));
        self.current = current;
        self.names.remove("it");
        self.names.extend(it.map(|it| ("it".to_string(), it)));
        self.inbox.push((flow, packet));
        outcome.map(|()| true)
    }

    /// Accepts the Change options of a packet. During the handshake, the script's next packet carries the
    /// Confirm options; later, they leave immediately in an Ack.
    fn negotiate(&mut self, packet: &Packet) -> Result<(), String> {
        let Some(confirms) = &mut self.flows[self.current].confirms else { return Ok(()) };
        confirms.extend(packet.options.iter().filter_map(option::agree).flatten());
        let waits = confirms.is_empty() || packet.ptype == PacketType::Response;
        if waits {
            Ok(())
        } else {
            self.send(&Send {
                ptype: PacketType::Ack,
                fields: Vec::new(),
                options: Vec::new(),
                name: None,
                times: 1,
            })
        }
    }

    /// Updates the greatest sequence number received on a flow.
    fn see(&mut self, flow: usize, packet: &Packet) {
        let flow = &mut self.flows[flow];
        flow.ended |= packet.ptype == PacketType::Reset;
        let Some(number) = packet.number("seq") else { return };
        let seq = match (packet.number("x"), flow.gsr) {
            (Some(0), Some(gsr)) => Seq::extend(number as u32, gsr),
            _ => Seq::new(number),
        };
        if packet.ptype != PacketType::Reset && flow.gsr.is_none_or(|gsr| seq.after(gsr)) {
            flow.gsr = Some(seq);
        }
    }

    /// Applies the `never`, `every` and `whenever` steps to a received packet.
    fn obey(&mut self, flow: usize, packet: &Packet) -> Result<(), String> {
        for (owner, step) in self.rules.clone() {
            let meant = |wanted: &Match| wanted.anywhere || owner == flow;
            match &step.action {
                Action::Never(unwanted) if meant(unwanted) && self.fits(unwanted, packet)? => {
                    return Err(format!("{} `{}` is violated by: {packet}", step.place, step.text));
                }
                Action::Every(which, wanted)
                    if meant(which) && self.fits(which, packet)? && !self.fits(wanted, packet)? =>
                {
                    return Err(format!("{} `{}` is violated by: {packet}", step.place, step.text));
                }
                Action::Whenever(which, send) if meant(which) && self.fits(which, packet)? => {
                    self.send(send)?
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Resets the connections that are still open, so that the target does not keep their state.
    fn leave(&mut self) {
        for at in 0..self.flows.len() {
            if self.flows[at].ended || self.flows[at].gsr.is_none() {
                continue;
            }
            let reset = Outgoing { reset: [2, 0, 0, 0], ..self.packet(at, PacketType::Reset) };
            // Ignore errors: the test's result is already known.
            let _ = self.net.send(at, reset.bytes(), 0);
            self.note('>', at, "Reset (end of the test)");
        }
    }
}
