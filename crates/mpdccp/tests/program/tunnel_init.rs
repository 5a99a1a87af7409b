//! The files that `mpdccp tunnel init` and `import` write make a working tunnel.

use crate::common::{missing, run, skipped, wait_for};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A client with two lines, and a server. Dropping this removes them.
struct World {
    id: String,
    directory: tempfile::TempDir,
    ends: Vec<Child>,
}

impl World {
    fn new(n: u8) -> World {
        let id = format!("mpi{}-{n}", std::process::id());
        let world = World { id, directory: tempfile::tempdir().unwrap(), ends: Vec::new() };
        let [c, s] = ["c", "s"].map(|name| world.space(name));
        for space in [&c, &s] {
            run("ip", &format!("netns add {space}"));
            run("ip", &format!("-n {space} link set lo up"));
        }
        for (i, line) in ["eth0", "wwan0"].into_iter().enumerate() {
            run("ip", &format!("link add {line} netns {c} type veth peer name p{i} netns {s}"));
            run("ip", &format!("-n {c} addr add 192.168.{i}.2/24 dev {line}"));
            run("ip", &format!("-n {s} addr add 192.168.{i}.1/24 dev p{i}"));
            run("ip", &format!("-n {c} link set {line} up"));
            run("ip", &format!("-n {s} link set p{i} up"));
            run("ip", &format!("-n {c} route add default via 192.168.{i}.1 dev {line} metric {}", 100 + i));
        }
        run("ip", &format!("-n {s} addr add 203.0.113.1/32 dev lo"));
        world
    }

    fn space(&self, name: &str) -> String {
        format!("{}{name}", self.id)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn mpdccp(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(name), env!("CARGO_BIN_EXE_mpdccp"), "tunnel"]).args(args);
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// Starts both ends with these files. The server's inner address must answer, and both paths must come up.
    fn carries(&mut self, server: &str) {
        for (name, file) in [("s", "server.toml"), ("c", "client.toml")] {
            let text = std::fs::read_to_string(self.path(file)).unwrap();
            let socket = self.path(&format!("{name}.sock"));
            let state = self.path("state");
            std::fs::write(self.path(file), format!("control = {socket:?}\nstate = {state:?}\n{text}"))
                .unwrap();
            let log = std::fs::File::create(self.path(&format!("{name}.log"))).unwrap();
            let mut command = self.mpdccp(name, &["up", "--config", file]);
            self.ends.push(command.stderr(log).stdout(Stdio::null()).spawn().unwrap());
            wait_for("control socket", || socket.exists());
        }
        wait_for("both paths", || {
            self.mpdccp("c", &["health", "--all-paths", "--socket", "c.sock"])
                .output()
                .unwrap()
                .status
                .success()
        });
        let ping = format!("netns exec {} ping -c 1 -W 5 {server}", self.space("c"));
        assert!(run("ip", &ping).status.success(), "{server}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for child in &mut self.ends {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in ["c", "s"] {
            run("ip", &format!("netns del {}", self.space(name)));
        }
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_files_of_init_make_a_tunnel_over_the_lines_of_this_host() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let mut world = World::new(0);
    let init = ["init", "--server", "203.0.113.1", "--network", "10.9.0.0/24"];
    let output = world.mpdccp("c", &init).output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for words in [
        "Lines of this host: eth0 (eth0), lte (wwan0)",
        "1. scp -p ./server.toml root@203.0.113.1:",
        "ping 10.9.0.1",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
    for file in ["client.toml", "server.toml"] {
        assert_eq!(std::fs::metadata(world.path(file)).unwrap().permissions().mode() & 0o777, 0o600);
        let check = world.mpdccp("c", &["check", file]).output().unwrap();
        assert!(text(&check).contains("no errors, no warnings"), "{}", text(&check));
    }
    let before = std::fs::read(world.path("client.toml")).unwrap();
    let again = world.mpdccp("c", &init).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again).contains("client.toml exists"), "{}", text(&again));
    assert_eq!(std::fs::read(world.path("client.toml")).unwrap(), before);
    world.carries("10.9.0.1");
}

#[test]
fn init_says_what_is_wrong_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["--server", "not a host"][..], "--server"),
        (&["--server", "203.0.113.1", "--line", "eth0"], "expected NAME=INTERFACE"),
        (&["--server", "203.0.113.1", "--line", "a=b", "--network", "10.0.0.0/31"], "at least two hosts"),
        (
            &["--server", "203.0.113.1", "--line", "a=b", "--directory", "none"],
            "cannot write none/client.toml",
        ),
        (
            &["--server", "203.0.113.1", "--line", "a=b", "--line", "a=c", "--network", "10.9.0.0/24"],
            "is not valid",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        let output = command.args(["tunnel", "init"]).args(args).current_dir(&directory).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output).contains(words) && text(&output).lines().count() == 1, "{}", text(&output));
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn two_files_of_wireguard_become_a_tunnel() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let mut world = World::new(1);
    let keys = [1, 2].map(|n| dccp_secure::PrivateKey::from_random([n; 32]));
    let [client, server] =
        [0, 1].map(|i: usize| (keys[i].to_base64().to_string(), keys[i].public().to_string()));
    let of_client = format!(
        "[Interface]\nPrivateKey = {}\nAddress = 10.8.0.2/24\nPostUp = true\n\n[Peer]\nPublicKey = {}\nAllowedIPs = 10.8.0.0/24\nEndpoint = 203.0.113.1:51820\n",
        client.0, server.1
    );
    let of_server = format!(
        "[Interface]\nPrivateKey = {}\nAddress = 10.8.0.1/24\nListenPort = 51820\n\n[Peer]\nPublicKey = {}\nAllowedIPs = 10.8.0.2/32\n",
        server.0, client.1
    );
    for (name, file, text_of, out) in
        [("c", "wg0.conf", of_client, "client.toml"), ("s", "hub.conf", of_server, "server.toml")]
    {
        std::fs::write(world.path(file), text_of).unwrap();
        let output = world.mpdccp(name, &["import", file, "--output", out]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(
            text(&output).contains("Not imported: line 4: PostUp = true"),
            name == "c",
            "{}",
            text(&output)
        );
    }
    let wrong = world.mpdccp("c", &["import", "client.toml"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    world.carries("10.8.0.1");
}
