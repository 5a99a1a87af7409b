//! Reduces the privileges of the tunnel and its helper process after they have started.

use crate::error::Error;
use crate::keys::guard_memory;
use crate::tunnel::face::control;
use crate::tunnel::host::confine::confine;
use dccp_net::{Bind, UdpEncapsulation};
use mpdccp_tunnel::config::{Config, Encapsulation, User};
use rustix::process::{Gid, Uid, geteuid, parent_process_death_signal, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// User ID to use on a host that has no user `nobody`.
const NOBODY: u32 = 65_534;

/// Makes this thread, and the threads that it starts, run as an unprivileged user. From then on, only the
/// helper process can change this host.
pub(crate) fn give_up(cfg: &Config) {
    let needed = match cfg.encapsulation {
        Encapsulation::Raw => CapabilitySet::NET_RAW,
        Encapsulation::Udp | Encapsulation::Tls | Encapsulation::Auto => CapabilitySet::empty(),
    };
    let missing = keep(cfg, needed);
    if !missing.is_empty() {
        tracing::info!("the tunnel process is only partly confined: {}", missing.join("; "));
    }
}

/// Drops all capabilities of the calling thread except CAP_NET_ADMIN, which the thread needs for sockets in a
/// private namespace.
pub(crate) fn keep_net_admin(cfg: &Config) {
    // Ignore the result: the main thread has already logged what is missing.
    let _ = keep(cfg, CapabilitySet::NET_ADMIN);
}

/// Makes the calling thread run as the unprivileged user, reduces its capabilities to `needed`, and confines
/// it. Returns the steps that failed.
fn keep(cfg: &Config, mut needed: CapabilitySet) -> Vec<String> {
    let mut missing = Vec::new();
    let mut limit = || -> io::Result<()> {
        let had = capabilities(None)?.permitted;
        if geteuid().is_root() {
            // Keep the capabilities across the change of user; by default, the kernel would drop them.
            let become_user =
                set_keep_capabilities(true).map_err(io::Error::from).and_then(|()| become_user(cfg));
            missing.extend(become_user.err().map(|e| format!("cannot become another user: {e}")));
        }
        set_all(needed & had, had)?;
        if !may_bind_to_interfaces() {
            needed |= CapabilitySet::NET_RAW;
        }
        set_all(needed & had, needed & had)?;
        Ok(set_no_new_privs(true)?)
    };
    if let Err(e) = limit() {
        tracing::warn!("cannot give up capabilities: {e}");
    }
    // Changing the user may have made the memory of the process readable to other processes.
    guard_memory();
    missing.extend(confine());
    missing
}

fn become_user(cfg: &Config) -> io::Result<()> {
    let (uid, gid) = user(cfg).map_err(|e| io::Error::other(e.to_string()))?;
    let with_parent = parent_process_death_signal()?;
    // Use system calls directly, because they affect only the calling thread, whereas the C library's
    // functions affect all threads.
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    // Changing the user has cleared the parent-death signal. Set it again, because otherwise the process
    // could outlive its parent.
    Ok(set_parent_process_death_signal(with_parent)?)
}

/// Returns the user and group that a tunnel switches to if it is started by root.
pub(crate) fn user(cfg: &Config) -> Result<(Uid, Gid), Error> {
    use nix::unistd::User as Known;
    let failed = |e: nix::Error| Error::runtime(format!("user: cannot read the users of this host: {e}"));
    let known = match &cfg.user {
        None => Known::from_name("nobody"),
        Some(User::Name(name)) => Known::from_name(name),
        Some(User::Number(number)) => Known::from_uid((*number).into()),
    };
    let numbers = match (known.map_err(failed)?, &cfg.user) {
        (Some(known), _) => (known.uid.as_raw(), known.gid.as_raw()),
        (None, None) => (NOBODY, NOBODY),
        (None, Some(User::Number(number))) => (*number, *number),
        (None, Some(User::Name(name))) => {
            let what = format!("user: this host has no user `{name}`; `getent passwd` shows its users");
            return Err(Error::usage(what));
        }
    };
    if numbers.0 == 0 {
        return Err(Error::usage("user: this is root; give an unprivileged user, or remove `user`"));
    }
    Ok((Uid::from_raw(numbers.0), Gid::from_raw(numbers.1)))
}

/// Reduces the helper process's capabilities to those that its requests need. Programs that it starts get no
/// others.
pub(crate) fn keep_for_helper(cfg: &Config, file: &Path) {
    let limit = || -> io::Result<()> {
        let had = capabilities(None)?.permitted;
        // CAP_NET_ADMIN is needed for the interface's MTU, addresses and routes, for SO_MARK, and for large
        // socket buffers.
        let mut needed = CapabilitySet::NET_ADMIN;
        set_all(needed & had, had)?;
        let override_ = CapabilitySet::DAC_OVERRIDE;
        if let Some(other) =
            files(cfg, file).iter().find(|path| !is_own(path)).filter(|_| had.contains(override_))
        {
            tracing::info!("keeping CAP_DAC_OVERRIDE, because {} belongs to another user", other.display());
            needed |= override_;
        }
        set_all(needed & had, needed & had)?;
        Ok(set_no_new_privs(true)?)
    };
    if let Err(e) = limit() {
        tracing::warn!("the helper process cannot give up capabilities: {e}");
    }
}

fn set_all(effective: CapabilitySet, permitted: CapabilitySet) -> io::Result<()> {
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() })?)
}

/// Returns whether this process may bind sockets to interfaces without CAP_NET_RAW. Linux before 5.7 requires
/// the capability.
fn may_bind_to_interfaces() -> bool {
    let lo = Bind { addr: ([0; 4], 0).into(), interface: Some("lo".into()) };
    !UdpEncapsulation::new(lo).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied)
}

/// Returns the files that a reload reads, and the directories in which the tunnel creates or removes files.
fn files(cfg: &Config, file: &Path) -> Vec<PathBuf> {
    let mut files = vec![file.to_owned(), cfg.state.clone()];
    files.extend(control::path(cfg).parent().map(Path::to_owned));
    files.extend(cfg.private_key_file.clone());
    files.extend(cfg.peers.iter().filter_map(|peer| peer.get_ref().preshared_key_file.clone()));
    files
}

/// Returns whether this user owns the file and therefore does not need CAP_DAC_OVERRIDE to read and write it,
/// now or later. A missing file counts as owned, because this user will create it.
fn is_own(path: &Path) -> bool {
    match std::fs::File::open(path).and_then(|file| file.metadata()) {
        Ok(meta) => meta.uid() == geteuid().as_raw(),
        Err(e) => e.kind() == ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_becomes_a_user_that_exists_and_is_not_root() {
        let text =
            "role = \"server\"\nlisten = \"192.0.2.1\"\naddresses = [\"10.0.0.1/24\"]\nsecurity = \"none\"\n";
        let of = |key: &str| {
            let peer = "[[peer]]\nname = \"c\"\nfrom = \"any\"\nallowed_ips = [\"10.0.0.2/32\"]";
            let cfg = control::parse(&format!("{text}{key}\n{peer}")).result(Path::new("t")).unwrap();
            user(&cfg).map(|(uid, _)| uid.as_raw()).map_err(|e| e.to_string())
        };
        assert_eq!(of(""), of("user = \"nobody\""));
        assert_eq!(of("user = 4711"), Ok(4711));
        assert!(of("user = \"no such user\"").unwrap_err().contains("no user `no such user`"));
        for root in ["0", "\"root\""] {
            assert!(of(&format!("user = {root}")).unwrap_err().contains("this is root"));
        }
    }
}
