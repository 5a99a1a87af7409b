//! If the lab cannot run, it prints one line, exits with code 2, and leaves nothing behind.

use crate::common::able;
use std::process::Command;

#[test]
fn wrong_scenarios_and_arguments_end_with_two() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.toml");
    std::fs::write(&file, "name = \"t\"\ntitle = \"t\"\nduration_s = 0\n[[path]]\nname = \"p\"\n[[variant]]\nlabel = \"c\"\n[[flow]]\nname = \"f\"\nkind = \"tcp\"\ncc = \"cubic\"\n").unwrap();
    let file = file.to_str().unwrap();
    let cases: [(&[&str], &str); 9] = [
        (&["run", file, "--backend", "sim"], "bad.toml:3: duration_s: must be above 0"),
        (&["run", "paper/no-such", "--backend", "sim"], "paper/multipath-udp"),
        (&["run", "paper/delay", "--backend", "sim", "--only", "nobody"], "unknown variant `nobody`"),
        (&["run", "paper/delay", "--backend", "sim", "--out", file], "bad.toml/runs: Not a directory"),
        (
            &["run", "paper/delay", "--backend", "uml"],
            "no User Mode Linux kernel at /no/kernel: build it with tools/uml/build",
        ),
        (&["compare", "nowhere", "."], "cannot read nowhere: No such file"),
        (&["reproduce", "papers", "--backend", "sim"], "expected a file or one of: paper"),
        (&["reproduce", "dcp", "--backend", "sim", "--duration", "5"], "remove --duration"),
        (
            &["reproduce", "paper", "--backend", "sim", "--only", "nobody"],
            "expected one of: A, B, C, late second",
        ),
    ];
    for (args, says) in cases {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        let out = lab
            .arg("lab")
            .args(args)
            .env("MPDCCP_UML", "/no/kernel")
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(
            said.starts_with("mpdccp: ") && said.lines().count() == 1 && said.contains(says),
            "{args:?}: {said}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["bad.toml"]);
}

/// If one experiment in a set fails, the others still run, but the set ends with an error.
#[test]
fn a_failed_experiment_of_a_set_ends_it_with_an_error() {
    if !able(&["ip"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let scenario = r#"
        name = "f"
        title = "The command fails"
        duration_s = 1
        path = [{ name = "p", rate = "10 Mbit/s", queue = "50 kB" }]
        variant = [{ label = "ccid5", ccid = 5 }]
        flow = [{ name = "c", kind = "command", client = "false" }]
    "#;
    std::fs::write(dir.path().join("f.toml"), scenario).unwrap();
    let file = dir.path().join("f.toml");
    let set = format!(
        "name = \"s\"\ntitle = \"s\"\n[[section]]\nname = \"one\"\nscenario = \"{}\"\nruns = 1\n",
        file.display()
    );
    std::fs::write(dir.path().join("set.toml"), set).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    let arguments = ["lab", "reproduce", "set.toml", "--backend", "netns", "--out", "out"];
    let out = lab.args(arguments).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("failed: ") && said.contains("some experiments failed"), "{said}");
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("report: "));
}

#[test]
fn packetdrill_scripts_pass_differ_or_are_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let open = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 < S 0:0(0) win 65535 <mss 1000,sackOK>\n\
        +0 > S. 0:0(0) ack 1 <...>\n+.05 < . 1:1(0) ack 1 win 60000\n+0 write(4, ..., 100) = 100\n";
    let play = |files: &[(&str, &str)], arguments: &[&str]| {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        lab.args(["lab", "packetdrill"]).args(arguments).current_dir(dir.path());
        for (name, lines) in files {
            std::fs::write(dir.path().join(name), format!("{open}{lines}")).unwrap();
            lab.arg(name);
        }
        let out = lab.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let same = ("same.pkt", "+0 > P. 1:101(100) ack 1\n");
    let other = ("other.pkt", "+0 > P. 1:102(101) ack 1\n");
    let wrong = ("wrong.pkt", "+0 close(4) = 0\n");
    let (expected, got) =
        ("`> P. 1:102(101) ack 1` at 0.050 s, within 4.0 ms", "`> . 1:101(100)` at 0.050 s");
    let differs = format!("other.pkt:6: differs\n    expected {expected}\n    got      {got}\n");
    assert_eq!(play(&[same], &[]), (Some(0), "same.pkt: passed\n".to_owned(), String::new()));
    assert_eq!(play(&[other, same], &[]), (Some(1), differs.clone() + "same.pkt: passed\n", String::new()));
    let (code, said, why) = play(&[wrong, other], &[]);
    assert_eq!((code, said), (Some(2), differs));
    assert!(why.starts_with("mpdccp: wrong.pkt:6: unsupported call `close`"), "{why}");
    // On a timeout, Reno halves the window, whereas CUBIC reduces it to 0.7 of its size.
    let halved = ("halved.pkt", "+1 %{ assert tcpi_snd_ssthresh == 5 }%\n");
    assert_eq!(play(&[halved], &["--congestion", "reno"]).0, Some(0));
    assert_eq!(play(&[halved], &[]).0, Some(1));
    assert_eq!(play(&[halved], &["--congestion", "vegas"]).0, Some(2));
    assert_eq!(
        play(&[], &["none.pkt"]).2,
        "mpdccp: cannot read none.pkt: No such file or directory (os error 2)\n"
    );
}

/// The reading end of the pipe is closed at once, as `head` would do.
#[test]
fn nobody_reading_is_no_reason_for_a_panic() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    let out = lab.args(["lab", "list"]).stdout(writer).output().unwrap();
    assert_eq!((out.status.code(), String::from_utf8_lossy(&out.stderr).as_ref()), (Some(141), ""));
    // The threads that make the runs write the progress.
    let (dir, (reader, writer)) = (tempfile::tempdir().unwrap(), std::io::pipe().unwrap());
    drop(reader);
    let scenario = r#"
        name = "f"
        title = "f"
        duration_s = 1
        mode = "direct"
        path = [{ name = "p", rate = "10 Mbit/s", queue = "50 kB" }]
        variant = [{ label = "ccid5", ccid = 5 }]
        flow = [{ name = "f", kind = "udp", payload = 1300, rate = "1 Mbit/s" }]
    "#;
    std::fs::write(dir.path().join("f.toml"), scenario).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    lab.args(["lab", "run", "f.toml", "--backend", "sim", "--out", "out"]).current_dir(dir.path());
    assert_eq!(lab.stderr(writer).status().unwrap().code(), Some(141));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_mpdccp")).arg("genkey").stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.code() == Some(1) && said.starts_with("mpdccp: ") && said.lines().count() == 1,
        "{said}"
    );
}

/// Only a kernel's init process may turn the kernel off. The test runs without capabilities, so that this
/// host stays on even if the test fails.
#[test]
fn a_guest_outside_its_kernel_turns_nothing_off() {
    let mut powerless = Command::new("setpriv");
    powerless.args(["--bounding-set", "-all", "--inh-caps", "-all", env!("CARGO_BIN_EXE_mpdccp")]);
    let Ok(out) = powerless.args(["lab", "guest", "/nonexistent"]).output() else {
        return crate::common::skipped("no program setpriv");
    };
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("only for the first process of the kernel"), "{said}");
}
