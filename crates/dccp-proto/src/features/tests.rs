use super::{Error, Moment, Negotiator, Side};
use alloc::vec::Vec;
use dccp_wire::feature::{
    ACK_RATIO, ALLOW_SHORT_SEQNOS, CCID, MULTIPATH_CAPABLE, SEND_ACK_VECTOR, SEQUENCE_WINDOW,
};
use dccp_wire::{Opt, OptionBuf, Options, Seq};

const CLIENT: bool = false;
const SERVER: bool = true;

fn one(is_server: bool, number: u8, side: Side, prefs: &[u64]) -> Negotiator {
    let mut n = Negotiator::new(is_server);
    n.add(number, side, prefs);
    n
}

/// Reads the options of a packet in order.
fn read(n: &mut Negotiator, seq: u64, ack: Option<u64>, bytes: &[u8]) -> Result<(), Error> {
    let order = n.order(Seq::new(seq), ack.map(Seq::new));
    let mut mandatory = false;
    for option in Options::new(bytes) {
        let option = option.unwrap();
        if option == Opt::Mandatory {
            mandatory = true;
            continue;
        }
        n.handle(order, &option, mandatory)?;
        mandatory = false;
    }
    n.note(Seq::new(seq));
    Ok(())
}

fn written(n: &mut Negotiator, moment: Moment, seq: u64) -> Vec<u8> {
    let mut out = OptionBuf::new();
    n.write(moment, Seq::new(seq), &mut out);
    out.as_bytes().to_vec()
}

/// Exchanges the options of `client` and `server` until neither has anything to send.
fn settle(client: &mut Negotiator, server: &mut Negotiator) {
    for seq in 1..6 {
        let said = written(client, Moment::Established, seq);
        read(server, seq, Some(100 + seq - 1), &said).unwrap();
        let said = written(server, Moment::Established, 100 + seq);
        read(client, 100 + seq, Some(seq), &said).unwrap();
    }
    assert!(!client.wants_to_write() && !server.wants_to_write());
}

#[test]
fn server_priority_takes_the_servers_first_that_the_client_has() {
    // The server's list, the client's list, and the result. The initial value is 2.
    let table: [(&[u64], &[u64], u64); 8] = [
        (&[3, 2, 1], &[2, 3, 1], 3),
        (&[2, 3], &[3, 2], 2),
        (&[5, 2], &[2, 5], 5),
        (&[5], &[5], 5),
        (&[9, 7, 5], &[1, 5, 7], 7),
        (&[3], &[4], 2),
        (&[250, 5, 2], &[2], 2),
        (&[2], &[7, 5, 2], 2),
    ];
    for (server, client, value) in table {
        for opener in [CLIENT, SERVER] {
            for at_server in [true, false] {
                let (c_side, s_side) =
                    if at_server { (Side::Remote, Side::Local) } else { (Side::Local, Side::Remote) };
                let mut c = one(CLIENT, CCID, c_side, client);
                let mut s = one(SERVER, CCID, s_side, server);
                match opener {
                    CLIENT => c.change(CCID, c_side, client, false),
                    SERVER => s.change(CCID, s_side, server, false),
                }
                settle(&mut c, &mut s);
                let values = (c.value(CCID, c_side), s.value(CCID, s_side));
                assert_eq!(values, (value, value), "server {server:?}, client {client:?}");
                assert!(!c.is_changing() && !s.is_changing());
            }
        }
    }
}

#[test]
fn simultaneous_negotiation_agrees() {
    // RFC 4340 section 6.5, last example: both Changes are sent before either arrives.
    let mut c = one(CLIENT, CCID, Side::Remote, &[2, 3, 1]);
    let mut s = one(SERVER, CCID, Side::Local, &[3, 2, 1]);
    c.change(CCID, Side::Remote, &[2, 3, 1], false);
    s.change(CCID, Side::Local, &[3, 2, 1], false);
    let from_c = written(&mut c, Moment::Established, 1);
    let from_s = written(&mut s, Moment::Established, 101);
    read(&mut s, 1, Some(100), &from_c).unwrap();
    read(&mut c, 101, Some(0), &from_s).unwrap();
    assert_eq!((c.value(CCID, Side::Remote), s.value(CCID, Side::Local)), (3, 3));
    // RFC 4340 section 6.6.6: the peer's Change answers ours.
    assert!(!c.is_changing() && !s.is_changing());
    let from_c = written(&mut c, Moment::Established, 2);
    let from_s = written(&mut s, Moment::Established, 102);
    assert_eq!(from_c, [35, 7, 1, 3, 2, 3, 1]);
    assert_eq!(from_s, [33, 7, 1, 3, 3, 2, 1]);
    read(&mut s, 2, Some(101), &from_c).unwrap();
    read(&mut c, 102, Some(1), &from_s).unwrap();
    assert!(!c.is_changing() && !s.is_changing());
}

#[test]
fn options_look_as_in_the_rfc() {
    // RFC 4340 section 6.5: byte encodings of the examples.
    let mut n = one(CLIENT, CCID, Side::Local, &[2, 3]);
    n.change(CCID, Side::Local, &[2, 3], false);
    assert_eq!(written(&mut n, Moment::Request, 1), [32, 5, 1, 2, 3]);
    let mut n = one(CLIENT, SEQUENCE_WINDOW, Side::Local, &[]);
    n.change(SEQUENCE_WINDOW, Side::Local, &[1024], true);
    assert_eq!(written(&mut n, Moment::Request, 1), [1, 32, 9, 3, 0, 0, 0, 0, 4, 0]);
    let mut n = one(SERVER, SEQUENCE_WINDOW, Side::Remote, &[]);
    read(&mut n, 1, None, &[32, 9, 3, 0, 0, 0, 0, 4, 0]).unwrap();
    assert_eq!(n.value(SEQUENCE_WINDOW, Side::Remote), 1024);
    assert_eq!(written(&mut n, Moment::Established, 1), [35, 9, 3, 0, 0, 0, 0, 4, 0]);
    assert_eq!(written(&mut n, Moment::Established, 2), []);
}

#[test]
fn non_negotiable_follows_its_location() {
    let mut n = one(SERVER, ACK_RATIO, Side::Remote, &[]);
    // These Changes are invalid: one has a wrong length, the other has two values.
    for bad in [&[32, 4, 5, 7][..], &[32, 7, 5, 0, 7, 0, 8]] {
        let mut n = n.clone();
        read(&mut n, 1, None, bad).unwrap();
        assert_eq!(written(&mut n, Moment::Established, 1), [35, 3, 5]);
        assert_eq!(n.value(ACK_RATIO, Side::Remote), 2);
        let mandatory = [&[1][..], bad].concat();
        assert_eq!(read(&mut n, 2, None, &mandatory), Err(Error::Mandatory));
    }
    read(&mut n, 1, None, &[32, 5, 5, 0, 7]).unwrap();
    assert_eq!(n.value(ACK_RATIO, Side::Remote), 7);
    // These Changes are invalid: one is out of range (Wmin is 32), and the other is a Change R, which is not
    // allowed for this feature.
    let mut n = one(SERVER, SEQUENCE_WINDOW, Side::Remote, &[]);
    n.add(SEQUENCE_WINDOW, Side::Local, &[]);
    read(&mut n, 1, None, &[32, 9, 3, 0, 0, 0, 0, 0, 31, 34, 9, 3, 0, 0, 0, 0, 4, 0]).unwrap();
    assert_eq!(written(&mut n, Moment::Established, 1), [35, 3, 3, 33, 3, 3]);
    assert_eq!(n.value(SEQUENCE_WINDOW, Side::Remote), 100);
    assert_eq!(n.value(SEQUENCE_WINDOW, Side::Local), 100);
    // This end does not send such Changes either.
    n.change(SEQUENCE_WINDOW, Side::Remote, &[64], false);
    n.change(SEQUENCE_WINDOW, Side::Local, &[31], false);
    n.change(SEQUENCE_WINDOW, Side::Local, &[64, 65], false);
    assert!(!n.wants_to_write());
}

#[test]
fn unknown_features_are_refused_or_fatal() {
    let mut n = Negotiator::new(SERVER);
    read(&mut n, 1, None, &[32, 4, 126, 1, 34, 4, 127, 1, 34, 4, 127, 2, 33, 4, 99, 1]).unwrap();
    assert_eq!(written(&mut n, Moment::Established, 1), [35, 3, 126, 33, 3, 127]);
    assert_eq!(read(&mut n, 2, None, &[1, 34, 4, 127, 1]), Err(Error::Mandatory));
    // However many unknown options arrive, the number of answers is bounded.
    for feature in 11..=255u8 {
        read(&mut n, 3, Some(2), &[32, 4, feature, 1]).unwrap();
    }
    assert!(written(&mut n, Moment::Established, 1).len() <= 16 * 3);
}

#[test]
fn mandatory_without_a_shared_value_is_fatal() {
    let mut n = one(SERVER, CCID, Side::Remote, &[2]);
    assert_eq!(read(&mut n, 1, None, &[1, 32, 4, 1, 5]), Err(Error::Mandatory));
    // The feature options of a reordered packet are not processed, so there is no error
    // (RFC 4340 section 6.6.9).
    read(&mut n, 9, None, &[32, 4, 1, 2]).unwrap();
    assert_eq!(read(&mut n, 8, None, &[1, 32, 4, 1, 5]), Ok(()));
}

#[test]
fn confirms_are_checked() {
    let open = || {
        let mut n = one(CLIENT, CCID, Side::Local, &[5, 2]);
        n.change(CCID, Side::Local, &[5, 2], false);
        assert_eq!(written(&mut n, Moment::Request, 10), [32, 5, 1, 5, 2]);
        n
    };
    #[allow(clippy::type_complexity)]
    // An option and its result: the error, or the value and whether the negotiation is open.
    let table: [(&[u8], Result<(u64, bool), Error>); 9] = [
        (&[35, 6, 1, 2, 2, 5], Ok((2, false))),
        (&[35, 6, 1, 5, 5, 2], Ok((5, false))),
        (&[35, 5, 1, 2, 9], Ok((2, false))), // no common value: keep the old one
        (&[35, 4, 1, 5], Ok((5, false))),    // the peer's list is missing
        (&[35, 4, 1, 9], Err(Error::Invalid)),
        (&[35, 6, 1, 5, 2, 5], Err(Error::Invalid)), // the peer's list requires 2
        (&[35, 5, 1, 5, 9], Err(Error::Invalid)),
        (&[35, 3, 1], Err(Error::Invalid)), // an empty Confirm of a required feature
        (&[33, 4, 1, 5], Ok((2, true))),    // a feature of the peer that this end does not know
    ];
    for (option, meant) in table {
        let mut n = open();
        let result =
            read(&mut n, 1, Some(10), option).map(|()| (n.value(CCID, Side::Local), n.is_changing()));
        assert_eq!(result, meant, "{option:?}");
    }
    // A Confirm that we did not request is ignored, even if it is invalid.
    let mut n = one(CLIENT, CCID, Side::Local, &[5, 2]);
    read(&mut n, 1, Some(10), &[35, 4, 1, 9]).unwrap();
    assert_eq!(n.value(CCID, Side::Local), 2);
}

#[test]
fn an_empty_confirm_leaves_an_optional_feature_as_it_was() {
    let mut n = one(CLIENT, SEND_ACK_VECTOR, Side::Remote, &[1]);
    n.change(SEND_ACK_VECTOR, Side::Remote, &[1], false);
    written(&mut n, Moment::Request, 10);
    read(&mut n, 1, Some(10), &[33, 3, 6]).unwrap();
    assert!(!n.is_changing() && !n.is_on(SEND_ACK_VECTOR, Side::Remote));
    // If we require the feature, a refusal is an error.
    n.change(SEND_ACK_VECTOR, Side::Remote, &[1], true);
    written(&mut n, Moment::Established, 11);
    assert_eq!(read(&mut n, 2, Some(11), &[33, 3, 6]), Err(Error::Invalid));
}

#[test]
fn old_packets_are_ignored() {
    let mut n = one(CLIENT, SEQUENCE_WINDOW, Side::Local, &[]);
    n.add(ACK_RATIO, Side::Remote, &[]);
    // The Change in packet 8 arrives after the one in packet 9, which overtook it.
    read(&mut n, 8, Some(1), &[32, 5, 5, 0, 8]).unwrap();
    read(&mut n, 7, Some(1), &[32, 5, 5, 0, 7]).unwrap();
    read(&mut n, 8, Some(1), &[32, 5, 5, 0, 9]).unwrap();
    assert_eq!(n.value(ACK_RATIO, Side::Remote), 8);
    // A Confirm is ignored if its packet acknowledges nothing, or nothing as new as our newest Change.
    n.change(SEQUENCE_WINDOW, Side::Local, &[200], false);
    written(&mut n, Moment::Established, 20);
    for ack in [Some(19), None] {
        let mut n = n.clone();
        read(&mut n, 9, ack, &[35, 9, 3, 0, 0, 0, 0, 0, 200]).unwrap();
        assert!(n.is_changing());
    }
    read(&mut n, 10, Some(20), &[35, 9, 3, 0, 0, 0, 0, 0, 200]).unwrap();
    assert_eq!(n.value(SEQUENCE_WINDOW, Side::Local), 200);
}

#[test]
fn a_preference_that_changes_on_the_way_needs_the_newest_confirm() {
    let mut n = one(CLIENT, ACK_RATIO, Side::Local, &[]);
    n.change(ACK_RATIO, Side::Local, &[4], false);
    assert_eq!(written(&mut n, Moment::Established, 20), [32, 5, 5, 0, 4]);
    n.change(ACK_RATIO, Side::Local, &[4], false);
    assert!(!n.wants_to_write());
    n.change(ACK_RATIO, Side::Local, &[6], false);
    // UNSTABLE: the answer to the old preference is ignored (RFC 4340 section 6.6.5).
    read(&mut n, 1, Some(20), &[35, 5, 5, 0, 4]).unwrap();
    assert_eq!(n.value(ACK_RATIO, Side::Local), 2);
    assert_eq!(written(&mut n, Moment::Established, 21), [32, 5, 5, 0, 6]);
    read(&mut n, 2, Some(20), &[35, 5, 5, 0, 4]).unwrap();
    assert!(n.is_changing());
    read(&mut n, 3, Some(21), &[35, 5, 5, 0, 6]).unwrap();
    assert_eq!(n.value(ACK_RATIO, Side::Local), 6);
    assert!(!n.is_changing());
    // Changing the preference to the value already in force opens no negotiation.
    n.change(ACK_RATIO, Side::Local, &[6], false);
    assert!(!n.wants_to_write());
}

/// RFC 4340 section 6.6.2, figures 3 and 4: in UNSTABLE, Changes are ignored too, because the peer sent them
/// before it saw our new preference.
#[test]
fn a_change_that_arrives_before_the_new_preferences_leave_is_ignored() {
    let mut n = one(CLIENT, CCID, Side::Local, &[2, 5]);
    n.change(CCID, Side::Local, &[2, 5], false);
    assert_eq!(written(&mut n, Moment::Established, 20), [32, 5, 1, 2, 5]);
    n.change(CCID, Side::Local, &[5, 2], false);
    read(&mut n, 1, Some(20), &[34, 4, 1, 5]).unwrap();
    assert_eq!(n.value(CCID, Side::Local), 2);
    // The Change is unanswered, but the new preferences are still sent.
    assert_eq!(written(&mut n, Moment::Established, 21), [32, 5, 1, 5, 2]);
    read(&mut n, 2, Some(21), &[34, 4, 1, 5]).unwrap();
    assert_eq!(n.value(CCID, Side::Local), 5);
    assert!(!n.is_changing());
}

#[test]
fn repetition_says_the_same_and_is_no_new_change() {
    let mut n = one(CLIENT, ALLOW_SHORT_SEQNOS, Side::Local, &[0, 1]);
    n.change(ALLOW_SHORT_SEQNOS, Side::Local, &[1, 0], false);
    let first = written(&mut n, Moment::Established, 20);
    assert_eq!(written(&mut n, Moment::Established, 21), []);
    n.resend();
    assert!(n.wants_to_write());
    assert_eq!(written(&mut n, Moment::Established, 30), first);
    // An answer to the first transmission is valid.
    read(&mut n, 1, Some(20), &[35, 6, 2, 1, 1, 0]).unwrap();
    assert_eq!(n.value(ALLOW_SHORT_SEQNOS, Side::Local), 1);
}

#[test]
fn the_handshake_repeats_its_answers_until_it_is_over() {
    let mut n = one(CLIENT, CCID, Side::Remote, &[2]);
    read(&mut n, 1, None, &[32, 4, 1, 2]).unwrap();
    assert_eq!(written(&mut n, Moment::Request, 1), []);
    let confirm = written(&mut n, Moment::Handshake, 2);
    assert_eq!(confirm, [35, 5, 1, 2, 2]);
    assert!(!n.wants_to_write());
    assert_eq!(written(&mut n, Moment::Handshake, 3), confirm);
    n.establish();
    assert_eq!(written(&mut n, Moment::Established, 4), []);
}

#[test]
fn multipath_compares_versions_only() {
    let mut s = one(SERVER, MULTIPATH_CAPABLE, Side::Local, &[0]);
    // The Change offers version 1, and then version 0 with random bits in the low nibble
    // (RFC 9897 section 3.1).
    read(&mut s, 1, None, &[34, 5, 10, 0x10, 0x05]).unwrap();
    assert!(s.is_negotiated(MULTIPATH_CAPABLE, Side::Local));
    assert_eq!(written(&mut s, Moment::Handshake, 1), [33, 5, 10, 0, 0]);
    s.retire(MULTIPATH_CAPABLE);
    read(&mut s, 2, None, &[34, 4, 10, 0]).unwrap();
    assert_eq!(written(&mut s, Moment::Established, 2), [33, 3, 10]);
    assert!(s.is_negotiated(MULTIPATH_CAPABLE, Side::Local));
    // The ends have no common version.
    let mut s = one(SERVER, MULTIPATH_CAPABLE, Side::Local, &[0]);
    read(&mut s, 1, None, &[34, 4, 10, 0x10]).unwrap();
    assert!(!s.is_negotiated(MULTIPATH_CAPABLE, Side::Local));
    assert_eq!(written(&mut s, Moment::Handshake, 1), [33, 3, 10]);
    // The server refuses multipath.
    let mut c = one(CLIENT, MULTIPATH_CAPABLE, Side::Remote, &[0]);
    c.change(MULTIPATH_CAPABLE, Side::Remote, &[0], false);
    assert_eq!(written(&mut c, Moment::Request, 1), [34, 4, 10, 0]);
    let mut refused = c.clone();
    read(&mut refused, 1, Some(1), &[33, 3, 10]).unwrap();
    assert!(!refused.is_negotiated(MULTIPATH_CAPABLE, Side::Remote) && !refused.is_changing());
    read(&mut c, 1, Some(1), &[33, 5, 10, 0, 0]).unwrap();
    assert!(c.is_negotiated(MULTIPATH_CAPABLE, Side::Remote));
}

#[test]
fn frozen_features_stay() {
    let mut n = one(SERVER, CCID, Side::Remote, &[5, 2]);
    read(&mut n, 1, None, &[32, 5, 1, 2, 5]).unwrap();
    n.freeze(CCID, Side::Remote);
    read(&mut n, 2, Some(1), &[32, 4, 1, 2]).unwrap();
    assert_eq!(n.value(CCID, Side::Remote), 5);
    assert_eq!(written(&mut n, Moment::Established, 3), [35, 5, 1, 5, 5]);
}

proptest::proptest! {
    #[test]
    fn any_options_leave_sane_values(
        options: Vec<(u8, u8, Vec<u8>, bool)>,
        server: bool,
        seq: u64,
        ack: Option<u64>,
    ) {
        let mut n = Negotiator::new(server);
        for side in [Side::Local, Side::Remote] {
            for number in 1..=10 {
                n.add(number, side, &[1, 0, 2]);
            }
        }
        n.change(SEQUENCE_WINDOW, Side::Local, &[64], false);
        n.change(CCID, Side::Local, &[2, 1], true);
        for (i, (kind, number, data, mandatory)) in options.iter().enumerate() {
            let option = match (kind % 4, number % 12) {
                (0, number) => Opt::ChangeL(number, data),
                (1, number) => Opt::ChangeR(number, data),
                (2, number) => Opt::ConfirmL(number, data),
                (_, number) => Opt::ConfirmR(number, data),
            };
            let seq = Seq::new(seq.wrapping_add(i as u64));
            let order = n.order(seq, ack.map(Seq::new));
            let _ = n.handle(order, &option, *mandatory);
            n.note(seq);
            written(&mut n, Moment::Established, i as u64);
            for side in [Side::Local, Side::Remote] {
                proptest::prop_assert!((32..1 << 46).contains(&n.value(SEQUENCE_WINDOW, side)));
                proptest::prop_assert!(n.value(ACK_RATIO, side) <= 0xffff);
                proptest::prop_assert!(n.value(CCID, side) <= 2);
            }
        }
    }
}

#[test]
fn an_answer_to_an_earlier_change_is_no_error() {
    // RFC 4340 section 6.6.4 assumes that a peer has our newest Change if it acknowledges the packet carrying
    // that Change or a later packet. This test shows a case where that is wrong.
    let mut a = one(CLIENT, ACK_RATIO, Side::Local, &[]);
    let mut b = one(SERVER, ACK_RATIO, Side::Remote, &[]);
    a.change(ACK_RATIO, Side::Local, &[3], false);
    let three = written(&mut a, Moment::Established, 10);
    a.change(ACK_RATIO, Side::Local, &[4], false);
    let four = written(&mut a, Moment::Established, 20);
    // Packet 21 overtakes 20, so the answer to packet 10 acknowledges 21.
    read(&mut b, 10, None, &three).unwrap();
    let answer = written(&mut b, Moment::Established, 100);
    read(&mut a, 100, Some(21), &answer).unwrap();
    assert!(a.is_changing());
    assert_eq!(a.value(ACK_RATIO, Side::Local), 2);
    // Now the delayed Change arrives.
    read(&mut b, 20, None, &four).unwrap();
    let answer = written(&mut b, Moment::Established, 101);
    read(&mut a, 101, Some(21), &answer).unwrap();
    assert!(!a.is_changing());
    assert_eq!((a.value(ACK_RATIO, Side::Local), b.value(ACK_RATIO, Side::Remote)), (4, 4));
    // A Confirm with a value of the wrong length answers none of our Changes, so it is still an error.
    a.change(ACK_RATIO, Side::Local, &[5], false);
    written(&mut a, Moment::Established, 30);
    assert_eq!(read(&mut a, 102, Some(30), &[35, 4, 5, 5]), Err(Error::Invalid));
}

/// RFC 4340 section 5.8.2: a Mandatory without its option would apply to the option after it; at the end of
/// the options, it would be an error.
#[test]
fn where_a_change_has_no_room_its_mandatory_stays_away_too() {
    let mut n = one(CLIENT, SEND_ACK_VECTOR, Side::Remote, &[1]);
    n.change(SEND_ACK_VECTOR, Side::Remote, &[1], true);
    for room in 0..8 {
        let mut out = OptionBuf::new();
        assert!(out.extend(&[0; dccp_wire::MAX_OPTIONS][room..]));
        let before = out.len();
        n.write(Moment::Established, Seq::new(room as u64), &mut out);
        let written = out.len() - before;
        assert!(written == 0 || written == 5, "{room} bytes of room, {written} used");
        n.resend();
    }
}
