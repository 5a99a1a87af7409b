//! Plays the scripts in `tests/packetdrill` against the TCP model. The kernel passes all of them
//! (`tools/packetdrill`).

use std::path::Path;

use mpdccp_lab::packetdrill::{Failure, Script};

#[test]
fn the_model_passes_every_script() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packetdrill");
    let mut failed = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 20, "{files:?}");
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let script = Script::parse(&std::fs::read_to_string(&file).unwrap());
        let script = script.unwrap_or_else(|why| panic!("{}:{why}", file.display()));
        match script.play(None) {
            Ok(()) => {}
            Err(Failure::Differs { line, expected, got }) => {
                failed.push(format!("{name}:{line}: expected {expected}, got {got}"));
            }
            Err(Failure::Script { line, why }) => panic!("{}:{line}: {why}", file.display()),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

const OPEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 < S 0:0(0) win 65535 <mss 1000,sackOK>\n\
    +0 > S. 0:0(0) ack 1 <...>\n+.05 < . 1:1(0) ack 1 win 60000\n+0 write(4, ..., 10000) = 10000\n";

/// Returns the failure of a script that consists of [`OPEN`] and `lines`, which start at line 6 of the
/// script.
fn failure(lines: &str) -> Failure {
    Script::parse(&format!("{OPEN}{lines}")).unwrap().play(None).unwrap_err()
}

#[test]
fn a_difference_names_the_line_and_both_sides() {
    let differs = |lines: &str| match failure(lines) {
        Failure::Differs { line, expected, got } => (line, expected, got),
        other => panic!("{other:?}"),
    };
    let (line, expected, got) = differs("+0 > . 1:1001(1000) ack 1\n+0 > . 1001:1501(500) ack 1\n");
    assert_eq!((line, got.as_str()), (7, "`> . 1001:2001(1000)` at 0.050 s"));
    assert_eq!(expected, "`> . 1001:1501(500) ack 1` at 0.050 s, within 4.0 ms");
    // The model sends this packet before the expected time, by more than the tolerance of an eighth of the
    // wait.
    assert_eq!(differs("+.1 > . 1:1001(1000) ack 1\n").2, "`> . 1:1001(1000)` at 0.050 s");
    // The script expects a packet of eleven segments, but the model sends only the first ten.
    assert_eq!(differs("+0 > . 1:11001(11000) ack 1\n").2, "`> . 1:10001(10000)` at 0.050 s");
    // The script expects the tail loss probe after one round-trip time, but the model sends it after two.
    let probe = "+0 > . 1:10001(10000) ack 1\n+.05 > . 9001:10001(1000) ack 1\n";
    assert_eq!((differs(probe).0, differs(probe).2.as_str()), (7, "nothing"));
    assert_eq!(differs("+0 > [ect0] . 1:10001(10000) ack 1\n").2, "`> . 1:10001(10000)` at 0.050 s");
    assert_eq!(differs("+0 > W. 1:10001(10000) ack 1\n").2, "`> . 1:10001(10000)` at 0.050 s");
    let (line, expected, got) = differs("+0 %{ assert tcpi_snd_cwnd == 10\nassert tcpi_unacked < 9 }%\n");
    assert_eq!((line, expected.as_str(), got.as_str()), (6, "`tcpi_unacked < 9`", "tcpi_unacked = 10"));
    let (line, expected, got) = differs("+.05 < . 1:1(0) ack 10002 win 60000\n");
    assert_eq!((line, expected.as_str()), (6, "data up to 10002, which this packet acknowledges"));
    assert_eq!(got, "only 1:10001(10000) until 0.100 s");
}

#[test]
fn scripts_that_the_model_cannot_play_are_errors() {
    for (lines, error) in [
        ("+0 < P. 1:2(1) ack 1 win 9\n", "the model accepts only acknowledgements, without data"),
        ("+0 < R. 1:1(0) ack 1 win 9\n", "the model accepts only acknowledgements, without data"),
        ("+0 > . 1:1(0) ack 2\n", "the model's sender sends no acknowledgements"),
        (
            "+0 setsockopt(4, IPPROTO_TCP, TCP_CONGESTION, \"reno\", 4) = 0\n",
            "the script must set TCP_CONGESTION before the handshake",
        ),
        (
            "+0 %{ assert tcpi_snd_wnd == 1 }%\n",
            "cannot evaluate `tcpi_snd_wnd == 1`: the model has no `tcpi_snd_wnd`",
        ),
    ] {
        assert_eq!(failure(lines), Failure::Script { line: 6, why: error.to_owned() }, "{lines}");
    }
    for (script, error) in [
        ("0 < S 0:0(0) win 9 <mss 1000>\n", "the model needs SACK; add sackOK to the peer's SYN or SYN-ACK"),
        ("0 write(4, ..., 10) = 10\n", "the script writes data before the end of the handshake"),
        ("0 < . 1:1(0) ack 1 win 9\n", "expected the model's SYN or SYN-ACK first"),
        ("0 > S 0:0(0)\n+1 > S 0:0(0)\n", "the model does not retransmit SYNs"),
        (
            "0 > S 0:0(0)\n+0 < S. 0:0(0) ack 1 win 9 <mss 65535,sackOK>\n",
            "the maximum segment size is too large",
        ),
    ] {
        match Script::parse(script).unwrap().play(None) {
            Err(Failure::Script { why, .. }) => assert_eq!(why, error),
            other => panic!("{script}: {other:?}"),
        }
    }
}

/// The script has an active open and an unscaled window. The caller selects the congestion control.
#[test]
fn a_connection_that_the_model_opens() {
    let script = "0 connect(3, ..., ...) = -1\n+0 > S 0:0(0) <...>\n+.05 < S. 0:0(0) ack 1 win 4000 <mss 1000,sackOK,nop,wscale 3>\n\
        +0 > . 1:1(0) ack 1\n+0 write(3, ..., 9000) = 9000\n+0 > P. 1:4001(4000) ack 1\n+.05 < . 1:1(0) ack 4001 win 125\n\
        +0 > . 4001:5001(1000) ack 1\n+0 %{ assert tcpi_rtt == 50000 }%\n* > . 5001:6001(1000) ack 1\n";
    let script = Script::parse(script).unwrap();
    let nothing = |cc| match script.play(cc) {
        Err(Failure::Differs { line: 10, got, .. }) => got,
        other => panic!("{other:?}"),
    };
    assert_eq!(nothing(Some("cubic")), "`> . 4001:5001(1000)` at 0.356 s");
}
