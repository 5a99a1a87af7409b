//! The helper process keeps the privileges that a running tunnel drops, and uses them on the tunnel's behalf.
//! An attacker may take over the tunnel through data from the network, so the helper does only what the
//! configuration permits, and refuses and logs all other requests. If the tunnel dies, the helper undoes the
//! changes that were made for it.

use crate::error::Error;
use crate::keys::guard_memory;
use crate::tunnel::face::{control, events};
use crate::tunnel::host::default_route::{self, DefaultRoute};
use crate::tunnel::host::dns::Dns;
use crate::tunnel::host::helper::{Done, Reloaded, Request, receive, send};
use crate::tunnel::host::hooks::{Hooks, TIMEOUT};
use crate::tunnel::host::routes::{self, MARK, RouteChange, ip};
use crate::tunnel::host::state_files::{self, Saver, StateFiles};
use crate::tunnel::host::{keys, privileges, tun};
use ipnet::IpNet;
use mpdccp_tunnel::config::{Config, Routes};
use mpdccp_tunnel::{Hook, HookEvent};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, flock};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long to wait for a tunnel and its helper to end. After the sessions have been closed, the programs
/// that restore the name servers and then the hook program may each use up their time limit.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3 * TIMEOUT.as_secs());

/// Serves the tunnel at the other end of standard input until the tunnel ends.
pub(crate) fn run(file: &Path, verbose: bool) -> Result<(), Error> {
    events::forward(verbose);
    guard_memory();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Ignore the signals: they are meant for the tunnel, and this process ends along with it.
        signal_hook::flag::register(signal, Arc::default())?;
    }
    serve(&UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?), file);
    Ok(())
}

fn serve(stream: &UnixStream, file: &Path) {
    let mut server = None;
    let (mut orderly, mut keep, mut clean) = (false, true, false);
    while let Ok((message, socket)) = receive(stream) {
        let done = match (serde_json::from_slice(&message), &mut server) {
            (Ok(Request::Start), None) => Server::start(file).map(|started| {
                server = Some(started);
                None
            }),
            (Ok(Request::End { block, clean: closed }), _) => {
                (orderly, keep, clean) = (true, block, closed);
                Ok(None)
            }
            (Ok(request), Some(server)) => server.answer(request, socket),
            // A genuine tunnel never sends such a message. Stop, because the sender may be an attacker.
            _ => {
                complain("unknown request; stopping the helper process and the tunnel");
                break;
            }
        };
        let Ok(text) = serde_json::to_vec(&done).map(Zeroizing::new) else { break };
        if send(stream, &text, None).is_err() || orderly {
            break;
        }
    }
    if let Some(server) = server {
        server.end(orderly, keep, clean);
    }
}

struct Server {
    cfg: Config,
    file: PathBuf,
    default_route: Option<DefaultRoute>,
    dns: Dns,
    hooks: Option<Hooks>,
    /// The peers and paths that are up, according to the events passed to the hook program.
    up: BTreeSet<(String, Option<String>)>,
    saver: Saver,
    /// Whether the tunnel has created its control socket.
    bound: bool,
    /// Lock that only one helper can hold at a time. Without it, a helper that is ending could undo the
    /// changes of the next one.
    _turn: File,
}

impl Server {
    fn start(file: &Path) -> Result<Server, String> {
        let cfg = control::load(file).map_err(|e| e.to_string())?;
        let turn = turn(file)?;
        privileges::keep_for_helper(&cfg, file);
        if !cfg.default_route {
            default_route::clear_leftovers();
        }
        let saver = Saver::start(StateFiles::new(&cfg, 0))
            .map_err(|e| format!("cannot start a thread for the state files: {e}"))?;
        Ok(Server {
            default_route: None,
            dns: Dns::new(&cfg),
            hooks: cfg.hook.clone().map(|program| Hooks::new(program, cfg.interface.clone())),
            up: BTreeSet::new(),
            saver,
            bound: false,
            file: file.to_owned(),
            _turn: turn,
            cfg,
        })
    }

    fn answer(&mut self, request: Request, socket: Option<OwnedFd>) -> Done {
        let interface = &self.cfg.interface;
        let done = match request {
            Request::Bound => {
                self.bound = true;
                Ok(())
            }
            Request::Route(change, net) if change != RouteChange::Del && !self.may_route(&net) => {
                return refuse(format!("a route to {net}"));
            }
            Request::Route(change, net) => routes::route(change, net, interface),
            Request::Addresses { remove, add } => match add.iter().find(|net| !self.may_have(net)) {
                Some(net) => return refuse(format!("the address {net}")),
                None => {
                    let set = || tun::set_addresses(interface, &remove, &add);
                    match &self.default_route {
                        Some(route) => route.renew(interface, set),
                        None => set(),
                    }
                }
            },
            Request::Mtu(mtu) => ip(&["link", "set", "dev", interface, "mtu", &mtu.to_string()]).map(drop),
            Request::DefaultRoute if !self.cfg.default_route => return refuse("a default route"),
            Request::DefaultRoute => {
                DefaultRoute::set(&self.cfg).map(|set| self.default_route = set).map_err(|e| e.to_string())
            }
            Request::Socket => {
                let mark = self.cfg.default_route.then_some(MARK);
                let socket = socket.ok_or_else(|| "the request has no socket".to_owned())?;
                dccp_net::grant_socket(socket.as_fd(), mark).map_err(|e| e.to_string())
            }
            Request::Dns(servers) if !servers.is_empty() && servers != self.cfg.dns => {
                return refuse(format!("the name servers {servers:?}"));
            }
            Request::Dns(servers) => {
                self.dns.set(servers);
                Ok(())
            }
            Request::Hook(hook) => {
                self.hook(hook);
                Ok(())
            }
            Request::Save(file, text) => {
                self.saver.save(file, text);
                Ok(())
            }
            Request::Reload => return self.reload().map(Some),
            // `run` handles the first request of this kind, so this one is a second start or end.
            Request::Start | Request::End { .. } => return refuse("a second start"),
        };
        done.map(|()| None)
    }

    /// Returns whether the configuration routes this network into the interface. A prefix of length 0 is
    /// refused, because only `default_route` may set that route.
    fn may_route(&self, net: &IpNet) -> bool {
        let pool = self.cfg.assign.iter().flat_map(|assign| &assign.pool);
        let nets = self.cfg.peers.iter().flat_map(|peer| &peer.get_ref().allowed_ips).chain(pool);
        self.cfg.routes != Routes::None
            && nets.into_iter().any(|within| within.prefix_len() > 0 && within.contains(net))
    }

    /// Returns whether the configuration allows the interface to have this address, and a route to the
    /// address's network.
    fn may_have(&self, net: &IpNet) -> bool {
        let mut allowed = self.cfg.peers.iter().flat_map(|peer| &peer.get_ref().allowed_ips);
        let within = |within: &IpNet| {
            within.contains(net) && (within.prefix_len() > 0 || net.prefix_len() == net.max_prefix_len())
        };
        self.cfg.addresses.contains(net) || self.cfg.addresses.auto && allowed.any(within)
    }

    /// Runs the hook program, and keeps track of which peers and paths have been reported as up.
    fn hook(&mut self, hook: Hook) {
        let Some(hooks) = &mut self.hooks else { return };
        let (peer, path) = (hook.peer.clone(), hook.path.clone());
        match hook.event {
            HookEvent::SessionUp | HookEvent::PathUp => drop(self.up.insert((peer, path))),
            HookEvent::PathDown => drop(self.up.remove(&(peer, path))),
            HookEvent::SessionDown => self.up.retain(|(other, _)| *other != peer),
        }
        hooks.run(hook);
    }

    fn reload(&mut self) -> Result<Reloaded, String> {
        let unchanged = |e: Error| format!("{e}; nothing was changed");
        let (cfg, text) = control::load_with_keys(&self.file).map_err(unchanged)?;
        self.cfg.check_change(&cfg)?;
        let keys = keys::read(&cfg).map_err(|e| e.to_string())?;
        self.cfg = cfg;
        let peers = keys
            .peers
            .into_iter()
            .map(|keys| Some(keys?).map(|(key, preshared)| (key.to_string(), preshared.to_base64())));
        Ok(Reloaded { text, own: keys.own.map(|key| key.to_base64()), peers: peers.collect() })
    }

    /// Undoes all changes. If `block` is set, leaves the kill switch in place, so that no packet takes
    /// another route until the tunnel runs again. If `clean` is not set, keeps the list of connections for
    /// the next start.
    fn end(mut self, orderly: bool, block: bool, clean: bool) {
        match self.default_route.take() {
            Some(route) if self.cfg.kill_switch && block => route.leave(),
            route => drop(route),
        }
        drop(self.dns);
        drop(self.saver);
        if let Some(mut hooks) = self.hooks {
            // Report each path as down before its session.
            let down = self.up.into_iter().rev().map(|(peer, path)| {
                let event = if path.is_some() { HookEvent::PathDown } else { HookEvent::SessionDown };
                Hook { event, peer, path, why: "the tunnel died".into() }
            });
            down.for_each(|hook| hooks.run_last(hook));
        }
        if clean {
            state_files::forget_connections(&self.cfg);
        }
        let socket = control::path(&self.cfg);
        // If the tunnel died, another tunnel may already be listening on this socket, so remove the socket
        // only if nobody answers.
        if self.bound && (orderly || UnixStream::connect(&socket).is_err()) {
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// Refuses a request that the configuration does not permit.
fn refuse(what: impl std::fmt::Display) -> Done {
    complain(format!("the tunnel process requests {what}, which is not in the configuration"));
    Err("the helper process refused the request: not in the configuration".into())
}

/// Logs directly to standard error, because an attacker could suppress the tunnel's own log.
fn complain(what: impl std::fmt::Display) {
    // Ignore the error: without a reader of the log, the helper must still undo its changes in order.
    let _ = writeln!(io::stderr(), "mpdccp: refused: {what}");
}

/// Waits until the helper of an earlier tunnel with this configuration file has ended. Returns the lock.
fn turn(file: &Path) -> Result<File, String> {
    let cannot = |e: io::Error| format!("cannot lock {}: {e}", file.display());
    let (opened, since) = (File::open(file).map_err(cannot)?, Instant::now());
    loop {
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(opened),
            Err(rustix::io::Errno::WOULDBLOCK) if since.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(format!(
                    "another mpdccp runs with {}; stop it with `mpdccp tunnel down`",
                    file.display()
                ));
            }
            Err(e) => {
                tracing::debug!("{}", cannot(e.into()));
                return Ok(opened);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dccp_secure::PrivateKey;

    const CLIENT: &str = r#"
        role = "client"
        interface = "tunX"
        addresses = "auto"
        private_key = "PRIVATE"
        dns = ["10.1.0.1"]
        [[peer]]
        name = "hub"
        public_key = "PUBLIC"
        allowed_ips = ["10.1.0.0/16", "0.0.0.0/0"]
        path = [{ name = "one", local = "192.0.2.2", remote = "192.0.2.1:6511" }]
        "#;

    fn configuration(directory: &Path) -> PathBuf {
        let file = directory.join("x.toml");
        let paths = ["state", "control"].map(|key| format!("{key} = {:?}\n", directory.join(key)));
        let [own, peer] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
        let text = CLIENT.replace("PRIVATE", &own.to_base64()).replace("PUBLIC", &peer.public().to_string());
        std::fs::write(&file, paths.concat() + &text).unwrap();
        file
    }

    /// Returns the helper's answers to these messages, which an attacker who controls the tunnel could send.
    fn answers(messages: &[&str]) -> Vec<Option<String>> {
        let directory = tempfile::tempdir().unwrap();
        let file = configuration(directory.path());
        let (ours, its) = UnixStream::pair().unwrap();
        // Run the helper on a separate thread, because the thread drops its capabilities.
        let process = std::thread::spawn(move || serve(&its, &file));
        let answer = |message: &&str| {
            send(&ours, message.as_bytes(), None).ok()?;
            Some(String::from_utf8(receive(&ours).ok()?.0.to_vec()).unwrap())
        };
        let all = ["\"Start\""].iter().chain(messages).map(answer).skip(1).collect();
        drop(ours);
        process.join().unwrap();
        all
    }

    #[test]
    fn nothing_is_done_that_the_configuration_does_not_ask_for() {
        let refused = [
            r#"{"Route":["Add","10.2.0.0/16"]}"#,
            r#"{"Route":["Replace","10.0.0.0/8"]}"#,
            r#"{"Route":["Add","0.0.0.0/0"]}"#,
            r#"{"Addresses":{"remove":[],"add":["fd00::1/128"]}}"#,
            r#"{"Addresses":{"remove":[],"add":["8.8.8.8/8"]}}"#,
            r#""DefaultRoute""#,
            r#"{"Dns":["192.0.2.66"]}"#,
        ];
        let said = answers(&refused);
        assert!(said.iter().flatten().all(|said| said.contains("refused")), "{said:?}");
        assert_eq!(said.iter().flatten().count(), refused.len());
        // The configuration permits these requests, so they fail only because this host has no such
        // interface.
        let tried = answers(&[
            r#"{"Route":["Add","10.1.2.0/24"]}"#,
            r#"{"Addresses":{"remove":[],"add":["10.1.0.9/24"]}}"#,
        ]);
        assert!(
            tried.iter().all(|said| said.as_ref().is_some_and(|said| said.contains("tunX"))),
            "{tried:?}"
        );
        let state = answers(&[r#"{"Save":["Leases","{}"]}"#]);
        assert_eq!(state, [Some("{\"Ok\":null}".into())]);
    }

    /// The connections of a killed tunnel must outlive a start that fails.
    #[test]
    fn only_a_tunnel_that_has_reset_its_connections_forgets_them() {
        for clean in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let file = configuration(directory.path());
            let connections = directory.path().join("control.connections-0");
            std::fs::write(&connections, "").unwrap();
            let (ours, its) = UnixStream::pair().unwrap();
            let process = std::thread::spawn(move || serve(&its, &file));
            for request in [Request::Start, Request::End { block: false, clean }] {
                send(&ours, &serde_json::to_vec(&request).unwrap(), None).unwrap();
                receive(&ours).unwrap();
            }
            process.join().unwrap();
            assert_eq!(connections.exists(), !clean);
        }
    }

    /// The text in the answer is the one that was checked, even if the file has changed since.
    #[test]
    fn a_reload_reads_the_file_once() {
        let directory = tempfile::tempdir().unwrap();
        let [file, key] = ["x.toml", "key"].map(|name| directory.path().join(name));
        let [own, peer] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
        let text = format!("state = {:?}\nprivate_key_file = {key:?}\n", directory.path())
            + &CLIENT.replace("private_key = \"PRIVATE\"", "").replace("PUBLIC", &peer.public().to_string());
        std::fs::write(&file, &text).unwrap();
        // Run the helper on a separate thread, because the thread drops its capabilities.
        let path = file.clone();
        let mut server = std::thread::spawn(move || Server::start(&path)).join().unwrap().unwrap();
        // The helper reads the file, then waits at this pipe for the key. Then, the file changes.
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&key).status().unwrap();
        assert!(made.success());
        let change = std::thread::spawn(move || {
            let mut pipe = std::fs::OpenOptions::new().write(true).open(&key).unwrap();
            std::fs::write(&file, "another text").unwrap();
            state_files::write_secret(&key, &own.to_base64()).unwrap();
            io::Write::write_all(&mut pipe, own.to_base64().as_bytes()).unwrap();
        });
        assert_eq!(*server.reload().unwrap().text, text);
        change.join().unwrap();
    }

    #[test]
    fn an_invalid_request_ends_the_process() {
        for message in [
            r#"{"Exec":["sh","-c","id"]}"#,
            r#"{"Save":["../../etc/passwd","x"]}"#,
            r#"{"Route":["Add","10.1.2.0/24","eth0"]}"#,
            "{",
            "",
        ] {
            assert_eq!(answers(&[message, r#"{"Save":["Leases","{}"]}"#]), [None, None], "{message}");
        }
        // The helper refuses requests before the start, and socket requests that come without a socket.
        assert_eq!(
            answers(&["\"Start\""]),
            [Some("{\"Err\":\"the helper process refused the request: not in the configuration\"}".into())]
        );
        assert!(answers(&["\"Socket\""])[0].as_ref().unwrap().contains("the request has no socket"));
    }
}
