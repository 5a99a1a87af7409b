//! A test bed: two network namespaces joined by two veth paths, with a tunnel end in each. Dropping the bed
//! removes everything.

mod host;
pub(crate) mod spaces;
pub(crate) mod stream;

pub(crate) use host::{able, ip, printed, run, set_mode, skipped, wait_for, write_private};

use dccp_secure::PrivateKey;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use spaces::Spaces;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Remote addresses of the paths. Path one uses IPv4; path two uses IPv6.
pub(crate) const REMOTE: [&str; 2] = ["192.168.71.2", "fd71::2"];
pub(crate) const LOCAL: [&str; 2] = ["192.168.71.1", "fd71::1"];
/// Addresses inside the tunnel.
pub(crate) const CLIENT: [&str; 2] = ["10.71.0.2", "fd71:71::2"];
pub(crate) const SERVER: [&str; 2] = ["10.71.0.1", "fd71:71::1"];

pub(crate) struct Bed {
    /// Namespaces of the client and the server.
    pub(crate) space: [String; 2],
    pub(crate) spaces: Spaces,
    /// Remotes of the client's paths, if they differ from the server's addresses. A TOML list gives a path
    /// several remotes.
    pub(crate) remote: [String; 2],
    /// Further networks behind the server, to be added to `allowed_ips` in the client's configuration.
    pub(crate) allowed: String,
    /// Changes to the ends' configurations: the end, the old text and the new text.
    pub(crate) change: Vec<(&'static str, String, String)>,
    /// Additional arguments of both ends.
    pub(crate) arguments: Vec<&'static str>,
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Limit on descriptors of each end.
    pub(crate) descriptors: Option<u32>,
}

/// Runs `make` inside a namespace and returns its result.
pub(crate) fn inside<T: Send + 'static>(space: &str, make: impl FnOnce() -> T + Send + 'static) -> T {
    let space = format!("/run/netns/{space}");
    // Use a separate thread, because a thread that enters a namespace stays in it.
    let there = move || {
        let space = std::fs::File::open(space).unwrap();
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        make()
    };
    std::thread::spawn(there).join().unwrap()
}

/// Opens a UDP socket inside a namespace.
pub(crate) fn socket(space: &str, bind: &str) -> UdpSocket {
    let bind = bind.to_owned();
    inside(space, move || UdpSocket::bind(bind).unwrap())
}

/// Sends a request to an HTTP server inside a namespace. Returns the answer.
pub(crate) fn http(space: &str, server: &'static str, request: String) -> String {
    inside(space, move || {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

/// Returns the payloads of the UDP packets in a raw IP capture.
pub(crate) fn udp_payloads(pcap: &[u8]) -> Vec<Vec<u8>> {
    ip_payloads(pcap).into_iter().map(|(_, payload)| payload[8..].to_vec()).collect()
}

/// Returns the protocols and payloads of the packets in a raw IP capture.
pub(crate) fn ip_payloads(pcap: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let split = |packet: &[u8]| {
        let (protocol, header) = if packet[0] >> 4 == 4 { (packet[9], 20) } else { (packet[6], 40) };
        (protocol, packet[header..].to_vec())
    };
    packets(pcap).into_iter().map(split).collect()
}

/// Returns the packets in a raw IP capture.
pub(crate) fn packets(pcap: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = &pcap[24..];
    while rest.len() >= 16 {
        let len = u32::from_ne_bytes(*rest[8..].first_chunk().unwrap()) as usize;
        let Some(packet) = rest.get(16..16 + len) else { break };
        found.push(packet);
        rest = &rest[16 + len..];
    }
    found
}

/// Returns the first Chromium found on this host.
pub(crate) fn chromium() -> Option<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(runs)
}

/// Creates a test bed. If that is not possible here, prints the reason and returns `None`.
pub(crate) fn bed() -> Option<Bed> {
    Spaces::new("mpt", &["c", "s"], &[]).map(Bed::new)
}

/// Returns the code blocks of this kind in a section of a page. A code block begins with three backquotes and
/// `kind`.
pub(crate) fn blocks(page: &'static str, title: &str, kind: &str) -> Vec<&'static str> {
    let (_, section) = page.split_once(&format!("## {title}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let parts = section.split("```").skip(1).step_by(2);
    parts.filter_map(|part| part.strip_prefix(kind)?.strip_prefix('\n')).collect()
}

impl Bed {
    fn new(spaces: Spaces) -> Bed {
        let bed = Bed {
            space: ["c", "s"].map(|name| spaces.space(name)),
            spaces,
            remote: Default::default(),
            allowed: String::new(),
            change: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            descriptors: None,
        };
        (0..2).for_each(|i| bed.link(i));
        bed
    }

    /// Creates the interfaces of one path, `p0` or `p1`.
    pub(crate) fn link(&self, i: usize) {
        let [c, s] = &self.space;
        ip(&format!("link add p{i} netns {c} type veth peer name p{i} netns {s}"));
        for (space, addresses) in [(c, LOCAL), (s, REMOTE)] {
            let (prefix, nodad) = if i == 0 { (24, "") } else { (64, "nodad") };
            ip(&format!("-n {space} addr add {}/{prefix} dev p{i} {nodad}", addresses[i]));
            // Keep addresses while a link is down, as a network manager does.
            ip(&format!("netns exec {space} sysctl -qw net.ipv6.conf.p{i}.keep_addr_on_down=1"));
            ip(&format!("-n {space} link set p{i} up"));
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.spaces.path(name)
    }

    /// Starts both ends. `common` is added to both configurations. The ends have keys unless `common` turns
    /// encryption off. Addresses have a port only if the ends use UDP.
    pub(crate) fn up(&mut self, common: &str) {
        self.up_with(common, "");
    }

    /// Starts both ends like [`up`](Self::up). `of_client` is added to the client's configuration.
    pub(crate) fn up_with(&mut self, common: &str, of_client: &str) {
        self.launch_with(common, of_client);
        wait_for("both paths up", || ["c", "s"].iter().all(|end| self.has_both_paths(end)));
    }

    /// Returns whether an end has two paths, and both are up.
    pub(crate) fn has_both_paths(&self, end: &str) -> bool {
        let status = self.status(end);
        let paths = status["peers"][0]["paths"].as_array();
        paths.is_some_and(|paths| paths.len() == 2 && paths.iter().all(|path| path["state"] == "up"))
    }

    /// Starts both ends like [`up`](Self::up), but does not wait for the paths.
    pub(crate) fn launch(&mut self, common: &str) {
        self.launch_with(common, "");
    }

    fn launch_with(&mut self, common: &str, of_client: &str) {
        let allowed = self.allowed.clone();
        let plain = common.contains("security = \"none\"");
        let [c_key, s_key] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
        let own = |key: &PrivateKey| {
            if plain { String::new() } else { format!("private_key = \"{}\"", *key.to_base64()) }
        };
        let of_peer = |key: &PrivateKey, otherwise: String| {
            if plain { otherwise } else { format!("public_key = \"{}\"", key.public()) }
        };
        let from = format!("from = [\"{}\", \"{}\"]", LOCAL[0], LOCAL[1]);
        let (s_own, s_peer) = (own(&s_key), of_peer(&c_key, from));
        let (c_own, c_peer) = (own(&c_key), of_peer(&s_key, String::new()));
        let port = if common.contains("raw") { "" } else { ":6511" };
        let [c, s] = [self.path("c.sock"), self.path("s.sock")];
        let capture = self.path("c.pcap");
        let named = [common, of_client].iter().any(|text| text.contains("state ="));
        let state = if named { String::new() } else { format!("state = {:?}", self.path("state")) };
        let server = format!(
            r#"
            role = "server"
            interface = "tunS"
            control = {s:?}
            listen = ["0.0.0.0{port}", "{any}"]
            addresses = ["{}/24", "{}/64"]
            {s_own}
            {common}
            [[peer]]
            name = "client"
            allowed_ips = ["{}/32", "{}/128"]
            {s_peer}
            "#,
            SERVER[0],
            SERVER[1],
            CLIENT[0],
            CLIENT[1],
            any = if port.is_empty() { "::".into() } else { format!("[::]{port}") },
        );
        let with_port =
            [format!("{}{port}", REMOTE[0]), format!("[{}]{port}", REMOTE[1])].map(|r| match port {
                "" => r.replace(['[', ']'], ""),
                _ => r,
            });
        let remote = [0, 1].map(|i| match self.remote[i].as_str() {
            "" => format!("{:?}", with_port[i]),
            list if list.starts_with("[\"") => list.into(),
            one => format!("{one:?}"),
        });
        let client = format!(
            r#"
            role = "client"
            interface = "tunC"
            control = {c:?}
            {state}
            capture = {capture:?}
            addresses = ["{}/24", "{}/64"]
            {c_own}
            {common}
            {of_client}
            [[peer]]
            name = "server"
            {c_peer}
            allowed_ips = ["10.71.0.0/24", "fd71:71::/64", "10.72.0.0/16", {allowed}]
            [[peer.path]]
            name = "one"
            interface = "p0"
            remote = {}
            priority = 5
            [[peer.path]]
            name = "two"
            local = "{}"
            remote = {}
            "#,
            CLIENT[0], CLIENT[1], remote[0], LOCAL[1], remote[1],
        );
        for (name, mut text) in [("s", server), ("c", client)] {
            for (_, from, to) in self.change.iter().filter(|(end, ..)| *end == name) {
                assert!(text.contains(from), "{from}");
                text = text.replacen(from, to, 1);
            }
            std::fs::write(self.path(&format!("{name}.toml")), text).unwrap();
            self.start(name);
        }
    }

    /// Starts an end whose configuration exists. The end `s` runs in the server's namespace, all others in
    /// the client's.
    pub(crate) fn start(&mut self, name: &str) {
        let space = &self.space[usize::from(name == "s")];
        let log = std::fs::File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut command = Command::new("sh");
        command.envs(self.environment.iter().cloned());
        // The shell sets WATCHDOG_PID, as a service manager does.
        let limit = self.descriptors.map_or_else(String::new, |n| format!("ulimit -n {n};"));
        command.args(["-c", &format!("{limit} WATCHDOG_PID=$$ exec ip \"$@\""), "sh"]);
        command.args(["netns", "exec", space, env!("CARGO_BIN_EXE_mpdccp"), "tunnel", "up", "--config"]);
        command.arg(self.path(&format!("{name}.toml"))).arg("--trace").arg(self.path(&format!("{name}.csv")));
        command.args(&self.arguments);
        // The server is always the first end in the list.
        let at = if name == "s" { 0 } else { self.spaces.ends.len() };
        self.spaces.ends.insert(at, command.stderr(log).stdout(Stdio::null()).spawn().unwrap());
        let socket = self.path(&format!("{name}.sock"));
        wait_for("control socket", || socket.exists());
    }

    /// Restarts an end that was killed.
    pub(crate) fn again(&mut self, end: &str) {
        let mut dead = self.spaces.ends.remove(usize::from(end == "c"));
        let _ = dead.wait();
        let _ = std::fs::remove_file(self.path(&format!("{end}.sock")));
        self.start(end);
    }

    /// Runs `mpdccp tunnel ARGS --config ...` for one end.
    pub(crate) fn tunnel(&self, end: &str, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        command.arg("tunnel").args(args).arg("--config").arg(self.path(&format!("{end}.sock")));
        command.output().unwrap()
    }

    pub(crate) fn status(&self, end: &str) -> Value {
        self.spaces.status(end)
    }

    /// Returns one of the client's paths from the client's status.
    pub(crate) fn client_path(&self, name: &str) -> Value {
        let status = self.status("c");
        let paths = status["peers"][0]["paths"].as_array().unwrap();
        paths.iter().rev().find(|p| p["name"] == name).cloned().unwrap_or_default()
    }

    /// Changes a text of an end's configuration.
    pub(crate) fn edit(&self, end: &str, from: &str, to: &str) {
        let file = self.path(&format!("{end}.toml"));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(file, text.replacen(from, to, 1)).unwrap();
    }

    /// Reloads an end's configuration, which must succeed. Returns what the program prints.
    pub(crate) fn reload(&self, end: &str) -> String {
        let output = self.tunnel(end, &["reload"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a program in the client's namespace.
    pub(crate) fn at_client(&self, command: &str) -> Output {
        run("ip", &format!("netns exec {} {command}", self.space[0]))
    }

    /// Returns whether an address answers the client.
    pub(crate) fn ping(&self, to: &str) -> bool {
        self.at_client(&format!("ping -c 1 -W 1 {to}")).status.success()
    }

    /// Returns tshark's output for the client's capture, one line per packet; `None` if tshark is not
    /// installed.
    pub(crate) fn decoded(&self, filter: &str) -> Option<String> {
        let lua = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/wireshark/mpdccp.lua");
        let mut command = Command::new("tshark");
        // Do not decode inner packets: the kernel may leave their checksums to the network card, and there is
        // no card here.
        command.args(["-X", &format!("lua_script:{lua}"), "-o", "dccp.check_checksum:TRUE", "-r"]);
        match command.arg(self.path("c.pcap")).args(["-Y", filter]).output() {
            Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
            Err(e) => {
                println!("not decoded: no tshark: {e}");
                None
            }
        }
    }

    pub(crate) fn log(&self, end: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{end}.log"))).unwrap()
    }

    /// Returns an end's process ID.
    pub(crate) fn pid(&self, end: &str) -> rustix::process::Pid {
        // The ends are listed in the order in which they were started.
        let at = ["s", "c", "d"].iter().position(|known| *known == end).unwrap();
        rustix::process::Pid::from_child(&self.spaces.ends[at])
    }

    /// Sends a signal to one end.
    pub(crate) fn signal(&self, end: &str, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(end), signal).unwrap();
    }

    /// Returns the process ID of an end's helper process.
    pub(crate) fn helper(&self, end: &str) -> rustix::process::Pid {
        let parent = format!("PPid:\t{}\n", self.pid(end).as_raw_nonzero());
        let child = std::fs::read_dir("/proc").unwrap().flatten().find_map(|process| {
            let status = std::fs::read_to_string(process.path().join("status")).ok()?;
            status.contains(&parent).then(|| process.file_name().to_str()?.parse().ok()).flatten()
        });
        rustix::process::Pid::from_raw(child.expect("a helper process")).unwrap()
    }

    /// Kills an end's helper process. Returns the end's exit status.
    pub(crate) fn kill_helper(&mut self, end: &str) -> std::process::ExitStatus {
        rustix::process::kill_process(self.helper(end), rustix::process::Signal::KILL).unwrap();
        self.wait(end)
    }

    /// Waits until an end has exited. Returns its exit status.
    pub(crate) fn wait(&mut self, end: &str) -> std::process::ExitStatus {
        self.spaces.ends[usize::from(end == "c")].wait().unwrap()
    }

    /// Returns an end's threads: their IDs and names.
    pub(crate) fn threads(&self, end: &str) -> Vec<(i32, String)> {
        let tasks = format!("/proc/{}/task", self.pid(end).as_raw_nonzero());
        let name = |task: std::fs::DirEntry| {
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap().trim().to_owned();
            (task.file_name().to_str().unwrap().parse().unwrap(), name)
        };
        std::fs::read_dir(tasks).unwrap().flatten().map(name).collect()
    }

    /// Stops both ends and checks that they clean up.
    pub(crate) fn down(&mut self) {
        for mut child in self.spaces.ends.drain(..).rev() {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
            assert!(child.wait().unwrap().success());
        }
        for (space, name, tun) in [(0, "c", "tunC"), (1, "s", "tunS")] {
            assert!(!run("ip", &format!("-n {} link show {tun}", self.space[space])).status.success());
            assert!(!self.path(&format!("{name}.sock")).exists());
            let log = self.log(name);
            assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
        }
    }
}
