//! Tests of the programs in `tools/`. None of them needs root.

use std::path::Path;
use std::process::{Command, Output};

/// Loads a program of `tools/` as a Python module without running it.
const LOAD: &str = r#"
import argparse, importlib.machinery, importlib.util, math, pathlib, sys, tempfile, types
from unittest import mock
sys.dont_write_bytecode = True
def load(name):
    loader = importlib.machinery.SourceFileLoader("tool", "tools/" + name)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tool", loader))
    loader.exec_module(module)
    return module
"#;

/// Runs a command in the repository's top directory, and ends it if it hangs.
fn tool(program: &str, arguments: &[&str]) -> Output {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // No test builds the program that the tools would measure.
    let mut command = Command::new("timeout");
    command.args(["60", program]).args(arguments).env("MPDCCP_PROGRAM", "/nonexistent").current_dir(top);
    command.output().unwrap()
}

/// Runs `script` after [`LOAD`]. The script must print `good`.
fn python(script: &str) {
    let out = tool("python3", &["-c", &format!("{LOAD}{script}")]);
    let [said, errors] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
    if out.status.code() == Some(127) {
        return println!("SKIPPED a program of tools/: python3 is not installed");
    }
    assert!(out.status.success() && said.ends_with("good\n"), "{said}{errors}");
}

#[test]
fn a_bed_does_not_wait_for_programs_that_ended() {
    python(
        r#"
bed = load("tcp/bed.py")
ran = []
bed.sh = lambda *args, **_: ran.append(args) or types.SimpleNamespace(stdout="", returncode=1)
try:
    bed.Bed("false", [["--rate", "1M"]])
except RuntimeError as e:
    # The namespaces are removed.
    assert "ended" in str(e) and sum(args[:3] == ("ip", "netns", "del") for args in ran) == 2
with bed.Bed("false", []) as one:
    one.tunnels = {"c": one.spawn(["false"], "c")}
    try:
        one.wait_until_up("c", 1)
    except RuntimeError as e:
        assert "did not come up" in str(e)
        print("good")
"#,
    );
}

#[test]
fn a_failed_measurement_has_no_value() {
    python(
        r#"
bench = load("bench/all").Bench(None)
bench.iperf = lambda *_: ({}, None)
bench.udp(types.SimpleNamespace(name="mpdccp"))
assert len(bench.results) == 3 and all(math.isnan(value) for [value] in bench.results.values()), bench.results
slow = {"sum": {"lost_percent": 1}, "sum_received": {"bits_per_second": 1e6}}
fast = {"sum": {"lost_percent": 0}, "sum_received": {"bits_per_second": 2e6}}
reports = [fast, slow, fast, fast]
bench.iperf, bench.results = lambda *_: (reports.pop(0), None), {}
bench.udp(types.SimpleNamespace(name="mpdccp"))
assert bench.results["mpdccp", "udp 1200 B at most 0.1 % lost Mbit/s"] == [2.0], bench.results
print("good")
"#,
    );
}

#[test]
fn shards_are_not_measured_without_a_tunnel() {
    python(
        r#"
shards = load("bench/shards")
shards.sh, shards.time = lambda *_, **__: types.SimpleNamespace(returncode=1), mock.MagicMock()
with tempfile.TemporaryDirectory() as directory:
    for name in ("s", "c0", "c1"):
        (pathlib.Path(directory) / f"{name}.log").write_text(name)
    try:
        shards.wait_until_up(directory)
    except RuntimeError as e:
        assert "did not come up" in str(e) and str(e).endswith("sc0c1")
        print("good")
"#,
    );
}

/// For a moment, client `c1` has no path that is up, so no server lists it.
#[test]
fn a_fleet_judges_a_client_that_no_server_lists() {
    python(
        r#"
run = load("fleet/run")
run.sh = lambda *_, **__: ""
fleet = mock.MagicMock()
fleet.args = argparse.Namespace(clients=2, servers=2, encapsulations=["udp"], patient=False)
fleet.dir, fleet.ring, fleet.peers = pathlib.Path(tempfile.mkdtemp()), [], ""
fleet.auto.return_value = []
fleet.clients_of.return_value = {1: {"c0": 2}}
fleet.pings.report = lambda since, clients: ({i: 0 for i in clients}, {i: 0.0 for i in clients})
assert run.tour(fleet) == []
fleet.dir.rmdir()
print("good")
"#,
    );
}

#[test]
fn an_unknown_name_of_runs_is_refused_before_anything_runs() {
    for way in [&["none"][..], &["--uml", "paper-c", "none"], &["--bench", "none"]] {
        let out = tool("tools/rerun", way);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{way:?}: {said}");
        assert!(said.contains("unknown name `") && said.contains("expected one of: "), "{way:?}: {said}");
    }
}
