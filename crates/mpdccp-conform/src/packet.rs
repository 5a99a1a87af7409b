//! The packets that scripts send and receive. This file has its own header codec instead of the stack's
//! codec, for two reasons. Scripts send headers that the stack must reject. And two independent
//! implementations of RFC 4340 section 5.1 check each other.

use crate::option::{self, Opt};
use crate::value::{Value, read as number};
use dccp_wire::PacketType;

/// Returns the packet type with this name, which is that of RFC 4340 section 5.1 or RFC 5596.
pub fn ptype(name: &str) -> Option<PacketType> {
    (0..=10).map(PacketType::from_number).find(|ptype| format!("{ptype:?}") == name)
}

/// A packet to send. Numbers too large for their field are truncated.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The packet type, which determines the packet's fields.
    pub ptype: PacketType,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence Number.
    pub seq: u64,
    /// Acknowledgement Number; ignored if the type has none.
    pub ack: u64,
    /// Service Code; ignored if the type has none.
    pub service: u32,
    /// Reset Code, Data 1, Data 2 and Data 3.
    pub reset: [u8; 4],
    /// CCVal and CsCov.
    pub cc: (u8, u8),
    /// Whether Sequence Numbers are extended.
    pub extended: bool,
    /// If set, this Data Offset is written instead of the correct one.
    pub offset: Option<u8>,
    /// If set, this number is written instead of the number of the type.
    pub kind: Option<u8>,
    /// The options, without padding.
    pub options: Vec<u8>,
    /// Application data.
    pub data: Vec<u8>,
}

impl Outgoing {
    /// Encodes the packet with a checksum of zero.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.ports.0.to_be_bytes());
        out.extend(self.ports.1.to_be_bytes());
        out.extend([0, self.cc.0 << 4 | self.cc.1 & 15, 0, 0]);
        let kind = self.kind.unwrap_or(self.ptype.number());
        let wide = |n: u64| n.to_be_bytes()[2..].to_vec();
        let narrow = |n: u64| n.to_be_bytes()[5..].to_vec();
        if self.extended {
            out.extend([kind << 1 | 1, 0]);
            out.extend(wide(self.seq));
        } else {
            out.push(kind << 1);
            out.extend(narrow(self.seq));
        }
        if self.ptype.has_ack() {
            if self.extended {
                out.extend([0, 0]);
                out.extend(wide(self.ack));
            } else {
                out.push(0);
                out.extend(narrow(self.ack));
            }
        }
        if self.ptype.has_service_code() {
            out.extend(self.service.to_be_bytes());
        }
        if self.ptype == PacketType::Reset {
            out.extend(self.reset);
        }
        out.extend(&self.options);
        out.resize(out.len().next_multiple_of(4), 0);
        out[4] = self.offset.unwrap_or((out.len() / 4) as u8);
        out.extend(&self.data);
        out
    }
}

/// A parsed packet.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Packet type.
    pub ptype: PacketType,
    /// The name, the width in bytes and the value of each header field.
    pub fields: Vec<(&'static str, usize, Value)>,
    /// The options in packet order, without padding.
    pub options: Vec<Opt>,
}

/// The names of the header fields in scripts.
pub const FIELDS: &[&str] = &[
    "sport", "dport", "ccval", "cscov", "x", "seq", "ack", "service", "code", "data1", "data2", "data3",
    "data", "len", "time",
];

impl Packet {
    /// Parses a packet that arrived at `time` ms. Returns an error for a packet that no implementation may
    /// send.
    pub fn read(bytes: &[u8], time: u64) -> Result<Packet, String> {
        Packet::with_options(bytes, time, option::read)
    }

    /// Parses a packet sent by a script. Its options may be invalid.
    pub fn read_sent(bytes: &[u8], time: u64) -> Result<Packet, String> {
        Packet::with_options(bytes, time, |area| Ok(option::read(area).unwrap_or_default()))
    }

    fn with_options(
        bytes: &[u8],
        time: u64,
        options: impl Fn(&[u8]) -> Result<Vec<Opt>, String>,
    ) -> Result<Packet, String> {
        let short = || format!("packet of {} bytes is shorter than its header", bytes.len());
        let at = |from: usize, width: usize| bytes.get(from..from + width).map(number).ok_or_else(short);
        let ptype = PacketType::from_number((at(8, 1)? >> 1) as u8);
        if let PacketType::Reserved(n) = ptype {
            return Err(format!("a packet has the reserved type {n}"));
        }
        let extended = at(8, 1)? & 1 == 1;
        if !extended && !ptype.allows_short() {
            return Err(format!("a {ptype:?} has short sequence numbers"));
        }
        let mut fields: Vec<(&'static str, usize, Value)> = Vec::new();
        let mut put = |name, width, value| fields.push((name, width, Value::Number(value, width)));
        put("time", 0, time);
        put("sport", 2, at(0, 2)?);
        put("dport", 2, at(2, 2)?);
        put("ccval", 1, at(5, 1)? >> 4);
        put("cscov", 1, at(5, 1)? & 15);
        put("x", 1, extended.into());
        let (width, mut end) = if extended { (6, 16) } else { (3, 12) };
        put("seq", width, at(end - width, width)?);
        if ptype.has_ack() {
            end += if extended { 8 } else { 4 };
            put("ack", width, at(end - width, width)?);
        }
        if ptype.has_service_code() {
            put("service", 4, at(end, 4)?);
            end += 4;
        }
        if ptype == PacketType::Reset {
            for (i, name) in ["code", "data1", "data2", "data3"].into_iter().enumerate() {
                put(name, 1, at(end + i, 1)?);
            }
            end += 4;
        }
        let offset = at(4, 1)? as usize * 4;
        let area =
            bytes.get(end..offset).ok_or(format!("Data Offset {} does not fit the packet", offset / 4))?;
        let data = bytes[offset..].to_vec();
        put("len", 0, data.len() as u64);
        fields.push(("data", 0, Value::Bytes(data)));
        Ok(Packet { ptype, fields, options: options(area)? })
    }

    /// Returns a value of the packet. `path` is the name of a header field, `option.field`, or `option` alone
    /// for the option's bytes. Of several options with the same name, the first is used.
    pub fn field(&self, path: &str) -> Option<Value> {
        let of = |fields: &[(&str, usize, Value)], name: &str| {
            fields.iter().find(|f| f.0 == name).map(|f| f.2.clone())
        };
        let option = |name: &str| self.options.iter().find(|o| o.name == name);
        match path.split_once('.') {
            Some((name, field)) => of(&option(name)?.fields, field),
            None => of(&self.fields, path).or_else(|| Some(Value::Bytes(option(path)?.bytes.clone()))),
        }
    }

    /// Returns a header field as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.number().ok()
    }
}

impl std::fmt::Display for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.ptype)?;
        for (name, _, value) in &self.fields {
            let idle = matches!(
                (*name, value),
                ("ccval" | "cscov" | "data1" | "data2" | "data3", Value::Number(0, _))
            );
            let usual = matches!((*name, value), ("x", Value::Number(1, _)))
                || matches!(*name, "time" | "sport" | "dport" | "len");
            let empty = matches!(value, Value::Bytes(b) if b.is_empty());
            if !idle && !usual && !empty {
                write!(f, " {name}={value}")?;
            }
        }
        for option in &self.options {
            write!(f, " <{}", option.name)?;
            option.fields.iter().try_for_each(|(_, _, value)| write!(f, " {value}"))?;
            f.write_str(">")?;
        }
        Ok(())
    }
}
