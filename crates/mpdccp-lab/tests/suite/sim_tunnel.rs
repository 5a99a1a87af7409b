//! Tests of tunnel events during a scenario, in virtual time. They check which packets arrive, and do not
//! measure durations.

use crate::sim_common::{parse, run};
use mpdccp_lab::scenario::Scenario;
use mpdccp_lab::{Fate, RunRecord};

/// Returns a scenario with two equal paths, `a` and `b`, of sufficient capacity, with the given events and
/// with a plain and an encrypted variant.
fn scenario(events: &str) -> Scenario {
    parse(&text(events, ""))
}

fn text(events: &str, more: &str) -> String {
    format!(
        "name = \"x\"\ntitle = \"x\"\nduration_s = 12\n{more}\n\
         [[path]]\nname = \"a\"\nrate = \"10 Mbit/s\"\nowd = \"10 ms\"\nqueue = \"100 packets\"\n\
         [[path]]\nname = \"b\"\nrate = \"10 Mbit/s\"\nowd = \"10 ms\"\nqueue = \"100 packets\"\n\
         [[variant]]\nlabel = \"plain\"\n[[variant]]\nlabel = \"sealed\"\ntunnel = {{ security = \"noise\" }}\n\
         [[flow]]\nname = \"udp\"\nkind = \"udp\"\nrate = \"1 Mbit/s\"\npayload = 1000\n{events}"
    )
}

/// Returns whether all, some or none of the application packets that were sent in this time span arrived.
fn came(record: &RunRecord, from: f64, to: f64) -> &'static str {
    let flow = &record.flows[0];
    let at = |s: f64| record.start + core::time::Duration::from_secs_f64(s);
    let sent = flow.sent.iter().enumerate().filter(|(_, p)| p.at >= at(from) && p.at < at(to));
    let arrived: Vec<bool> = sent.map(|(seq, _)| flow.received.iter().any(|p| p.seq == seq as u64)).collect();
    assert!(arrived.len() > 10);
    match arrived.iter().filter(|arrived| **arrived).count() {
        0 => "none",
        n if n == arrived.len() => "all",
        _ => "some",
    }
}

/// Returns the number of application packets from the client that crossed a path in this time span.
fn crossed(record: &RunRecord, path: usize, from: f64, to: f64) -> usize {
    let at = |s: f64| record.start + core::time::Duration::from_secs_f64(s);
    let packets = record.paths[path].forward.packets.iter().filter(|p| p.data.is_some());
    packets.filter(|p| matches!(p.fate, Fate::Delivered(t) if t >= at(from) && t < at(to))).count()
}

#[test]
fn a_reload_changes_which_paths_carry() {
    for (reload, used) in [
        ("priority = { a = 1 }", [false, true]),
        ("paths = [\"b\"]", [false, true]),
        ("paths = [\"a\"]", [true, false]),
        ("tunnel = { scheduler = \"redundant\" }", [true, true]),
    ] {
        let scenario = scenario(&format!("[[event]]\nat_s = 4\nreload = {{ {reload} }}\n"));
        let (record, _) = run(&scenario, "plain", "base");
        assert_eq!(came(&record, 0.0, 3.5), "all");
        assert_eq!([0, 1].map(|path| crossed(&record, path, 6.0, 12.0) > 100), used, "{reload}");
        assert_eq!(came(&record, 6.0, 12.0), "all", "{reload}");
    }
}

#[test]
fn a_client_with_another_address_is_heard_again() {
    let only = "[[event]]\nat_s = 1\nreload = { paths = [\"a\"] }\n";
    let roams = format!("{only}[[event]]\nat_s = 4\nroam = \"a\"\n");
    for label in ["sealed", "plain"] {
        let [stays, record] = [only, &roams].map(|events| run(&scenario(events), label, "base").0);
        assert_ne!(stays.paths[0].forward.packets, record.paths[0].forward.packets, "{label}");
        assert_eq!(came(&record, 10.0, 12.0), "all", "{label}");
    }
}

#[test]
fn a_program_that_was_killed_or_restarted_carries_again() {
    for what in ["kill", "restart"] {
        for (end, label) in [("client", "plain"), ("client", "sealed"), ("server", "plain")] {
            let event = format!("[[event]]\nat_s = 2\n{what} = \"{end}\"\naway = \"1 s\"\n");
            let (record, _) = run(&scenario(&event), label, "base");
            assert_eq!(came(&record, 0.0, 1.9), "all", "{what} {end} {label}");
            assert_eq!(came(&record, 2.2, 2.9), "none", "{what} {end} {label}");
            assert_eq!(came(&record, 11.0, 12.0), "all", "{what} {end} {label}");
        }
    }
}

#[test]
fn a_client_is_back_soon_after_its_server() {
    for (away, up) in [("200 ms", 2.2), ("1 s", 3.0)] {
        let event = format!("[[event]]\nat_s = 2\nrestart = \"server\"\naway = \"{away}\"\n");
        let (record, _) = run(&scenario(&event), "sealed", "base");
        assert_eq!(came(&record, 2.05, up), "none");
        assert_eq!(came(&record, up + 1.0, 12.0), "all", "{away}");
    }
}

#[test]
fn a_server_that_drains_keeps_its_client_and_takes_no_new_one() {
    let restart = "[[event]]\nat_s = 6\nrestart = \"client\"\n";
    let drained = format!("[[event]]\nat_s = 2\ndrain = true\n{restart}");
    let (record, _) = run(&scenario(&drained), "plain", "base");
    assert_eq!(came(&record, 2.0, 5.9), "all");
    assert_eq!(came(&record, 8.0, 12.0), "none");
    let (record, _) = run(&scenario(restart), "plain", "base");
    assert_eq!(came(&record, 8.0, 12.0), "all");
}

#[test]
fn the_same_seed_gives_the_same_bytes_through_crashes_too() {
    let event = "[[event]]\nat_s = 2\nkill = \"server\"\n[[event]]\nat_s = 3\nroam = \"b\"\n";
    let once = || run(&scenario(event), "sealed", "base").0;
    let (a, b) = (once(), once());
    assert_eq!(a.flows[0].received.len(), b.flows[0].received.len());
    assert_eq!(a.paths[1].forward.packets, b.paths[1].forward.packets);
}

#[test]
fn an_event_that_cannot_be_is_refused_with_its_line() {
    for (events, why) in [
        ("at_s = 1", "an event needs exactly one of `reload`, `roam`, `restart`, `kill` and `drain = true`"),
        ("at_s = 1\ndrain = true\nroam = \"a\"", "an event needs exactly one of"),
        (
            "at_s = 12\ndrain = true",
            "events must be in order of time, with at_s between 0 and the scenario's end",
        ),
        ("at_s = 1\ndrain = true\naway = \"1 s\"", "`away` needs `restart` or `kill`"),
        ("at_s = 1\nroam = \"c\"", "unknown path `c`; expected one of: a, b"),
        ("at_s = 1\nreload = { paths = [\"c\"] }", "unknown path `c`"),
        ("at_s = 1\nreload = { tunnel = { schedule = 1 } }", "unknown key `schedule`"),
        (
            "at_s = 1\nreload = { tunnel = { security = \"noise\" } }",
            "`security` cannot change while the tunnel runs",
        ),
        ("at_s = 1\nreload = { paths = [] }", "path"),
        ("at_s = 1\nreload = { priority = { a = 99 } }", "99"),
    ] {
        let error = Scenario::parse("t.toml", &text(&format!("[[event]]\n{events}\n"), "")).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.line.is_some(), "{error}");
    }
    let direct = text("[[event]]\nat_s = 1\ndrain = true\n", "mode = \"direct\"");
    let direct = direct.replacen(
        "[[path]]\nname = \"b\"\nrate = \"10 Mbit/s\"\nowd = \"10 ms\"\nqueue = \"100 packets\"\n",
        "",
        1,
    );
    let direct = direct
        .replace("tunnel = { security = \"noise\" }", "ccid = 2")
        .replace("\"plain\"", "\"plain\"\nccid = 5");
    let error = Scenario::parse("t.toml", &direct).unwrap_err().to_string();
    assert!(error.contains("[[event]] needs mode = \"tunnel\""), "{error}");
}

/// The tunnel paces the bursts of a TCP sender in slow start, which spreads the acknowledgements over half a
/// round trip. These acknowledgements must not make HyStart leave slow start too early.
#[test]
fn slow_start_on_a_long_path_is_as_fast_as_without_a_tunnel() {
    let scenario = parse(
        "name = \"x\"\ntitle = \"x\"\nduration_s = 4\nmode = \"tunnel\"\nidle_s = 2\n\
         [[path]]\nname = \"a\"\nrate = \"50 Mbit/s\"\nowd = \"120 ms\"\nqueue = \"1000 packets\"\n\
         [[variant]]\nlabel = \"tunnel\"\n[[variant]]\nlabel = \"plain\"\nbaseline = { kind = \"plain\" }\n\
         [[flow]]\nname = \"tcp\"\nkind = \"tcp\"\ncc = \"cubic\"\n",
    );
    let [tunnel, plain] =
        ["tunnel", "plain"].map(|label| run(&scenario, label, "base").1.metrics["goodput_mbps"]);
    assert!(tunnel > 0.7 * plain, "{tunnel} {plain}");
}
