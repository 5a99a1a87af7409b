//! Decodes a whole multipath session, from handshake and join to data and close, with tshark and the
//! project's dissector. The dissector follows RFC 9897 and shares no code with the codec.

use crate::common::skipped;
use crate::perf_ends::{Place, record};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The dissector's fields for option 46. They are the same in both encapsulations.
const MP_FIELDS: [&str; 12] = [
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

/// A frame: for each field, the text of each of its occurrences.
struct Frame(BTreeMap<&'static str, Vec<String>>);

impl Frame {
    fn texts(&self, field: &str) -> &[String] {
        self.0.get(field).unwrap_or_else(|| panic!("tshark was not asked for field {field}"))
    }

    fn numbers(&self, field: &str) -> Vec<u64> {
        let number = |text: &String| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => text.parse().unwrap(),
        };
        self.texts(field).iter().map(number).collect()
    }

    fn is(&self, ptype: u64) -> bool {
        self.numbers("type") == [ptype]
    }

    /// Returns the subtypes of option 46 in the frame, except the private ones, which only mpdccp uses.
    fn subtypes(&self) -> Vec<u64> {
        self.numbers("mpdccp.subtype").into_iter().filter(|subtype| *subtype != MP_EXP).collect()
    }
}

fn tshark_works() -> bool {
    let works = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !works {
        skipped("tshark cannot be run; Debian has it in the package tshark");
    }
    works
}

/// Reads a capture. `prefix` is the protocol whose payload is the DCCP header.
fn frames(capture: &Path, prefix: &str, arguments: &[&str]) -> Vec<Frame> {
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/mpdccp.lua");
    let mut tshark = Command::new("tshark");
    tshark.arg("-X").arg(format!("lua_script:{}", lua.display())).arg("-r").arg(capture).args(arguments);
    tshark.args(["-o", "dccp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
    tshark.args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=;"]);
    let header = [("type", format!("{prefix}.type")), ("reset_code", format!("{prefix}.reset_code"))];
    let general = ["_ws.malformed", "_ws.expert.message", "dccp.checksum.status", "ip.src"];
    let same = general.iter().chain(&MP_FIELDS).map(|field| (*field, field.to_string()));
    let fields: Vec<(&'static str, String)> = header.into_iter().chain(same).collect();
    for (_, field) in &fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !complaints.contains("rror") && !complaints.contains("Lua"),
        "{complaints}"
    );
    let values = |text: &str| text.split(';').filter(|text| !text.is_empty()).map(str::to_owned).collect();
    let text = String::from_utf8(output.stdout).unwrap();
    let frame =
        |line: &str| Frame(fields.iter().map(|(name, _)| *name).zip(line.split('\t').map(values)).collect());
    text.lines().map(frame).collect()
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
            assert!(frame.texts(field).iter().all(harmless), "{field}: {:?}", frame.0);
        }
    }
    let with = |ptype: u64, subtypes: &'static [u64]| {
        frames.iter().filter(move |f| f.is(ptype) && f.subtypes() == subtypes).collect::<Vec<_>>()
    };

    // In both directions, MP_KEY has one plain key of 8 bytes, and Multipath Capable has version 0.
    let (request, response) = (with(REQUEST, &[MP_KEY]), with(RESPONSE, &[MP_KEY]));
    assert_eq!((request.len(), response.len()), (1, 1));
    for frame in [request[0], response[0]] {
        assert_eq!(frame.numbers("mpdccp.key.type"), [0]);
        assert_eq!(frame.texts("mpdccp.key.data")[0].len(), 16, "eight bytes in hexadecimal");
        assert!(frame.numbers("mpdccp.capable.version").contains(&0));
    }
    let (client_key, server_key) =
        (&request[0].texts("mpdccp.key.data")[0], &response[0].texts("mpdccp.key.data")[0]);
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
    let tags: BTreeSet<&String> = [answer[0], proof[0]].iter().map(|f| &f.texts("mpdccp.hmac")[0]).collect();
    assert!(tags.len() == 2 && tags.iter().all(|tag| tag.len() == 40), "{tags:?}");

    // Each datagram has its own MP_SEQ, and no number is missing.
    let data: Vec<&Frame> = frames.iter().filter(|f| f.is(DATA)).collect();
    let mut numbers: Vec<u64> = data.iter().flat_map(|f| f.numbers("mpdccp.seq")).collect();
    assert!(data.len() as u64 >= MESSAGES && data.iter().all(|f| f.subtypes().contains(&MP_SEQ)));
    numbers.sort_unstable();
    let wraps = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    assert!(wraps <= 1, "consecutive except where the number wraps at 2^48");
    let sources: BTreeSet<&String> = data.iter().flat_map(|f| f.texts("ip.src")).collect();
    assert_eq!(sources.len(), 2, "both paths carry data");

    // MP_CLOSE with the server's key is sent on both subflows, and answered on each with a Reset of code 1.
    let close = with(CLOSE, &[MP_CLOSE]);
    assert!(close.len() >= 2 && close.iter().all(|f| f.texts("mpdccp.close.key") == [server_key.clone()]));
    assert_ne!(client_key, server_key);
    let closed: BTreeSet<&String> = close.iter().flat_map(|f| f.texts("ip.src")).collect();
    assert_eq!(closed.len(), 2);
    let resets: Vec<&Frame> = frames.iter().filter(|f| f.is(RESET)).collect();
    assert!(resets.len() >= 2 && resets.iter().all(|f| f.numbers("reset_code") == [1]));
}

#[test]
fn a_session_over_udp() {
    if !tshark_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, port) = capture(&Place::host(), "udp", directory.path());
    let frames = frames(&file, "dccpudp", &["-d", &format!("udp.port=={port},dccpudp")]);
    assert!(frames.iter().all(|frame| frame.texts("type").len() == 1), "every frame is DCCP");
    check_session(&frames);
}

#[test]
fn a_session_over_raw() {
    if !tshark_works() {
        return;
    }
    let Some(place) = Place::namespace() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (file, _) = capture(&place, "raw", directory.path());
    let frames = frames(&file, "dccp", &[]);
    // In tshark's output, 1 means that the checksum is right.
    assert!(
        frames.iter().all(|frame| frame.numbers("dccp.checksum.status") == [1]),
        "every checksum is right"
    );
    check_session(&frames);
}
