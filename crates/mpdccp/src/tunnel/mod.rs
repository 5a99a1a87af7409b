//! `mpdccp tunnel` carries the IP packets of a virtual interface over several paths.

mod app;
mod decrypt;
mod doctor;
mod face;
mod files;
mod host;
mod links;
mod proxy;
mod shards;
mod tls;
mod up;

use crate::error::{Error, finish};
use clap::{Args, Subcommand};
use face::control::{self, Answer, NewPath, Request};
use face::{check, events, health, live, table};
use files::{import, init};
use host::{default_route, helper_process};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) const EXAMPLES: &str = "Examples (docs/guides/home.md has both configuration files):
  mpdccp tunnel init --server vpn.example.org
  mpdccp tunnel import /etc/wireguard/wg0.conf
  mpdccp tunnel check client.toml
  mpdccp tunnel doctor --config client.toml
  mpdccp tunnel up --config client.toml
  mpdccp tunnel status --watch
  mpdccp tunnel events --follow
  mpdccp tunnel reload
  mpdccp tunnel path add cable --interface eth1 --remote 203.0.113.1:6511
  mpdccp tunnel path prio lte 1
  mpdccp tunnel drain
  mpdccp tunnel down";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a tunnel in the foreground until Ctrl-C.
    Up(up::Args),
    /// Show sessions, paths and counters.
    Status {
        /// Print JSON (docs/formats.md).
        #[arg(long, conflicts_with = "watch")]
        json: bool,
        /// Keep updating, with rates, until Ctrl-C.
        #[arg(long)]
        watch: bool,
        /// Show only this peer. This is fast even with many peers.
        #[arg(long, conflicts_with = "watch")]
        peer: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Show the last thousand events of sessions and paths.
    Events {
        /// One JSON object per line (docs/formats.md).
        #[arg(long)]
        json: bool,
        /// Wait for further events, until Ctrl-C.
        #[arg(long)]
        follow: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Perform privileged operations for a running tunnel.
    #[command(hide = true)]
    Helper {
        /// The tunnel's configuration file.
        file: PathBuf,
        /// Also log debug messages.
        #[arg(long)]
        verbose: bool,
    },
    /// Check a configuration file: list all errors, and warn of suspicious values. The exit code is 2 if
    /// there are errors.
    Check {
        /// The configuration file.
        file: PathBuf,
        /// Print JSON (docs/formats.md).
        #[arg(long)]
        json: bool,
    },
    /// Test each Internet connection and this host, and explain each problem and its fix. The exit code is 1
    /// if there is a problem.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Args),
    /// Write the configuration files of both ends, with keys, for this host's Internet connections, and list
    /// the next steps.
    #[command(after_help = init::EXAMPLES)]
    Init(init::Args),
    /// Convert a WireGuard configuration of wg-quick, and list the settings that cannot be converted.
    #[command(after_help = import::EXAMPLES)]
    Import(import::Args),
    /// Check the tunnel's health, for scripts. The exit code is 0 if every session is open over at least one
    /// path. Otherwise, the exit code is 1, and the problems are printed.
    Health {
        /// Require all paths to be up.
        #[arg(long)]
        all_paths: bool,
        /// Check only this peer; a server's other peers may be offline.
        #[arg(long)]
        peer: Option<String>,
        /// Print JSON (docs/formats.md).
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Apply changes of the configuration file; unaffected sessions stay open.
    Reload {
        #[command(flatten)]
        which: Which,
    },
    /// Change the paths of a running client.
    #[command(subcommand)]
    Path(PathCommand),
    /// Server: accept no new clients, and ask connected clients to use another server.
    Drain {
        /// Longest wait for clients to leave.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        #[command(flatten)]
        which: Which,
    },
    /// Decrypt the tunnel's packets in a capture, with the keys of a key log (`keylog` of the configuration).
    Decrypt {
        /// The key log.
        #[arg(long)]
        keylog: PathBuf,
        /// A pcap file, from `capture` or tcpdump.
        input: PathBuf,
        /// Output file: the same capture, with the decrypted DCCP packets.
        output: PathBuf,
    },
    /// Stop a running tunnel cleanly. If the tunnel was killed, lift the block that its kill switch left.
    Down {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Subcommand)]
pub(crate) enum PathCommand {
    /// Add a path.
    Add {
        /// Name of the path.
        name: String,
        /// Address of the peer, ADDRESS or ADDRESS:PORT.
        #[arg(long)]
        remote: String,
        /// Address on this host to send from.
        #[arg(long)]
        local: Option<String>,
        /// Interface to send through.
        #[arg(long)]
        interface: Option<String>,
        /// Priority. 0: never used. 1: standby. 2: overflow. 3 to 15: primary. Among primary paths, only the
        /// schedulers cpf, acpf, weighted-rr and handover prefer higher values.
        #[arg(long, default_value_t = 3)]
        priority: u8,
        /// Name of the peer, if there are several.
        #[arg(long)]
        peer: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Close a path.
    Del {
        /// Name of the path.
        name: String,
        /// Name of the peer, if there are several.
        #[arg(long)]
        peer: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Change a path's priority, here and at the peer.
    Prio {
        /// Name of the path.
        name: String,
        /// Priority. 0: never used. 1: standby. 2: overflow. 3 to 15: primary. Among primary paths, only the
        /// schedulers cpf, acpf, weighted-rr and handover prefer higher values.
        priority: u8,
        /// Name of the peer, if there are several.
        #[arg(long)]
        peer: Option<String>,
        #[command(flatten)]
        which: Which,
    },
}

/// Selects the tunnel if several are running.
#[derive(Args)]
pub(crate) struct Which {
    /// Configuration file or control socket of the running tunnel.
    #[arg(long)]
    config: Option<PathBuf>,
}

impl Which {
    fn socket(&self) -> Result<PathBuf, Error> {
        match &self.config {
            Some(file) if control::is_socket(file) => Ok(file.clone()),
            Some(file) => Ok(control::path(&control::load(file)?)),
            None => control::only_one(),
        }
    }
}

/// How often `tunnel events --follow` asks for new events.
const FOLLOW: Duration = Duration::from_millis(500);

/// Runs a subcommand. The exit code is 0 for success, 1 for a failure, and 2 for wrong input or a missing
/// prerequisite.
pub(crate) fn main(command: Command) -> ExitCode {
    match command {
        Command::Doctor(args) => finish(doctor::run(&args)),
        other => finish(run(other)),
    }
}

fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Up(args) => up::run(&args),
        Command::Status { watch: true, which, .. } => live::watch(&which.socket()?),
        Command::Status { json, peer, which, .. } => {
            let status = control::status(&which.socket()?, peer.as_deref())?;
            if let (Some(name), true) = (peer, status.peers.is_empty()) {
                return Err(Error::usage(format!(
                    "no peer `{name}`; `mpdccp tunnel status` shows the peers"
                )));
            }
            if json {
                println!("{}", serde_json::to_string_pretty(&status).map_err(std::io::Error::from)?);
            } else {
                print!("{}", table::render(&status));
            }
            Ok(())
        }
        Command::Events { json, follow, which } => {
            let (socket, mut after) = (which.socket()?, 0);
            loop {
                let Answer::Events(events) = control::ask(&socket, &Request::Events { after })? else {
                    return Err(control::odd());
                };
                for event in events {
                    after = event.number;
                    println!("{}", events::line(&event, json)?);
                }
                if !follow {
                    return Ok(());
                }
                std::thread::sleep(FOLLOW);
            }
        }
        Command::Helper { file, verbose } => helper_process::run(&file, verbose),
        Command::Check { file, json } => check::run(&file, json),
        Command::Doctor(args) => doctor::run(&args).map(drop),
        Command::Init(args) => init::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Health { all_paths, peer, json, which } => {
            let status = match which.socket() {
                Err(e) if which.config.is_some() || !control::running().is_empty() => return Err(e),
                socket => socket.and_then(|socket| control::status(&socket, peer.as_deref())),
            };
            let wrong = status.map_or_else(
                |e| vec![e.to_string()],
                |status| health::wrong(&status, peer.as_deref(), all_paths),
            );
            if json {
                println!("{}", health::json(&wrong));
            }
            if wrong.is_empty() { Ok(()) } else { Err(Error::runtime(wrong.join("; "))) }
        }
        Command::Reload { which } => {
            let Answer::Done(words) = control::ask(&which.socket()?, &Request::Reload)? else {
                return Err(control::odd());
            };
            println!("{words}");
            Ok(())
        }
        Command::Path(PathCommand::Add { name, remote, local, interface, priority, peer, which }) => {
            let path = NewPath { name, local, interface, remote, priority };
            control::ask(&which.socket()?, &Request::PathAdd { peer, path }).map(drop)
        }
        Command::Path(PathCommand::Del { name, peer, which }) => {
            control::ask(&which.socket()?, &Request::PathDel { peer, name }).map(drop)
        }
        Command::Path(PathCommand::Prio { name, priority, peer, which }) => {
            control::ask(&which.socket()?, &Request::PathPrio { peer, name, priority }).map(drop)
        }
        Command::Decrypt { keylog, input, output } => decrypt::run(&keylog, &input, &output),
        Command::Drain { seconds, which } => {
            let (socket, since) = (which.socket()?, Instant::now());
            let mut before = None;
            loop {
                let Answer::Clients(clients) = control::ask(&socket, &Request::Drain)? else {
                    return Err(control::odd());
                };
                if before.replace(clients) != Some(clients) {
                    println!("{clients} client(s) still connected");
                }
                if clients == 0 {
                    return Ok(());
                }
                if since.elapsed() > Duration::from_secs(seconds) {
                    return Err(Error::runtime(format!(
                        "clients still connected after {seconds} s: {clients}; add another server to `remote` of every \
                         path in their files"
                    )));
                }
                std::thread::sleep(FOLLOW);
            }
        }
        Command::Down { which } => {
            let socket = match which.socket() {
                Ok(socket) if !control::is_dead(&socket) => socket,
                Err(e) if which.config.is_some() || !control::running().is_empty() => return Err(e),
                none => {
                    if default_route::lift_block() {
                        eprintln!(
                            "no tunnel is running; lifted the block that the kill switch of a killed tunnel left"
                        );
                        return Ok(());
                    }
                    none?
                }
            };
            control::ask(&socket, &Request::Down)?;
            let since = Instant::now();
            while socket.exists() {
                if since.elapsed() > helper_process::PATIENCE {
                    return Err(Error::runtime(format!(
                        "the tunnel is still running after {} s; see its log",
                        helper_process::PATIENCE.as_secs()
                    )));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        }
    }
}
