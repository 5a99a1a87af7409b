//! Runs the transports with which the tunnel is compared: the plain path, the kernel's Multipath TCP,
//! WireGuard, or any VPN that shell commands can start.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::namespaces::{Namespace, ip};
use super::process::{Process, find};
use crate::scenario::Baseline;
use crate::tunnel_files::{CLIENT, SERVER, path_address};
use crate::{LabError, Plan};

/// Setting that exists only if the kernel supports Multipath TCP.
const MPTCP_SWITCH: &str = "/proc/sys/net/mptcp/enabled";
const WIREGUARD_PORT: u16 = 51_820;
/// How long a program may take to create its control socket.
const PATIENCE: Duration = Duration::from_secs(5);

/// If a prerequisite of `baseline` is missing, returns a message for the user that names it.
pub(super) fn lacks(baseline: &Baseline) -> Option<String> {
    match baseline {
        Baseline::Mptcp {} if !Path::new(MPTCP_SWITCH).exists() => {
            Some("this kernel does not support Multipath TCP (CONFIG_MPTCP)".to_owned())
        }
        Baseline::Wireguard { program } => {
            let program = program.as_deref().unwrap_or(WIREGUARD);
            let missing = format!("program `{program}` not found; add it to PATH, or set `program`");
            find(program).is_none().then_some(missing)
        }
        _ => None,
    }
}

pub(super) const WIREGUARD: &str = "wireguard-go";

/// A running baseline. Dropping it stops its programs.
pub(super) struct Running {
    processes: Vec<Process>,
    /// Destination address of the flows that the transport carries.
    pub(super) to: Ipv4Addr,
}

impl Running {
    /// Starts the transport for the flows of `plan`.
    pub(super) fn start(
        plan: &Plan<'_>,
        baseline: &Baseline,
        dir: &Path,
        (client, server): (&Namespace, &Namespace),
    ) -> Result<Running, LabError> {
        let used =
            plan.paths().iter().enumerate().filter(|(_, p)| !p.outside).map(|(i, _)| i).collect::<Vec<_>>();
        let first = used.first().copied().unwrap_or(0);
        let over = path_address(first, 2);
        match baseline {
            Baseline::Plain {} => Ok(Running { processes: Vec::new(), to: over }),
            Baseline::Mptcp {} => {
                mptcp(client, server, &used)?;
                Ok(Running { processes: Vec::new(), to: over })
            }
            Baseline::Wireguard { program } => {
                let program = find(program.as_deref().unwrap_or(WIREGUARD)).unwrap_or_default();
                let ends = [
                    End {
                        namespace: client,
                        address: CLIENT,
                        peer: SERVER,
                        far: over,
                        keys: [ALICE.0, BOB.1],
                    },
                    End {
                        namespace: server,
                        address: SERVER,
                        peer: CLIENT,
                        far: path_address(first, 1),
                        keys: [BOB.0, ALICE.1],
                    },
                ];
                let processes =
                    ends.iter().map(|end| wireguard(&program, end, dir)).collect::<Result<_, _>>()?;
                Ok(Running { processes, to: SERVER })
            }
            Baseline::Command { server: theirs, client: ours } => {
                let words = |host| {
                    used.iter().map(|i| path_address(*i, host).to_string()).collect::<Vec<_>>().join(" ")
                };
                let known = format!(
                    "export SERVER_PATHS='{}' CLIENT_PATHS='{}' SERVER={SERVER} CLIENT={CLIENT}\n",
                    words(2),
                    words(1)
                );
                let start = |namespace, role: &str, command: &str| {
                    let what = format!("baseline's {role}");
                    let script = format!("{known}{command}");
                    let log = dir.join(format!("baseline-{role}.log"));
                    Process::start(namespace, &what, Path::new("sh"), &["-c", &script], &log)
                };
                let processes = vec![start(server, "server", theirs)?, start(client, "client", ours)?];
                Ok(Running { processes, to: SERVER })
            }
        }
    }

    /// Returns whether the transport needs time to come up.
    pub(super) fn must_come_up(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Returns an error if any program of the transport has exited.
    pub(super) fn check(&mut self) -> Result<(), LabError> {
        self.processes.iter_mut().try_for_each(Process::check)
    }

    /// Returns the last lines of output of the transport's programs.
    pub(super) fn tails(&self) -> String {
        self.processes.iter().map(Process::tail).collect()
    }
}

/// Configures Multipath TCP at both ends to use all paths; the server announces its additional addresses.
fn mptcp(client: &Namespace, server: &Namespace, used: &[usize]) -> Result<(), LabError> {
    for end in [client, server] {
        end.inside(|| {
            fs::write(MPTCP_SWITCH, "1").map_err(|e| LabError::failed("cannot switch Multipath TCP on", e))
        })?;
        ip(&["-n", &end.name, "mptcp", "limits", "set", "subflows", "8", "add_addr_accepted", "8"])?;
    }
    used.iter().skip(1).try_for_each(|i| {
        let (address, device) = (path_address(*i, 2).to_string(), format!("path{i}"));
        ip(&["-n", &server.name, "mptcp", "endpoint", "add", &address, "dev", &device, "signal"]).map(|_| ())
    })
}

/// The two published key pairs of RFC 7748 section 6.1 (private, public); an experiment does not need secret
/// keys.
const ALICE: (&str, &str) = (
    "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
    "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
);
const BOB: (&str, &str) = (
    "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
    "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
);

/// One end of a WireGuard tunnel.
struct End<'a> {
    namespace: &'a Namespace,
    address: Ipv4Addr,
    peer: Ipv4Addr,
    /// The peer's address on the path that carries the WireGuard packets.
    far: Ipv4Addr,
    /// This end's private key and the peer's public key.
    keys: [&'static str; 2],
}

/// Starts the WireGuard program for one end, and configures it through its control socket
/// (https://www.wireguard.com/xplatform/).
fn wireguard(program: &Path, end: &End<'_>, dir: &Path) -> Result<Process, LabError> {
    // The name must be unique, because the sockets of all ends of all running labs are in one directory.
    let device = format!("wg{}-{}", std::process::id(), end.address.octets()[3]);
    let what = format!("WireGuard at {}", end.address);
    let log = dir.join(format!("{device}.log"));
    let mut process = Process::start(end.namespace, &what, program, &["--foreground", &device], &log)?;
    let socket = format!("/var/run/wireguard/{device}.sock");
    let since = Instant::now();
    let mut stream = loop {
        process.check()?;
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(_) if since.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            Err(e) => return Err(LabError::failed(format!("{what}: {socket}"), e)),
        }
    };
    let [private, public] = end.keys;
    let far = SocketAddr::from((end.far, WIREGUARD_PORT));
    let text = format!(
        "set=1\nprivate_key={private}\nlisten_port={WIREGUARD_PORT}\npublic_key={public}\nendpoint={far}\nallowed_ip={}/32\n\n",
        end.peer
    );
    let told = stream.write_all(text.as_bytes()).and_then(|()| {
        let mut answer = [0; 64];
        let n = stream.read(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..n]).into_owned())
    });
    let answer = told.map_err(|e| LabError::failed(&what, e))?;
    if !answer.starts_with("errno=0") {
        return Err(LabError::failed(&what, answer.trim()));
    }
    let name = &end.namespace.name;
    ip(&["-n", name, "addr", "add", &format!("{}/24", end.address), "dev", &device])?;
    ip(&["-n", name, "link", "set", &device, "up"])?;
    Ok(process)
}
