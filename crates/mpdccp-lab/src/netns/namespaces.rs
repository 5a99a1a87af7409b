//! The two namespaces of an experiment, which the lab removes no matter how the experiment ends.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use dccp_net::{Tun, TunConfig};
use linkem_net::Entrance;

use super::link::MTU;
use crate::LabError;
use crate::tunnel_files::{path_address, path_device};

const PREFIX: &str = "mpdccp-lab-";

/// A namespace of the lab. Dropping the value removes the namespace with all its devices, and kills the
/// processes left in it.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) name: String,
}

/// Runs `ip` and returns its output. `ip` gets a separate process group, so that Ctrl-C reaches only the lab.
pub(super) fn ip(args: &[&str]) -> Result<String, LabError> {
    let out = Command::new("ip").args(args).process_group(0).output();
    let out = out.map_err(|e| LabError::failed("cannot run `ip`", e))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(LabError::failed(format!("ip {}", args.join(" ")), String::from_utf8_lossy(&out.stderr).trim()))
}

impl Namespace {
    /// Creates a namespace for this process.
    pub(super) fn new(role: &str) -> Result<Namespace, LabError> {
        let name = name(role);
        ip(&["netns", "add", &name])?;
        let namespace = Namespace { name };
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        namespace.inside(|| {
            // Disable reverse-path filters, because packets of one host arrive through several interfaces.
            // Disable IPv6, because only the experiment's packets may use the links.
            for (key, value) in [
                ("ipv4/conf/all/rp_filter", "0"),
                ("ipv4/conf/default/rp_filter", "0"),
                ("ipv6/conf/default/disable_ipv6", "1"),
            ] {
                // A kernel without IPv6 has no IPv6 key and does not need it, so ignore errors.
                let _ = fs::write(format!("/proc/sys/net/{key}"), value);
            }
            Ok(())
        })?;
        Ok(namespace)
    }

    /// Returns a handle to enter the namespace, for threads that outlive the borrow.
    pub(super) fn handle(&self) -> Result<Entrance, LabError> {
        Entrance::open(&self.name)
            .map_err(|e| LabError::failed(format!("cannot open namespace {}", self.name), e))
    }

    /// Moves the calling thread into the namespace.
    pub(super) fn enter(&self) -> Result<(), LabError> {
        enter(&self.handle()?)
    }

    /// Runs `what` on a new thread inside the namespace.
    pub(super) fn inside<T: Send>(
        &self,
        what: impl FnOnce() -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        self.handle()?
            .inside(what)
            .unwrap_or_else(|e| Err(LabError::failed(format!("cannot enter namespace {}", self.name), e)))
    }

    /// Creates the device at one end of a link that carries these paths. The device is named after the first
    /// path, and its addresses end in `host`.
    pub(super) fn path_device(&self, paths: &[usize], host: u8) -> Result<Tun, LabError> {
        let config = TunConfig {
            name: path_device(paths.first().copied().unwrap_or_default()),
            addresses: paths.iter().map(|i| (path_address(*i, host).into(), 24)).collect(),
            mtu: MTU,
            // Disable offload, so that each packet crosses the link separately.
            offload: false,
        };
        self.inside(|| {
            Tun::create(&config)
                .map_err(|e| LabError::failed(format!("cannot create device {}", config.name), e))
        })
    }
}

impl Namespace {
    /// Changes the address of a path's device.
    pub(super) fn change_address(
        &self,
        path: usize,
        before: Ipv4Addr,
        after: Ipv4Addr,
    ) -> Result<(), LabError> {
        let device = path_device(path);
        // Delete the old address before adding the new address. Otherwise, the new address would be a
        // secondary address of the same network, and the kernel would delete it together with the old
        // address.
        for (what, address) in [("del", before), ("add", after)] {
            ip(&["-n", &self.name, "address", what, &format!("{address}/24"), "dev", &device])?;
        }
        Ok(())
    }
}

/// Moves the calling thread into a namespace.
pub(super) fn enter(namespace: &Entrance) -> Result<(), LabError> {
    namespace.enter().map_err(|e| LabError::failed("cannot enter a namespace", e))
}

/// Returns the name of this process's namespace for a role (client or server).
pub(super) fn name(role: &str) -> String {
    format!("{}{role}", prefix())
}

/// Returns how many packets of path `index`, from client to server and in reverse, the kernel dropped at the
/// device because the link's thread did not read them in time.
pub(super) fn device_drops(client: &Namespace, server: &Namespace, index: usize) -> [u64; 2] {
    [client, server].map(|at| {
        let device = path_device(index);
        let text = ip(&["-n", &at.name, "-s", "-j", "link", "show", &device]).unwrap_or_default();
        transmit_drops(&text).unwrap_or(0)
    })
}

/// Returns the number of packets that were not read from a TUN device in time. The kernel counts them as
/// dropped on transmission.
fn transmit_drops(json: &str) -> Option<u64> {
    let links: serde_json::Value = serde_json::from_str(json).ok()?;
    links[0]["stats64"]["tx"]["dropped"].as_u64()
}

/// Kills all processes in a namespace and removes it.
fn remove(name: &str) {
    let pids = ip(&["netns", "pids", name]).unwrap_or_default();
    for pid in
        pids.lines().filter_map(|line| line.trim().parse().ok()).filter_map(rustix::process::Pid::from_raw)
    {
        // Do not kill the lab's own process: its threads leave the namespace by themselves.
        if pid != rustix::process::getpid() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    let _ = ip(&["netns", "del", name]);
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Returns the prefix that this process's namespaces and directories have in their names.
pub(super) fn prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

/// Returns the directory for a run's files, in memory if possible, because the tunnel writes its trace there
/// and a busy disk would delay the tunnel.
pub(crate) fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Removes namespaces and directories of labs that were killed before they could clean up.
pub(super) fn sweep() {
    orphans(Path::new("/run/netns"), PREFIX).for_each(|name| remove(&name));
    let scratch = scratch();
    orphans(&scratch, PREFIX).for_each(|name| {
        let _ = fs::remove_dir_all(scratch.join(name));
    });
}

/// Returns the names of the entries in `dir` that belong to labs no longer running. A name consists of
/// `prefix`, the lab's process ID, a hyphen and any other text.
pub(crate) fn orphans(dir: &Path, prefix: &str) -> impl Iterator<Item = String> {
    let names = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(move |name| {
        let pid = name.strip_prefix(prefix).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        pid.is_some_and(|pid| !fs::exists(format!("/proc/{pid}")).unwrap_or(true))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn drops_of_a_device_are_read_from_ip() {
        let text = r#"[{"ifname":"path0","stats64":{"rx":{"dropped":1},"tx":{"bytes":9,"dropped":42}}}]"#;
        assert_eq!(super::transmit_drops(text), Some(42));
        assert_eq!(super::transmit_drops("[]"), None);
    }
}
