//! The known CCIDs. Names, negotiation, feedback, ECN marks and the values that programs accept all follow
//! from this table. To add a congestion control that uses Ack Vectors, write a file with its
//! [`Controller`](dccp_cc::Controller) and add a line here.

use crate::Ecn;
use alloc::boxed::Box;
use dccp_cc::{Bbr1, Bbr3, CcConfig, Controller, Cubic, Prague, Reno};

/// One congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Ccid {
    /// Number of the CCID in negotiations (RFC 4340 section 10).
    pub number: u8,
    /// Display name.
    pub name: &'static str,
    pub(crate) engine: Engine,
}

/// The kind of halves that a CCID uses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Engine {
    /// The receiver reports arrivals in Ack Vectors, and a controller sets the sending limits.
    AckVectors(AckVectors),
    /// The receiver reports loss intervals and the receive rate (RFC 4342, RFC 5622).
    Tfrc { small_packets: bool },
}

/// A congestion control that uses Ack Vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckVectors {
    pub(crate) controller: fn(&CcConfig) -> Box<dyn Controller>,
    /// Whether the CCID follows RFC 4341 in everything but the congestion controller: it counts packets,
    /// takes one RTT sample per window, and derives the Ack Ratio from lost acknowledgements.
    pub(crate) strict: bool,
    /// ECN field of its packets.
    pub(crate) ecn: Ecn,
}

impl AckVectors {
    pub(crate) const fn new(controller: fn(&CcConfig) -> Box<dyn Controller>) -> AckVectors {
        AckVectors { controller, strict: false, ecn: Ecn::Ect0 }
    }
}

const fn by_vectors(
    number: u8,
    name: &'static str,
    controller: fn(&CcConfig) -> Box<dyn Controller>,
) -> Ccid {
    Ccid { number, name, engine: Engine::AckVectors(AckVectors::new(controller)) }
}

const fn tfrc(number: u8, name: &'static str, small_packets: bool) -> Ccid {
    Ccid { number, name, engine: Engine::Tfrc { small_packets } }
}

/// CCID 2.
const TCP_LIKE: AckVectors = AckVectors { strict: true, ..AckVectors::new(|cfg| Box::new(Reno::new(cfg))) };
/// L4S (RFC 9331): packets carry ECT(1).
const L4S: AckVectors = AckVectors { ecn: Ecn::Ect1, ..AckVectors::new(|cfg| Box::new(Prague::new(cfg))) };

/// All CCIDs. Number 5 is from an Internet-Draft, 7 is this project's own, and 248 to 254 are for experiments
/// (RFC 4340 section 19.5).
pub const CCIDS: [Ccid; 7] = [
    Ccid { number: 2, name: "TCP-like", engine: Engine::AckVectors(TCP_LIKE) },
    tfrc(3, "TFRC", false),
    tfrc(4, "TFRC for small packets", true),
    by_vectors(5, "BBR", |cfg| Box::new(Bbr1::new(cfg))),
    by_vectors(7, "CUBIC", |cfg| Box::new(Cubic::new(cfg))),
    by_vectors(250, "BBRv3", |cfg| Box::new(Bbr3::new(cfg))),
    Ccid { number: 252, name: "Prague (L4S)", engine: Engine::AckVectors(L4S) },
];

/// Returns the entry with this number.
pub fn find(number: u8) -> Option<&'static Ccid> {
    CCIDS.iter().find(|ccid| ccid.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_only_once() {
        assert!(CCIDS.windows(2).all(|pair| pair[0].number < pair[1].number));
    }
}
