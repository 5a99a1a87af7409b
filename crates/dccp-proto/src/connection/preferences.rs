//! Determines which features a connection negotiates, from its settings.

use crate::ccid;
use crate::features::{Negotiator, Side};
use crate::{CcOptions, Config};
use alloc::vec::Vec;
use dccp_wire::feature;

/// Longest preference list we send.
const MAX_PREFS: usize = 32;

fn usable(ccids: &[u8], cc: &CcOptions) -> Vec<u64> {
    ccids.iter().filter(|c| ccid::is_usable(**c, cc)).take(MAX_PREFS).map(|c| u64::from(*c)).collect()
}

/// Creates a negotiator with the features that this end understands, its preferences, and the Changes to send
/// in its first packet.
pub(super) fn negotiator(cfg: &Config, is_server: bool) -> Negotiator {
    use Side::{Local, Remote};
    let mut n = Negotiator::new(is_server);
    let boolean = |on: bool| if on { [1, 0] } else { [0, 1] };

    let (tx, rx) = (usable(&cfg.tx_ccids, &cfg.cc), usable(&cfg.rx_ccids, &cfg.cc));
    for (side, ccids) in [(Local, &tx), (Remote, &rx)] {
        n.add(feature::CCID, side, ccids);
        // RFC 4340 section 10: an end that does not accept CCID 2 sends its Change with Mandatory. A client
        // always states its preference, so that the server need not ask for it. A server that prefers CCID 2
        // states nothing, because clients accept CCID 2 by default.
        if !is_server || ccids.first() != Some(&2) {
            n.change(feature::CCID, side, ccids, !ccids.contains(&2));
        }
    }

    n.add(feature::SEND_ACK_VECTOR, Local, &[1, 0]);
    n.add(feature::SEND_ACK_VECTOR, Remote, &[1, 0]);
    let needs = |ccids: &[u64]| ccids.iter().all(|c| u8::try_from(*c).is_ok_and(ccid::needs_ack_vector));
    if !is_server && needs(&tx) {
        n.change(feature::SEND_ACK_VECTOR, Remote, &[1], true);
    }

    n.add(feature::SEQUENCE_WINDOW, Local, &[]);
    n.add(feature::SEQUENCE_WINDOW, Remote, &[]);
    if cfg.seq_window != 100 {
        n.change(feature::SEQUENCE_WINDOW, Local, &[cfg.seq_window.clamp(32, (1 << 46) - 1)], false);
    }

    n.add(feature::ACK_RATIO, Local, &[]);
    n.add(feature::ACK_RATIO, Remote, &[]);
    if cfg.ack_ratio != 2 {
        n.change(feature::ACK_RATIO, Local, &[cfg.ack_ratio.into()], false);
    }

    // An end that cannot read ECN bits accepts only the value 1.
    n.add(feature::ECN_INCAPABLE, Local, if cfg.ecn { &[0, 1] } else { &[1] });
    n.add(feature::ECN_INCAPABLE, Remote, &[0, 1]);
    if !cfg.ecn {
        // RFC 4340 section 12.1: the request is mandatory.
        n.change(feature::ECN_INCAPABLE, Local, &[1], true);
    }

    // This end sends NDP Count if the peer requests it.
    n.add(feature::SEND_NDP_COUNT, Local, &[1, 0]);
    n.add(feature::SEND_NDP_COUNT, Remote, &boolean(cfg.ndp_count));
    if cfg.ndp_count {
        n.change(feature::SEND_NDP_COUNT, Remote, &[1, 0], false);
    }

    // If the peer permits short sequence numbers, this end accepts the permission; it requests permission
    // only if configured to. The peer may send short sequence numbers if our settings permit them.
    n.add(feature::ALLOW_SHORT_SEQNOS, Local, &[1, 0]);
    if cfg.short_seqnos {
        n.change(feature::ALLOW_SHORT_SEQNOS, Local, &[1, 0], false);
    }
    if cfg.allow_short_seqnos {
        n.add(feature::ALLOW_SHORT_SEQNOS, Remote, &[1, 0]);
        n.change(feature::ALLOW_SHORT_SEQNOS, Remote, &[1, 0], false);
    } else {
        n.add(feature::ALLOW_SHORT_SEQNOS, Remote, &[0]);
    }

    // This feature is located at the receiver of the data, which accepts more coverage than its application
    // needs, but not less.
    let from =
        |least: u8| (1..=15).filter(move |coverage| least > 0 && *coverage >= u64::from(least)).chain([0]);
    n.add(feature::MIN_CHECKSUM_COVERAGE, Local, &from(cfg.min_coverage).collect::<Vec<u64>>());
    let coverage = u64::from(cfg.coverage.min(15));
    if coverage > 0 {
        let down: Vec<u64> = (0..=coverage).rev().collect();
        n.add(feature::MIN_CHECKSUM_COVERAGE, Remote, &down);
        n.change(feature::MIN_CHECKSUM_COVERAGE, Remote, &down, false);
    } else {
        n.add(feature::MIN_CHECKSUM_COVERAGE, Remote, &(0..=15).collect::<Vec<u64>>());
    }

    // This end verifies the Data Checksum of every packet that has one, so it accepts either value.
    n.add(feature::CHECK_DATA_CHECKSUM, Local, &[1, 0]);
    n.add(feature::CHECK_DATA_CHECKSUM, Remote, &boolean(cfg.check_data_checksum));
    if cfg.check_data_checksum {
        n.change(feature::CHECK_DATA_CHECKSUM, Remote, &[1, 0], false);
    }

    // Only CCIDs 3 and 4 use this feature. It is located at the receiver of the data.
    let tfrc = |ccids: &[u64]| ccids.iter().any(|c| u8::try_from(*c).is_ok_and(ccid::is_tfrc));
    for (side, ccids) in [(Local, &rx), (Remote, &tx)] {
        if tfrc(ccids) {
            n.add(feature::SEND_LOSS_EVENT_RATE, side, &[1, 0]);
        }
    }

    // This feature is located at the receiver of the data. The draft variant of a CCID does not use it.
    let uses = |ccids: &[u64]| ccids.iter().any(|c| u8::try_from(*c).is_ok_and(ccid::uses_timestamps));
    for (side, uses) in [(Local, uses(&rx)), (Remote, uses(&tx) && !cfg.cc.draft)] {
        if uses {
            n.add(feature::SEND_TIMESTAMPS, side, &[1, 0]);
        }
    }

    // RFC 9897 section 3.1: this feature is located at the server, and the client requests it. The high
    // nibble is version 0.
    if cfg.multipath {
        let side = multipath_side(is_server);
        n.add(feature::MULTIPATH_CAPABLE, side, &[0]);
        if !is_server {
            n.change(feature::MULTIPATH_CAPABLE, side, &[0], false);
        }
    }
    n.shrink();
    n
}

/// Returns the end at which Multipath Capable is located, which is the server.
pub(super) fn multipath_side(is_server: bool) -> Side {
    if is_server { Side::Local } else { Side::Remote }
}

/// Requests the features that the CCIDs need, once the CCIDs are known.
///
/// - RFC 4341 section 4: a sender that needs Ack Vectors requests them from the receiver of its data.
///
/// - RFC 4342 sections 8.4 and 6.1: a TFRC sender requests Loss Event Rate, in case the peer sends no Loss
///   Intervals. A TFRC receiver requests NDP Count, to distinguish lost data from lost Acks.
///
/// - A sender that measures the delay of each direction requests Timestamps.
pub(super) fn depend(n: &mut Negotiator) {
    let is = |n: &Negotiator, side, what: fn(u8) -> bool| {
        u8::try_from(n.value(feature::CCID, side)).is_ok_and(what)
    };
    if is(n, Side::Local, ccid::needs_ack_vector) && !n.is_on(feature::SEND_ACK_VECTOR, Side::Remote) {
        n.change(feature::SEND_ACK_VECTOR, Side::Remote, &[1], true);
    }
    if is(n, Side::Local, ccid::is_tfrc) {
        n.ask_once(feature::SEND_LOSS_EVENT_RATE, Side::Remote);
    }
    if is(n, Side::Local, ccid::uses_timestamps) {
        n.ask_once(feature::SEND_TIMESTAMPS, Side::Remote);
    }
    if is(n, Side::Remote, ccid::is_tfrc) {
        n.ask_once(feature::SEND_NDP_COUNT, Side::Remote);
    }
}
