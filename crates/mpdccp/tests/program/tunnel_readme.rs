//! Sets up the first tunnel of README.md with the commands that a new user would type.

use crate::common::{able, blocks, run, wait_for};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A host with its own directory. Dropping this value removes the host.
struct Host {
    space: String,
    directory: tempfile::TempDir,
    tunnel: Option<Child>,
}

impl Host {
    fn new(name: &str) -> Host {
        let space = format!("mpf{}{name}", std::process::id());
        run("ip", &format!("netns add {space}"));
        let directory = tempfile::tempdir().unwrap();
        ["run", "lib"].iter().for_each(|name| std::fs::create_dir(directory.path().join(name)).unwrap());
        let host = Host { space, directory, tunnel: None };
        host.sh("ip link set lo up");
        host
    }

    fn command(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_mpdccp")).parent().unwrap();
        let mut command = Command::new("ip");
        // Both tunnels have the same name, so each host needs separate runtime and state directories.
        let line = format!("mount --bind run /run; mount --bind lib /var/lib; {line}");
        command.args(["netns", "exec", &self.space, "sh", "-ec", &line]).current_dir(self.directory.path());
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path);
        command
    }

    fn sh(&self, line: &str) -> Output {
        let output = self.command(line).output().unwrap();
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(tunnel) = &mut self.tunnel {
            let pid = rustix::process::Pid::from_child(tunnel);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = tunnel.wait();
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.directory.path().join("log"));
            println!("--- {}\n{}", self.space, log.unwrap_or_default());
        }
        run("ip", &format!("netns del {}", self.space));
    }
}

#[test]
fn the_first_tunnel_of_the_readme() {
    if !able(&[]) {
        return;
    }
    let [mut server, mut client] = ["s", "c"].map(Host::new);
    for (line, there, here) in
        [("eth0", "192.0.2.1", "192.0.2.10"), ("wwan0", "198.51.100.1", "198.51.100.10")]
    {
        let [c, s] = [&client.space, &server.space];
        run("ip", &format!("link add {line} netns {c} type veth peer name {line} netns {s}"));
        server.sh(&format!("ip addr add {there}/24 dev {line}; ip link set {line} up"));
        let metric = if line == "eth0" { 100 } else { 200 };
        client.sh(&format!(
            "ip addr add {here}/24 dev {line}; ip link set {line} up; ip route add default via {there} dev {line} metric {metric}"
        ));
    }
    server.sh("ip addr add 203.0.113.1/32 dev lo");

    let (page, title) = (include_str!("../../../../README.md"), "A tunnel in three steps");
    let (commands, files) = (blocks(page, title, "sh"), blocks(page, title, "toml"));
    assert_eq!((commands.len(), files.len()), (2, 2));
    let printed = [&server, &client].map(|host| String::from_utf8(host.sh(commands[0]).stdout).unwrap());
    for ((host, name), (file, key)) in [(&server, "server.toml"), (&client, "client.toml")]
        .into_iter()
        .zip(files.iter().zip(printed.iter().rev()))
    {
        let (before, rest) = file.split_once('<').unwrap();
        let (_, after) = rest.split_once('>').unwrap();
        std::fs::write(host.directory.path().join(name), format!("{before}{}{after}", key.trim())).unwrap();
    }
    for line in commands[1].lines() {
        let (line, place) = line.split_once(" # on the ").unwrap();
        let host = if place.starts_with("server") { &mut server } else { &mut client };
        if line.contains(" up ") {
            let log = File::create(host.directory.path().join("log")).unwrap();
            let mut command = host.command(&format!("exec {line}"));
            host.tunnel = Some(command.stderr(log).stdout(Stdio::null()).spawn().unwrap());
            continue;
        }
        // The command succeeds only once the tunnel is up, so repeat it until then.
        wait_for(line, || host.command(line).output().unwrap().status.success());
        if line.contains("status") {
            wait_for("both lines are in the status", || {
                let text = String::from_utf8(host.sh(line).stdout).unwrap();
                ["dsl", "lte"].iter().all(|path| text.lines().any(|l| l.contains(path) && l.contains("up")))
            });
        }
    }
}
