//! Tests of the namespace backend. The tests of namespaces, links, traffic and clean-up need no tunnel. In
//! place of the program, they use a script that routes the inner addresses over the first path.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use mpdccp_lab::metrics::run_stats;
use mpdccp_lab::netns::{self, Netns};
use mpdccp_lab::sim::Sim;
use mpdccp_lab::summary::Run;
use mpdccp_lab::{Backend, Fate, LabError, Plan, Sample, Scenario};

const SCENARIO: &str = r#"
name = "short"
title = "One path for a second"
duration_s = 1
[[path]]
name = "path1"
rate = "20 Mbit/s"
queue = "50000 B"
owd = "5 ms"
events = [{ at_s = 0.5, rate = "2 Mbit/s" }]
[[variant]]
label = "stand-in"
ccid = 2
[[flow]]
name = "udp"
kind = "udp"
payload = 1000
rate = "4 Mbit/s"
"#;

/// Lets only one test run at a time, because the tests change the state of the whole process. If the tests
/// cannot run on this machine, prints the reason and returns `None`.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    netns::check_environment().inspect_err(|e| println!("SKIPPED {e}")).is_ok().then_some(alone)
}

fn script(dir: &Path, text: &str) -> PathBuf {
    let file = dir.join("stand-in");
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

const FORWARD: &str = r#"
if [ "$2" = status ]; then
    echo '{"peers": [{"paths": [{"state": "up"}], "queue": {"dropped_full": 3, "dropped_old": 4, "dropped_early": 0}}]}'
    exit
fi
if grep -q '"client"' "$4" && ! grep -q listen "$4"; then me=1; peer=2; else me=2; peer=1; fi
ip addr add 10.9.0.$me/32 dev lo
ip route add 10.9.0.$peer/32 via 10.77.0.$peer dev path0 src 10.9.0.$me
exec sleep 60
"#;

/// Returns the namespaces and child processes that this process left behind.
fn leftovers() -> Vec<String> {
    let prefix = format!("mpdccp-lab-{}-", std::process::id());
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let mut left: Vec<String> = names
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|n| n.starts_with(&prefix))
        .collect();
    let children = format!("/proc/self/task/{}/children", std::process::id());
    left.extend(
        fs::read_to_string(children)
            .unwrap_or_default()
            .split_whitespace()
            .map(|pid| format!("process {pid}")),
    );
    left
}

/// Returns [`SCENARIO`] with a flow over the kernel's TCP.
fn bulk() -> String {
    let udp = "kind = \"udp\"\npayload = 1000\nrate = \"4 Mbit/s\"";
    SCENARIO.replace(udp, "kind = \"tcp\"\ncc = \"cubic\"")
}

fn run(text: &str, program: &Path, watch: &mut dyn FnMut(&Sample)) -> Result<Run, LabError> {
    let scenario = Scenario::parse("short", text).unwrap();
    let plan = Plan {
        scenario: &scenario,
        variant: &scenario.variants[0],
        cell: &scenario.cells[0],
        repeat: 0,
        seed: 1,
    };
    let record = Netns::new(program.to_owned()).run(&plan, watch)?;
    Ok(run_stats(&plan, &record))
}

#[test]
fn a_run_measures_the_link_it_made() {
    let Some(_alone) = alone() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut samples = 0;
    let stats = run(SCENARIO, &script(dir.path(), FORWARD), &mut |_| samples += 1).unwrap();
    assert_eq!(leftovers(), Vec::<String>::new());
    assert!(samples >= 5);
    let flow = &stats.flows[0];
    assert_eq!((flow.sent, flow.dropped_at_sender), (Some(500), Some(7)));
    let [before, after] = flow.phases[..] else { panic!("two phases") };
    // Before the event, every packet takes at least the link's delay plus the transmission time.
    assert!(before.wire_latency_ms.unwrap().p50 >= 5.0 + 1028.0 * 8.0 / 20e3);
    assert!(before.app_latency_ms.unwrap().p50 >= before.wire_latency_ms.unwrap().p50);
    // After the event, 4 Mbit/s are offered to a link of 2 Mbit/s. Its queue of 200 ms fills up, and the link
    // is fully used, except for this machine's scheduling delays.
    assert!(after.rx_mbps <= 2.2, "{after:?}");
    assert!(after.app_latency_ms.unwrap().max > 100.0, "{after:?}");
}

#[test]
fn nothing_is_left_after_an_interruption_or_a_failure() {
    let Some(_alone) = alone() else { return };
    let dir = tempfile::tempdir().unwrap();
    let early =
        run(SCENARIO, &script(dir.path(), "echo no such luck; exit 3"), &mut |_| {}).unwrap_err().to_string();
    assert!(early.contains("ended early") && early.contains("no such luck"), "{early}");
    assert_eq!(leftovers(), Vec::<String>::new());
    let stopped = run(SCENARIO, &script(dir.path(), FORWARD), &mut |_| netns::interrupt()).unwrap_err();
    assert!(matches!(stopped, LabError::Interrupted), "{stopped}");
    netns::resume();
    assert_eq!(leftovers(), Vec::<String>::new());
}

#[test]
fn kernel_tcp_runs_inside_and_in_place_of_a_tunnel() {
    let Some(_alone) = alone() else { return };
    let dir = tempfile::tempdir().unwrap();
    let stats = run(&bulk(), &script(dir.path(), FORWARD), &mut |_| {}).unwrap();
    let flow = &stats.flows[0];
    assert!(flow.received > 20 && flow.tcp.is_some(), "{flow:?}");
    // The tap is at the place where packets enter the path, so the latency is that of the link.
    assert!(flow.phases[0].app_latency_ms.unwrap().p50 >= 5.0, "{flow:?}");

    let direct = SCENARIO
        .replace("ccid = 2", "tcp = \"cubic\"")
        .replace("duration_s = 1", "duration_s = 1\nmode = \"direct\"");
    let stats = run(&direct, Path::new("/nonexistent"), &mut |_| {}).unwrap();
    let flow = &stats.flows[0];
    assert_eq!(
        (flow.kind.as_str(), flow.sent, flow.reordered, flow.duplicates),
        ("tcp", Some(500), Some(0), Some(0))
    );
    // TCP never loses a record that it has accepted, so only the records that the sender dropped before TCP
    // are lost.
    assert_eq!(flow.lost, flow.dropped_at_sender);
    assert!(flow.phases[0].app_latency_ms.unwrap().p50 >= 5.0, "{flow:?}");
    assert_eq!(leftovers(), Vec::<String>::new());
}

#[test]
fn tcp_as_streams_counts_by_what_the_application_reads_and_only_if_there_are_streams() {
    let Some(_alone) = alone() else { return };
    let dir = tempfile::tempdir().unwrap();
    let bulk = bulk().replace("ccid = 2", "ccid = 2\ntunnel = { tcp = \"streams\" }");
    let streams = |opened: u64| {
        let status = format!("{{\"tcp\": {{\"opened\": {opened}}}, \"peers\"");
        run(&bulk, &script(dir.path(), &FORWARD.replace("{\"peers\"", &status)), &mut |_| {})
    };
    let stats = streams(2).unwrap();
    let flow = &stats.flows[0];
    assert_eq!((flow.streams, flow.sent), (Some(2), None));
    assert!(flow.received > 0, "{flow:?}");
    let error = streams(0).unwrap_err().to_string();
    assert!(error.contains("the tunnel carried no TCP connection as a stream"), "{error}");
    assert_eq!(leftovers(), Vec::<String>::new());
}

#[test]
fn a_plain_dccp_connection_runs_in_place_of_a_tunnel() {
    let Some(_alone) = alone() else { return };
    let direct =
        SCENARIO.replace("duration_s = 1", "duration_s = 1\nmode = \"direct\"\n[tunnel]\nqueue_packets = 5");
    let stats = run(&direct, Path::new("/nonexistent"), &mut |_| {}).unwrap();
    let flow = &stats.flows[0];
    assert_eq!((flow.kind.as_str(), flow.sent), ("dccp", Some(500)));
    assert!(flow.received > 100 && flow.dropped_at_sender.is_some(), "{flow:?}");
    assert!(flow.phases[0].wire_latency_ms.unwrap().p50 >= 5.0, "{flow:?}");
    assert_eq!(leftovers(), Vec::<String>::new());
}

/// Runs the variant `label` of the scenario `text`. The variant must be a baseline, which does not need the
/// program.
fn run_baseline(text: &str, label: &str) -> Run {
    let scenario = Scenario::parse("baselines", text).unwrap();
    let variant = scenario.variant(label).unwrap();
    let plan = Plan { scenario: &scenario, variant, cell: &scenario.cells[0], repeat: 0, seed: 1 };
    let backend = Netns::new("/nonexistent".into());
    assert_eq!(backend.lacks(&plan), None);
    let record = backend.run(&plan, &mut |_| {}).unwrap();
    assert_eq!(leftovers(), Vec::<String>::new());
    let outputs: usize = record.flows.iter().map(|flow| flow.output.len()).sum();
    assert_eq!(outputs, if record.flows[0].kind == "command" { 2 } else { 0 });
    run_stats(&plan, &record)
}

const BASELINES: &str = r#"
name = "baselines"
title = "What is not ours"
duration_s = 1
[[path]]
name = "a"
rate = "20 Mbit/s"
queue = "50000 B"
owd = "5 ms"
[[path]]
name = "b"
rate = "10 Mbit/s"
queue = "50000 B"
owd = "5 ms"
[[variant]]
label = "plain-b"
paths = ["b"]
flows = ["shell"]
baseline = { kind = "plain" }
[[variant]]
label = "routes"
flows = ["tcp"]
[variant.baseline]
kind = "command"
server = "ip addr add $SERVER/32 dev lo; ip route add $CLIENT via ${CLIENT_PATHS%% *} src $SERVER; exec sleep 60"
client = "ip addr add $CLIENT/32 dev lo; ip route add $SERVER via ${SERVER_PATHS%% *} src $CLIENT; exec sleep 60"
[[variant]]
label = "mptcp"
flows = ["tcp"]
baseline = { kind = "mptcp" }
[[flow]]
name = "shell"
kind = "command"
server = "echo $PORT; exec sleep 60"
client = "echo to $SERVER; ping -c 20 -i 0.02 -s 1000 $SERVER"
[[flow]]
name = "tcp"
kind = "tcp"
cc = "cubic"
"#;

#[test]
fn any_command_is_traffic_and_any_command_a_tunnel() {
    let Some(_alone) = alone() else { return };
    if std::process::Command::new("ping").arg("-V").output().is_err() {
        println!("SKIPPED there is no ping");
        return;
    }
    let pings = &run_baseline(BASELINES, "plain-b").flows[0];
    // The tap at the server's end of the path sees echo requests of 1,028 bytes.
    assert_eq!((pings.kind.as_str(), pings.sent, pings.received), ("command", Some(20), 20));
    assert!(pings.phases[0].app_latency_ms.unwrap().p50 >= 5.0 + 1028.0 * 8.0 / 10e3, "{pings:?}");
    // In reverse, the taps see the replies, also on a path without a tunnel.
    let reverse = BASELINES.replace("name = \"shell\"\n", "name = \"shell\"\nreverse = true\n");
    let replies = &run_baseline(&reverse, "plain-b").flows[0];
    assert_eq!((replies.sent, replies.received), (Some(20), 20));
    let tcp = &run_baseline(BASELINES, "routes").flows[0];
    assert!(tcp.received > 20 && tcp.phases[0].app_latency_ms.unwrap().p50 >= 5.0, "{tcp:?}");
}

/// The shell runs the program as a child, and the child must end as well.
#[test]
fn a_command_sends_nothing_after_its_flow_stops() {
    let Some(_alone) = alone() else { return };
    if std::process::Command::new("ping").arg("-V").output().is_err() {
        println!("SKIPPED there is no ping");
        return;
    }
    let once = "client = \"echo to $SERVER; ping -c 20 -i 0.02 -s 1000 $SERVER\"";
    let long = "stop_s = 0.7\nclient = \"ping -c 100 -i 0.02 -s 1000 $SERVER | cat; true\"";
    assert!(BASELINES.contains(once));
    let pings = &run_baseline(&BASELINES.replace(once, long), "plain-b").flows[0];
    assert!((1..50).contains(&pings.sent.unwrap()), "{pings:?}");
}

#[test]
fn short_flows_run_over_kernel_tcp() {
    let Some(_alone) = alone() else { return };
    let shell = BASELINES.split("[[flow]]").nth(1).unwrap();
    let web =
        "\nname = \"shell\"\nkind = \"short\"\ncc = \"cubic\"\nsizes = [\"10 kB\"]\nevery = \"50 ms\"\n";
    let stats = run_baseline(&BASELINES.replace(shell, web), "plain-b");
    let web = &stats.flows[0];
    assert!(web.sent.unwrap() > 5 && stats.metrics["fct_missing_pct"] < 20.0, "{web:?}");
    // A connection takes at least three one-way delays, for the handshake and the data, plus the transmission
    // of 10 kB at 10 Mbit/s.
    assert!(stats.metrics["fct_p50_ms"] > 3.0 * 5.0 + 8.0, "{:?}", stats.metrics);
}

#[test]
fn connections_over_a_dead_path_do_not_delay_the_end() {
    let Some(_alone) = alone() else { return };
    let shell = BASELINES.split("[[flow]]").nth(1).unwrap();
    let web =
        "\nname = \"shell\"\nkind = \"short\"\ncc = \"cubic\"\nsizes = [\"10 kB\"]\nevery = \"50 ms\"\n";
    let dead = "rate = \"10 Mbit/s\"\nevents = [{ at_s = 0.2, up = false }]\n";
    let begun = std::time::Instant::now();
    run_baseline(&BASELINES.replace(shell, web).replace("rate = \"10 Mbit/s\"\n", dead), "plain-b");
    // Without a limit, the kernel gives up after two minutes.
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

#[test]
fn a_flow_that_begins_over_a_dead_path_carries_nothing() {
    let Some(_alone) = alone() else { return };
    let shell = BASELINES.split("[[flow]]").nth(1).unwrap();
    let bulk = "\nname = \"shell\"\nkind = \"tcp\"\ncc = \"cubic\"\nstart_s = 0.5\n";
    let dead = "rate = \"10 Mbit/s\"\nevents = [{ at_s = 0.2, up = false }]\n";
    let text = BASELINES.replace(shell, bulk).replace("rate = \"10 Mbit/s\"\n", dead);
    assert_eq!(run_baseline(&text, "plain-b").metrics["goodput_mbps"], 0.0);
}

#[test]
fn a_flow_with_three_for_a_loss_is_the_model_in_real_time() {
    let Some(_alone) = alone() else { return };
    let text = BASELINES.replace(
        "kind = \"tcp\"\ncc = \"cubic\"",
        "kind = \"tcp\"\ncc = \"bbr\"\nloss_detection = \"three\"",
    );
    let stats = run_baseline(&text, "routes");
    let flow = &stats.flows[0];
    assert_eq!(flow.model.as_deref(), Some("model of TCP BBR"));
    assert!(flow.received > 20 && flow.phases[0].app_latency_ms.unwrap().p50 >= 5.0, "{flow:?}");
    // The model's packets have the size of the path's MTU.
    assert!(stats.metrics["goodput_mbps"] > 1.0 && stats.paths[0].phases[0].rx_mbps <= 21.0, "{stats:?}");
}

#[test]
fn multipath_tcp_uses_both_paths() {
    let Some(_alone) = alone() else { return };
    if fs::metadata("/proc/sys/net/mptcp/enabled").is_err() {
        println!("SKIPPED this kernel has no Multipath TCP");
        return;
    }
    let stats = run_baseline(&BASELINES.replace("duration_s = 1", "duration_s = 3"), "mptcp");
    let paths: Vec<f64> = stats.paths.iter().map(|path| path.phases[0].rx_mbps).collect();
    assert!(paths.iter().all(|mbps| *mbps > 1.0), "{paths:?}");
}

#[test]
fn a_seed_gives_the_same_start_and_losses_as_in_the_simulator() {
    let Some(_alone) = alone() else { return };
    let text = SCENARIO
        .replace("duration_s = 1", "duration_s = 1\nmode = \"direct\"\n[host]\nstart_within = \"500 ms\"")
        .replace("events = [{ at_s = 0.5, rate = \"2 Mbit/s\" }]", "loss = \"10 %\"")
        .replace("ccid = 2", "udp = true");
    let scenario = Scenario::parse("short", &text).unwrap();
    for seed in 1..=3 {
        let (variant, cell) = (&scenario.variants[0], &scenario.cells[0]);
        let plan = Plan { scenario: &scenario, variant, cell, repeat: 0, seed };
        let of = |backend: &dyn Backend| {
            let record = backend.run(&plan, &mut |_| {}).unwrap();
            let packets = record.paths[0].forward.packets.iter().filter_map(|p| Some((p.data?, p.fate)));
            let lost: Vec<_> =
                packets.filter(|(_, fate)| *fate == Fate::Lost).map(|(data, _)| data).collect();
            (record.flows[0].sent[0].at.since(record.start), lost)
        };
        let (real, simulated) = (of(&Netns::new("/nonexistent".into())), of(&Sim::default()));
        // No packet leaves before it is due, however busy the machine is.
        assert!(real.0 >= simulated.0, "{:?} is before {:?}", real.0, simulated.0);
        assert!(!real.1.is_empty());
        assert_eq!(real.1, simulated.1);
    }
}

#[test]
fn paths_share_a_link_and_far_ends_are_farther() {
    let Some(_alone) = alone() else { return };
    let udp = "kind = \"udp\"\npayload = 1000\nrate = \"8 Mbit/s\"\n";
    let flows = format!(
        "[[flow]]\nname = \"near\"\nvia = \"a\"\n{udp}[[flow]]\nname = \"far\"\nvia = \"b\"\nowd = \"30 ms\"\n{udp}"
    );
    let text = format!(
        "name = \"t\"\ntitle = \"t\"\nduration_s = 1\n[[path]]\nname = \"a\"\nrate = \"10 Mbit/s\"\nqueue = \"20 kB\"\nowd = \"5 ms\"\n\
         [[path]]\nname = \"b\"\nshares = \"a\"\n[[variant]]\nlabel = \"plain\"\nbaseline = {{ kind = \"plain\" }}\n{flows}"
    );
    let stats = run_baseline(&text, "plain");
    let [near, far] = [0, 1].map(|i: usize| stats.flows[i].phases[0]);
    // Both paths share one link of 10 Mbit/s with a queue of 16 ms.
    assert!((6.0..10.5).contains(&(near.rx_mbps + far.rx_mbps)), "{stats:?}");
    let least = |latency: Option<mpdccp_lab::summary::Latency>| latency.unwrap().p50;
    assert!(least(far.app_latency_ms) >= 35.0 && least(near.app_latency_ms) < 35.0, "{stats:?}");
    // The record of each path contains only that path's packets.
    let [a, b] = [0, 1].map(|i: usize| stats.paths[i].phases[0].tx_mbps);
    assert!(a > 4.0 && b > 4.0, "{a} {b}");
}
