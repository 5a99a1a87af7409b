//! Tests `mpdccp link` between two network namespaces.

use crate::common::spaces::Spaces;
use crate::common::{run, wait_for};
use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
fn packets_take_their_time_and_nothing_is_left() {
    let Some(mut spaces) = Spaces::new("mpl", &["a", "b"], &[]) else { return };
    let [a, b] = ["a", "b"].map(|name| spaces.space(name));
    let has_interface = |space: &str| run("ip", &format!("-n {space} link show wire")).status.success();
    let ends = format!("--a wire@{a} --b wire@{b} --a-addr 10.81.0.1/24 --b-addr 10.81.0.2/24");
    let options = "--rate 10M --reverse-rate 1M --delay 20ms --queue 60000B --qdisc codel --ecn --json";
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    command.arg("link").args(ends.split(' ')).args(options.split(' '));
    spaces.ends.push(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    wait_for("the interfaces", || has_interface(&a) && has_interface(&b));
    let ping = |count| run("ip", &format!("netns exec {a} ping -c {count} -i 0.2 -W 5 10.81.0.2"));
    wait_for("an answer", || ping(1).status.success());
    let answer = String::from_utf8(ping(3).stdout).unwrap();
    let min_ms: f64 = answer.rsplit_once("= ").unwrap().1.split('/').next().unwrap().parse().unwrap();
    assert!(min_ms >= 40.0, "{answer}");

    // A second link must not take over the interface of the first.
    let mut second = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    let second = second.arg("link").args(ends.split(' ')).output().unwrap();
    let message = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{message}");
    assert!(message.contains("already") && message.lines().count() == 1, "{message}");

    let link = spaces.ends.pop().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&link), rustix::process::Signal::INT)
        .unwrap();
    let output = link.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(!has_interface(&a) && !has_interface(&b));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for way in ["a_to_b", "b_to_a"] {
        let delivered: u64 = lines.iter().map(|line| line[way]["delivered"].as_u64().unwrap()).sum();
        assert!(delivered >= 4, "{way}: {text}");
        assert!(lines.iter().any(|line| line[way]["late_p99_us"].is_number()), "{way}: {text}");
    }
}

#[test]
fn an_error_is_one_line() {
    for (options, word) in [
        ("--a wire --b wire", "both wire"),
        ("--a x --b y --ecn", "--qdisc"),
        ("--a x --b y --key rate_trace=\"/nonexistent\"", "/nonexistent"),
        ("--a x@mpl-no-such-space --b y", "ip netns add mpl-no-such-space"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        let output = command.arg("link").args(options.split(' ')).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(word) && message.lines().count() == 1, "{message}");
    }
}
