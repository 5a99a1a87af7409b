//! Decodes a whole multipath session, from handshake and join to data and close, with tshark and the
//! project's dissector. The dissector follows RFC 9897 and shares no code with the codec.

#[path = "../../../dccp-wire/tests/all/common/tshark.rs"]
#[allow(dead_code)]
mod tshark;

use self::tshark::{Frame, available};
use crate::perf_ends::{Place, record};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const MESSAGES: u64 = 300;
/// Packet types (RFC 4340 section 5.1).
const REQUEST: u64 = 0;
const RESPONSE: u64 = 1;
const DATA: u64 = 2;
const ACK: u64 = 3;
const CLOSE: u64 = 6;
const RESET: u64 = 7;
/// Subtypes of option 46 (RFC 9897 section 3.2).
const MP_JOIN: u64 = 1;
const MP_KEY: u64 = 3;
const MP_SEQ: u64 = 4;
const MP_HMAC: u64 = 5;
const MP_CLOSE: u64 = 10;
const MP_EXP: u64 = 11;

/// Fields of DCCP's header, which are empty in the other encapsulation, and fields that are the same in both.
const FIELDS: [&str; 20] = [
    "dccp.type",
    "dccpudp.type",
    "dccp.reset_code",
    "dccpudp.reset_code",
    "_ws.malformed",
    "_ws.expert.message",
    "dccp.checksum.status",
    "ip.src",
    "mpdccp.subtype",
    "mpdccp.capable.version",
    "mpdccp.key.ci",
    "mpdccp.key.type",
    "mpdccp.key.data",
    "mpdccp.join.ci",
    "mpdccp.join.nonce",
    "mpdccp.hmac",
    "mpdccp.seq",
    "mpdccp.close.key",
    "mpdccp.malformed",
    "mpdccp.unassigned",
];

/// Returns a field of DCCP's header in either encapsulation.
fn header(frame: &Frame, field: &str) -> Vec<u64> {
    ["dccp", "dccpudp"].iter().flat_map(|protocol| frame.numbers(&format!("{protocol}.{field}"))).collect()
}

fn is(frame: &Frame, ptype: u64) -> bool {
    header(frame, "type") == [ptype]
}

/// Returns the subtypes of option 46 in the frame, except the private ones, which only mpdccp uses.
fn subtypes(frame: &Frame) -> Vec<u64> {
    frame.numbers("mpdccp.subtype").into_iter().filter(|subtype| *subtype != MP_EXP).collect()
}

/// Runs a session over two paths. Returns the client's capture.
fn capture(place: &Place, encapsulation: &str, directory: &Path) -> (PathBuf, String) {
    let file = directory.join("session.pcap");
    let [server, client] = place.exchange(
        &format!("--encapsulation {encapsulation} -s -B 127.0.0.1 -p {}", if encapsulation == "raw" { 5001 } else { 0 }),
        &format!(
            "--encapsulation {encapsulation} -c 127.0.0.1:{{port}} --path 127.0.0.2 --path 127.0.0.3 --scheduler rr --send \
             --rate 4M --messages {MESSAGES} --size 800 --queue 300 --pcap {}",
            file.display()
        ),
    );
    let summary = record(&server, "summary");
    assert_eq!(summary["received"]["messages"], MESSAGES, "{summary}");
    assert_eq!(record(&client, "open")["multipath"], true);
    let address = record(&server, "listening")["address"].as_str().unwrap();
    (file, address.rsplit_once(':').unwrap().1.to_owned())
}

/// Checks the requirements of RFC 9897 sections 3.2 and 3.3 for a session with two subflows.
fn check_session(frames: &[Frame]) {
    for frame in frames {
        for field in ["_ws.malformed", "_ws.expert.message", "mpdccp.malformed", "mpdccp.unassigned"] {
            // Only these remarks are allowed: a Reset or a Close ends a connection, and UDP to ports from
            // 33434 on may be a traceroute.
            let allowed = ["Connection reset", "Connection closed", "Possible traceroute"];
            let harmless = |text: &String| allowed.iter().any(|remark| text.contains(remark));
            assert!(frame.get(field).iter().all(harmless), "{field}: {frame:?}");
        }
    }
    let with = |ptype: u64, wanted: &'static [u64]| {
        frames.iter().filter(move |f| is(f, ptype) && subtypes(f) == wanted).collect::<Vec<_>>()
    };

    // In both directions, MP_KEY has one plain key of 8 bytes, and Multipath Capable has version 0.
    let (request, response) = (with(REQUEST, &[MP_KEY]), with(RESPONSE, &[MP_KEY]));
    assert_eq!((request.len(), response.len()), (1, 1));
    for frame in [request[0], response[0]] {
        assert_eq!(frame.numbers("mpdccp.key.type"), [0]);
        assert_eq!(frame.get("mpdccp.key.data")[0].len(), 16, "eight bytes in hexadecimal");
        assert!(frame.numbers("mpdccp.capable.version").contains(&0));
    }
    let key = |frame: &Frame| frame.get("mpdccp.key.data").remove(0);
    let (client_key, server_key) = (key(request[0]), key(response[0]));
    let (client_ci, server_ci) = (request[0].numbers("mpdccp.key.ci"), response[0].numbers("mpdccp.key.ci"));

    // MP_JOIN has the receiver's connection identifier. The Response and the Ack that follows it have HMACs
    // of 20 bytes.
    let join = with(REQUEST, &[MP_JOIN]);
    let answer = with(RESPONSE, &[MP_JOIN, MP_HMAC]);
    assert_eq!((join.len(), answer.len()), (1, 1));
    assert_eq!(
        (join[0].numbers("mpdccp.join.ci"), answer[0].numbers("mpdccp.join.ci")),
        (server_ci, client_ci)
    );
    assert_ne!(join[0].numbers("mpdccp.join.nonce"), answer[0].numbers("mpdccp.join.nonce"));
    let proof = with(ACK, &[MP_HMAC]);
    assert!(!proof.is_empty());
    let tags: BTreeSet<String> =
        [answer[0], proof[0]].iter().map(|f| f.get("mpdccp.hmac").remove(0)).collect();
    assert!(tags.len() == 2 && tags.iter().all(|tag| tag.len() == 40), "{tags:?}");

    // Each datagram has its own MP_SEQ, and no number is missing.
    let data: Vec<&Frame> = frames.iter().filter(|f| is(f, DATA)).collect();
    let mut numbers: Vec<u64> = data.iter().flat_map(|f| f.numbers("mpdccp.seq")).collect();
    assert!(data.len() as u64 >= MESSAGES && data.iter().all(|f| subtypes(f).contains(&MP_SEQ)));
    numbers.sort_unstable();
    let wraps = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    assert!(wraps <= 1, "consecutive except where the number wraps at 2^48");
    let sources: BTreeSet<String> = data.iter().flat_map(|f| f.get("ip.src")).collect();
    assert_eq!(sources.len(), 2, "both paths carry data");

    // MP_CLOSE with the server's key is sent on both subflows, and answered on each with a Reset of code 1.
    let close = with(CLOSE, &[MP_CLOSE]);
    assert!(close.len() >= 2 && close.iter().all(|f| f.get("mpdccp.close.key") == [server_key.clone()]));
    assert_ne!(client_key, server_key);
    let closed: BTreeSet<String> = close.iter().flat_map(|f| f.get("ip.src")).collect();
    assert_eq!(closed.len(), 2);
    let resets: Vec<&Frame> = frames.iter().filter(|f| is(f, RESET)).collect();
    assert!(resets.len() >= 2 && resets.iter().all(|f| header(f, "reset_code") == [1]));
}

#[test]
fn a_session_over_udp() {
    if !available("a_session_over_udp") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, port) = capture(&Place::host(), "udp", directory.path());
    let frames = tshark::frames(&file, &FIELDS, &["-d", &format!("udp.port=={port},dccpudp")]);
    assert!(frames.iter().all(|frame| header(frame, "type").len() == 1), "every frame is DCCP");
    check_session(&frames);
}

#[test]
fn a_session_over_raw() {
    if !available("a_session_over_raw") {
        return;
    }
    let Some(place) = Place::namespace() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (file, _) = capture(&place, "raw", directory.path());
    let frames = tshark::frames(&file, &FIELDS, &[]);
    // In tshark's output, 1 means that the checksum is right.
    assert!(
        frames.iter().all(|frame| frame.numbers("dccp.checksum.status") == [1]),
        "every checksum is right"
    );
    check_session(&frames);
}
