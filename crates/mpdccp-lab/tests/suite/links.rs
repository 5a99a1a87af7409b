//! Tests of link keys: separate directions, events, link models, and transports that replace the tunnel.

use core::time::Duration;

use crate::sim_common::{parse, run};
use mpdccp_lab::netns::Netns;
use mpdccp_lab::scenario::{LinkKeys, PathSpec};
use mpdccp_lab::sim::Sim;
use mpdccp_lab::{Backend, Fate, Plan, RunRecord, Scenario};

/// Returns a scenario with one UDP flow over one path with these keys.
fn one_path(keys: &str, rest: &str) -> Scenario {
    parse(&format!(
        r#"
name = "t"
title = "t"
duration_s = 4
[[path]]
name = "a"
queue = "100 kB"
{keys}
[[variant]]
label = "tunnel"
[[flow]]
name = "udp"
kind = "udp"
payload = 1000
rate = "4 Mbit/s"
{rest}
"#
    ))
}

fn ways(scenario: &Scenario) -> [LinkKeys; 2] {
    scenario.path_in(0, scenario.headline()).ways
}

#[test]
fn a_direction_has_its_own_keys_before_those_of_both() {
    let text = r#"rate = "10 Mbit/s"
owd = "10 ms"
forward = { loss = "1 %" }
reverse = { rate = "1 Mbit/s", owd = "30 ms", queue = "20 kB" }"#;
    let [there, back] = ways(&one_path(text, ""));
    let facts = |k: &LinkKeys| (k.mean_rate().mbps(), k.delay().as_millis(), k.queue_limit().text(), k.loss);
    assert_eq!(facts(&there), (10.0, 10, "100000 B".to_owned(), Some(0.01)));
    assert_eq!(facts(&back), (1.0, 30, "20000 B".to_owned(), None));
}

#[test]
fn events_change_any_key_of_either_direction_and_keep_the_rest() {
    let text = r#"rate = "10 Mbit/s"
owd = "10 ms"
events = [
  { at_s = 1, jitter = { by = "2 ms" }, reverse = { rate = "2 Mbit/s" } },
  { at_s = 2, loss = "1 %", forward = { up = false } },
  { at_s = 3, burst_loss = { begin = "1 %", end = "50 %" }, up = true, queue = "50 kB" },
]"#;
    let course = one_path(text, "").paths[0].course();
    let [first, second, third] = &course[..] else { panic!("{course:?}") };
    assert_eq!((first.1[0].rate, first.1[0].jitter.is_some()), (ways(&one_path(text, ""))[0].rate, true));
    assert_eq!(first.1[1].mean_rate().mbps(), 2.0);
    assert_eq!(second.1.each_ref().map(LinkKeys::is_up), [false, true]);
    assert_eq!(second.1[1].mean_rate().mbps(), 2.0, "keys that an event does not name stay the same");
    assert_eq!(third.1.each_ref().map(LinkKeys::is_up), [true, true]);
    assert!(third.1.iter().all(|k| k.loss.is_none() && k.burst_loss.is_some()));
    assert!(third.1.iter().all(|k| k.jitter.is_some() && k.queue_limit().text() == "50000 B"));
}

#[test]
fn a_model_brings_all_keys_and_what_is_named_stays() {
    let text = one_path(
        "model = \"starlink\"\nreverse = { rate = \"50 Mbit/s\" }\nevents = [{ at_s = 3, loss = \"1 %\" }]",
        "",
    );
    let [there, back] = ways(&text);
    assert_eq!((there.mean_rate().mbps(), back.mean_rate().mbps()), (17.0, 50.0));
    assert_eq!((there.delay().as_millis(), there.queue_limit().text()), (25, "100000 B".to_owned()));
    let path = text.path_in(0, text.headline());
    let seen = |seed: u64, at: f64| {
        let course = PathSpec { seed, ..path.clone() }.course_with_models(40.0);
        let keys = &course[course.partition_point(|(from, _)| *from <= at) - 1].1;
        keys.each_ref().map(|keys| (keys.mean_rate(), keys.delay(), keys.config().loss))
    };
    assert_eq!(seen(1, 3.0), seen(1, 3.0));
    assert_ne!(seen(1, 3.0)[0], seen(2, 3.0)[0]);
    assert_ne!(seen(1, 3.0)[0].1, seen(1, 16.0)[0].1, "another satellite");
    for at in [0.0, 2.0, 16.0, 35.0] {
        let [_, back] = seen(1, at);
        assert_eq!(back.0.mbps(), 50.0);
        let lost =
            if at < 3.0 { mpdccp_linkem::LossModel::None } else { mpdccp_linkem::LossModel::Bernoulli(0.01) };
        assert_eq!(back.2, lost, "the key that an event set stays as well: {at}");
    }
    // Packets have the model's latency.
    let (_, stats) = run(&one_path("model = \"geo\"\nrate = \"10 Mbit/s\"", ""), "tunnel", "base");
    let wire = stats.flows[0].phases[0].wire_latency_ms.unwrap();
    assert!((280.0..330.0).contains(&wire.p50), "{wire:?}");
}

/// Returns how many packets the first path delivered between two times, in the forward and in the reverse
/// direction.
fn delivered(record: &RunRecord, from: f64, to: f64) -> (usize, usize) {
    let within = |at: mpdccp_units::Time| {
        let t = at.as_secs_f64() - record.start.as_secs_f64();
        (from..to).contains(&t)
    };
    let count = |packets: &[mpdccp_lab::LinkPacket]| {
        packets.iter().filter(|p| matches!(p.fate, Fate::Delivered(at) if within(at))).count()
    };
    (count(&record.paths[0].forward.packets), count(&record.paths[0].reverse.packets))
}

#[test]
fn an_outage_of_one_direction_leaves_the_other() {
    let text = r#"rate = "10 Mbit/s"
owd = "10 ms"
events = [{ at_s = 1, reverse = { up = false } }, { at_s = 1.3, reverse = { up = true } }]"#;
    let (record, _) = run(&one_path(text, ""), "tunnel", "base");
    let (there, back) = delivered(&record, 1.05, 1.3);
    assert!(there > 0);
    assert_eq!(back, 0);
    assert!(delivered(&record, 0.5, 1.0).1 > 0);
}

#[test]
fn a_policer_lets_its_rate_through_and_builds_no_queue() {
    let flow =
        "[[flow]]\nname = \"beside\"\nkind = \"udp\"\npayload = 1000\nrate = \"8 Mbit/s\"\nvia = \"a\"";
    let keys = r#"rate = "100 Mbit/s"
policer = { rate = "5 Mbit/s", burst = "10 kB" }"#;
    let text = one_path(keys, flow);
    let (record, stats) = run(&text, "tunnel", "base");
    let bytes: u32 = record.flows.iter().flat_map(|f| &f.received).map(|p| p.bytes).sum();
    let mbps = f64::from(bytes) * 8e-6 / 4.0;
    assert!((4.0..5.1).contains(&mbps), "{mbps}");
    let wire = stats.flows[1].phases[0].wire_latency_ms.unwrap();
    assert!(wire.max < 2.0, "{wire:?}");
}

#[test]
fn drops_of_a_queue_are_not_losses_on_the_wire() {
    let flow =
        "[[flow]]\nname = \"beside\"\nkind = \"udp\"\npayload = 1000\nrate = \"8 Mbit/s\"\nvia = \"a\"";
    let drops_and_losses = |keys: &str| {
        let (_, stats) = run(&one_path(&format!("rate = \"6 Mbit/s\"\n{keys}"), flow), "tunnel", "base");
        let phase = &stats.paths[0].phases[0];
        (phase.queue_drops > 0, phase.lost > 0)
    };
    // CoDel drops packets that it has already queued.
    assert_eq!(drops_and_losses("discipline = { kind = \"codel\" }"), (true, false));
    assert_eq!(drops_and_losses("discipline = { kind = \"codel\" }\nloss = \"5 %\""), (true, true));
}

#[test]
fn a_trace_is_out_of_phase_with_itself_unless_given_twice() {
    let dir = tempfile::tempdir().unwrap();
    // In each second, the trace has ten opportunities to send: one every 50 ms in the first half. It has one
    // more at the end of the second.
    let trace: String = (1..=10).map(|i| format!("{}\n", i * 50)).collect::<String>() + "1000\n";
    std::fs::write(dir.path().join("half.trace"), trace).unwrap();
    let file = dir.path().join("t.toml");
    let text = |more: &str| {
        format!(
            "name = \"t\"\ntitle = \"t\"\nduration_s = 4\n[[path]]\nname = \"a\"\nqueue = \"100 kB\"\nrate_trace = \"half.trace\"\n{more}\n\
             [[variant]]\nlabel = \"x\"\n[[flow]]\nname = \"f\"\nkind = \"udp\"\npayload = 100\nrate = \"10 kbit/s\"\n"
        )
    };
    let parse = |more| Scenario::parse(&file.to_string_lossy(), &text(more)).unwrap();
    let [there, back] = ways(&parse(""));
    assert_ne!(there.trace, back.trace);
    assert_eq!(there.trace.as_ref().map(|t| t.later_by(Duration::from_millis(500))), back.trace);
    let [there, back] = ways(&parse("reverse = { rate_trace = \"half.trace\" }"));
    assert_eq!(there.trace, back.trace);
}

/// The link is there for a second before t = 0.
#[test]
fn a_trace_begins_with_the_traffic() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("slow.trace"), "700\n").unwrap();
    let text = r#"
name = "t"
title = "t"
duration_s = 4
path = [{ name = "a", queue = "100 kB", rate_trace = "slow.trace" }]
variant = [{ label = "plain", baseline = { kind = "plain" } }]
flow = [{ name = "f", kind = "udp", payload = 100, rate = "10 kbit/s" }]
"#;
    let scenario = Scenario::parse(&dir.path().join("t.toml").to_string_lossy(), text).unwrap();
    let (record, _) = run(&scenario, "plain", "base");
    let arrived = record.paths[0].forward.packets.iter().filter_map(|packet| match packet.fate {
        Fate::Delivered(at) => Some(at.since(record.start).as_micros()),
        Fate::QueueDrop | Fate::Lost => None,
    });
    let arrived: Vec<u128> = arrived.collect();
    assert!(arrived.len() > 10 && arrived.iter().all(|at| at % 700_000 == 0), "{arrived:?}");
}

const BASELINES: &str = r#"
name = "t"
title = "t"
duration_s = 2
path = [
  { name = "a", rate = "10 Mbit/s", owd = "10 ms", queue = "100 kB" },
  { name = "b", rate = "4 Mbit/s", owd = "10 ms", queue = "100 kB" },
]
variant = [
  { label = "plain-b", paths = ["b"], flows = ["tcp"], baseline = { kind = "plain" } },
  { label = "mptcp", flows = ["tcp"], baseline = { kind = "mptcp" } },
  { label = "wireguard", flows = ["tcp"], baseline = { kind = "wireguard", program = "/nowhere/wireguard-go" } },
  { label = "commands", flows = ["web"] },
]
flow = [
  { name = "tcp", kind = "tcp", cc = "cubic" },
  { name = "web", kind = "command", server = "nc -l -p $PORT", client = "nc $SERVER $PORT" },
]
"#;

fn plan<'a>(scenario: &'a Scenario, label: &str) -> Plan<'a> {
    let variant = scenario.variant(label).unwrap();
    Plan { scenario, variant, cell: scenario.headline(), repeat: 0, seed: 1 }
}

#[test]
fn missing_features_of_a_backend_are_reported_per_variant() {
    let scenario = parse(BASELINES);
    let sim = Sim::default();
    assert_eq!(sim.lacks(&plan(&scenario, "plain-b")), None);
    for (label, word) in [("mptcp", "Multipath TCP"), ("wireguard", "WireGuard"), ("commands", "commands")] {
        let text = sim.lacks(&plan(&scenario, label)).unwrap();
        assert!(text.contains(word) && text.contains("netns"), "{text}");
        assert!(sim.run(&plan(&scenario, label), &mut |_| {}).is_err());
    }
    let missing = Netns::new("mpdccp".into()).lacks(&plan(&scenario, "wireguard")).unwrap();
    assert!(missing.contains("/nowhere/wireguard-go"), "{missing}");
}

/// In namespaces, all records of a TCP connection have the same size.
#[test]
fn a_trace_over_tcp_needs_the_simulator() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t.txt"), "0 100\n10 2500\n").unwrap();
    let text = r#"name = "t"
title = "t"
duration_s = 1
mode = "direct"
path = [{ name = "a", rate = "10 Mbit/s", queue = "100 kB" }]
variant = [{ label = "tcp", tcp = "cubic" }, { label = "ccid5", ccid = 5 }]
flow = [{ name = "f", kind = "udp", payload = 1000, source = { kind = "trace", file = "t.txt" } }]
"#;
    let scenario = Scenario::parse(dir.path().join("t.toml").to_str().unwrap(), text).unwrap();
    let lacks = |label| Netns::new("mpdccp".into()).lacks(&plan(&scenario, label));
    assert!(lacks("tcp").is_some_and(|why| why.contains("a trace over TCP")));
    assert_eq!(lacks("ccid5"), None);
}

#[test]
fn without_a_tunnel_flows_go_over_the_path_as_they_are() {
    let (record, stats) = run(&parse(BASELINES), "plain-b", "base");
    assert!(record.paths[0].forward.packets.is_empty());
    let rate = stats.metrics["rx_mbps"];
    assert!((3.0..4.1).contains(&rate), "{rate}");
}

#[test]
fn wrong_baselines_and_commands_say_what_is_allowed() {
    let cases = [
        ("kind = \"mptcp\"", "kind = \"mtcp\"", "wireguard"),
        (
            "baseline = { kind = \"mptcp\" }",
            "baseline = { kind = \"mptcp\" }, ccid = 5",
            "excludes other transports",
        ),
        ("label = \"mptcp\", flows = [\"tcp\"]", "label = \"mptcp\"", "only bulk or short TCP flows"),
        (", client = \"nc $SERVER $PORT\"", "", "needs mode = \"tunnel\" and `client`"),
        ("kind = \"command\"", "kind = \"tcp\", cc = \"bbr\"", "kind = \"command\""),
    ];
    for (from, to, mentions) in cases {
        assert!(BASELINES.contains(from), "{from}");
        let error = Scenario::parse("t.toml", &BASELINES.replacen(from, to, 1)).unwrap_err();
        assert!(error.line.is_some() && error.message.contains(mentions), "{to}: {error}");
    }
}

#[test]
fn a_far_end_is_farther_for_its_flow_only() {
    let text = |owd: &str| {
        parse(&format!(
            r#"
name = "t"
title = "t"
duration_s = 2
mode = "direct"
[[path]]
name = "a"
rate = "10 Mbit/s"
owd = "10 ms"
queue = "100 kB"
[[variant]]
label = "udp"
udp = true
[[flow]]
name = "near"
kind = "udp"
payload = 1000
rate = "1 Mbit/s"
[[flow]]
name = "far"
kind = "udp"
payload = 1000
rate = "1 Mbit/s"
{owd}
"#
        ))
    };
    let p50 = |scenario: &Scenario| {
        let (_, stats) = run(scenario, "udp", "base");
        [0, 1].map(|i: usize| stats.flows[i].phases[0].app_latency_ms.unwrap().p50)
    };
    let ([near, far], [same, _]) = (p50(&text("owd = \"40 ms\"")), p50(&text("")));
    assert!((far - near - 40.0).abs() < 1.0 && (near - same).abs() < 1.0, "{near} {far} {same}");
}

#[test]
fn the_example_of_three_paths_runs() {
    let scenario = Scenario::find("examples/three-paths").unwrap();
    let (record, stats) = run(&scenario, "default", "base");
    assert!(record.flows[0].received.len() > 1_000);
    assert!(stats.paths.iter().all(|p| p.phases.iter().any(|phase| phase.tx_mbps > 0.0)));
    assert!(stats.paths[1].phases.iter().any(|phase| phase.lost > 0), "the LTE link loses packets");
}
