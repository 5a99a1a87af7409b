//! Sets up the first tunnel of README.md with the commands that a new user would type.

use crate::common::spaces::Spaces;
use crate::common::{blocks, wait_for};
use std::fs::{File, create_dir_all};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns a command for a shell on one of the hosts, each of which has its own directory.
fn command(spaces: &Spaces, name: &str, line: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_mpdccp")).parent().unwrap();
    // Both tunnels have the same name, so each host needs separate runtime and state directories.
    let line = format!("mount --bind run /run; mount --bind lib /var/lib; {line}");
    let mut command = spaces.command(name, "sh");
    command.args(["-ec", &line]).current_dir(spaces.path(name));
    command.env("PATH", format!("{}:{}", program.display(), std::env::var("PATH").unwrap()));
    command
}

fn sh(spaces: &Spaces, name: &str, line: &str) -> Output {
    let output = command(spaces, name, line).output().unwrap();
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn the_first_tunnel_of_the_readme() {
    let Some(mut spaces) = Spaces::new("mpf", &["s", "c"], &[]) else { return };
    for (name, directory) in [("s", "run"), ("s", "lib"), ("c", "run"), ("c", "lib")] {
        create_dir_all(spaces.path(name).join(directory)).unwrap();
    }
    for (line, there, here) in
        [("eth0", "192.0.2.1", "192.0.2.10"), ("wwan0", "198.51.100.1", "198.51.100.10")]
    {
        spaces.link(("c", line), ("s", line));
        spaces.sh("s", &format!("ip addr add {there}/24 dev {line}; ip link set {line} up"));
        let metric = if line == "eth0" { 100 } else { 200 };
        spaces.sh("c", &format!(
            "ip addr add {here}/24 dev {line}; ip link set {line} up; ip route add default via {there} dev {line} metric {metric}"
        ));
    }
    spaces.sh("s", "ip addr add 203.0.113.1/32 dev lo");

    let (page, title) = (include_str!("../../../../README.md"), "A tunnel in three steps");
    let (commands, files) = (blocks(page, title, "sh"), blocks(page, title, "toml"));
    assert_eq!((commands.len(), files.len()), (2, 2));
    let printed = ["s", "c"].map(|name| String::from_utf8(sh(&spaces, name, commands[0]).stdout).unwrap());
    for ((name, target), (file, key)) in
        [("s", "server.toml"), ("c", "client.toml")].into_iter().zip(files.iter().zip(printed.iter().rev()))
    {
        let (before, rest) = file.split_once('<').unwrap();
        let (_, after) = rest.split_once('>').unwrap();
        std::fs::write(spaces.path(name).join(target), format!("{before}{}{after}", key.trim())).unwrap();
    }
    for line in commands[1].lines() {
        let (line, place) = line.split_once(" # on the ").unwrap();
        let name = if place.starts_with("server") { "s" } else { "c" };
        if line.contains(" up ") {
            let log = File::create(spaces.path(&format!("{name}.log"))).unwrap();
            let mut command = command(&spaces, name, &format!("exec {line}"));
            spaces.ends.push(command.stderr(log).stdout(Stdio::null()).spawn().unwrap());
            continue;
        }
        // The command succeeds only once the tunnel is up, so repeat it until then.
        wait_for(line, || command(&spaces, name, line).output().unwrap().status.success());
        if line.contains("status") {
            wait_for("both lines are in the status", || {
                let text = String::from_utf8(sh(&spaces, name, line).stdout).unwrap();
                ["dsl", "lte"].iter().all(|path| text.lines().any(|l| l.contains(path) && l.contains("up")))
            });
        }
    }
}
