//! "An office with two lines" of docs/tunnel.md, by its very commands and files.
#![cfg(target_os = "linux")]

#[allow(dead_code)] // Parts of it are for other tests.
mod common;

use common::{inside, missing, run, wait_for};
use dccp_secure::PrivateKey;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The blocks of the recipe that begin with this fence.
fn blocks(kind: &str) -> Vec<String> {
    let text = include_str!("../../../docs/tunnel.md");
    let (_, section) = text.split_once("## An office with two lines\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let fence = format!("```{kind}\n");
    let parts = section.split(&fence).skip(1);
    parts.map(|part| part.split_once("```").unwrap().0.to_owned()).collect()
}

/// The LAN, the router, the Internet and the server; gone when dropped.
struct Office {
    id: String,
    directory: tempfile::TempDir,
    ends: Vec<Child>,
}

impl Office {
    fn new() -> Office {
        let id = format!("mpr{}", std::process::id());
        let office = Office { id, directory: tempfile::tempdir().unwrap(), ends: Vec::new() };
        for name in ["lan", "router", "net", "server"] {
            run("ip", &format!("netns add {}", office.space(name)));
            office.sh(name, "ip link set lo up");
        }
        office.link(("lan", "eth0", "192.168.88.9/24"), ("router", "lan0", "192.168.88.1/24"));
        office.link(("router", "eth0", "192.0.2.10/24"), ("net", "dsl", "192.0.2.1/24"));
        office.link(("router", "wwan0", "198.51.100.10/24"), ("net", "lte", "198.51.100.1/24"));
        office.link(("server", "eth0", "203.0.113.1/24"), ("net", "hub", "203.0.113.254/24"));
        // DSL as it is.
        office.sh("router", "ip link set eth0 mtu 1492");
        office.sh("net", "ip link set dsl mtu 1492 && sysctl -qw net.ipv4.ip_forward=1");
        office.sh("net", "ip addr add 198.18.0.1/32 dev lo");
        office.sh("lan", "ip route add default via 192.168.88.1");
        office.sh("server", "ip route add default via 203.0.113.254");
        office
    }

    fn space(&self, name: &str) -> String {
        format!("{}{name}", self.id)
    }

    fn link(&self, (a, at, address): (&str, &str, &str), (b, bt, other): (&str, &str, &str)) {
        let [x, y] = [a, b].map(|name| self.space(name));
        run("ip", &format!("link add {at} netns {x} type veth peer name {bt} netns {y}"));
        for (name, interface, address) in [(a, at, address), (b, bt, other)] {
            self.sh(name, &format!("ip addr add {address} dev {interface} && ip link set {interface} up"));
        }
    }

    /// Runs shell commands at one of them, as one would type them.
    fn sh(&self, name: &str, commands: &str) {
        let space = self.space(name);
        let output =
            Command::new("ip").args(["netns", "exec", &space, "sh", "-ec", commands]).output().unwrap();
        assert!(output.status.success(), "{commands}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn up(&mut self, name: &str, text: &str, own: &PrivateKey, peer: &PrivateKey) {
        let key = self.path(&format!("{name}.key"));
        std::fs::write(&key, &*own.to_base64()).unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let (before, rest) = text.split_once('<').unwrap();
        let (_, after) = rest.split_once('>').unwrap();
        let text = format!("{before}{}{after}", peer.public());
        let text = text.replace("/etc/mpdccp/private.key", key.to_str().unwrap());
        let (file, control) = (self.path(&format!("{name}.toml")), self.path(&format!("{name}.sock")));
        std::fs::write(&file, format!("control = {control:?}\n{text}")).unwrap();
        let log = std::fs::File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut command = Command::new("ip");
        let program = env!("CARGO_BIN_EXE_mpdccp");
        command.args(["netns", "exec", &self.space(name), program, "tunnel", "up", "--config"]).arg(file);
        self.ends.push(command.stderr(log).stdout(Stdio::null()).spawn().unwrap());
        wait_for("control socket", || control.exists());
    }

    fn is_healthy(&self) -> bool {
        let socket = self.path("router.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        command.args(["tunnel", "health", "--all-paths", "--socket"]).arg(socket);
        command.output().unwrap().status.success()
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        for child in &mut self.ends {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            for name in ["router", "server"] {
                println!(
                    "--- {name}\n{}",
                    std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
                );
            }
        }
        for name in ["lan", "router", "net", "server"] {
            run("ip", &format!("netns del {}", self.space(name)));
        }
    }
}

#[test]
fn an_office_with_two_lines() {
    if let Some(why) = missing() {
        return println!("skipped: {why}");
    }
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("skipped: no program `nft`");
    }
    let mut office = Office::new();
    let (commands, files) = (blocks("sh"), blocks("toml"));
    assert_eq!((commands.len(), files.len()), (2, 2));
    office.sh("router", &commands[0]);
    office.sh("server", &commands[1]);
    let [router, server] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
    office.up("server", &files[1], &server, &router);
    office.up("router", &files[0], &router, &server);
    wait_for("both lines carry", || office.is_healthy());

    // A connection from the LAN to the Internet, which sees the server's address.
    let listen = || TcpListener::bind("198.18.0.1:80").unwrap();
    let listener = inside(&office.space("net"), listen);
    let connect = || TcpStream::connect("198.18.0.1:80").unwrap();
    let client = inside(&office.space("lan"), connect);
    let (web, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_string(), "203.0.113.1");
    let data: Vec<u8> = (0..500_000u32).map(|i| i as u8).collect();
    let back_and_forth = || {
        for (a, mut b) in [(&client, &web), (&web, &client)] {
            let (mut writer, sent) = (a.try_clone().unwrap(), data.clone());
            let writing = std::thread::spawn(move || writer.write_all(&sent).unwrap());
            let mut got = vec![0; data.len()];
            b.read_exact(&mut got).unwrap();
            writing.join().unwrap();
            assert!(got == data);
        }
    };
    back_and_forth();
    // DSL is pulled; the connection lives on.
    office.sh("net", "ip link set dsl down");
    back_and_forth();
}
