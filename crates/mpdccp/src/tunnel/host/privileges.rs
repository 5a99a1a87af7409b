//! What the tunnel may still do once its sockets and its interface are there.

use crate::tunnel::face::control;
use dccp_net::{Bind, UdpEncapsulation};
use mpdccp_tunnel::config::{Config, Encapsulation};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Gives up the capabilities of this thread, and of those it starts, that a tunnel with this configuration does not need any more. What
/// programs it runs cannot get more than it has.
pub(crate) fn give_up(cfg: &Config, file: &Path) {
    if let Err(e) = keep_needed(cfg, file) {
        tracing::warn!("cannot give up capabilities: {e}");
    }
}

fn keep_needed(cfg: &Config, file: &Path) -> std::io::Result<()> {
    let had = capabilities(None)?.permitted;
    // MTU, addresses and routes of the interface; SO_MARK; large socket buffers.
    let mut needed = CapabilitySet::NET_ADMIN;
    let set = |effective: CapabilitySet, permitted: CapabilitySet| {
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: effective & had, permitted, inheritable })
    };
    set(needed, had)?;
    if cfg.encapsulation == Encapsulation::Raw || !may_bind_to_interfaces() {
        needed |= CapabilitySet::NET_RAW;
    }
    if let Some(other) = files(cfg, file).iter().find(|path| !is_own(path)).filter(|_| had.contains(OVERRIDE))
    {
        tracing::info!("CAP_DAC_OVERRIDE is kept, since {} is another user's", other.display());
        needed |= OVERRIDE;
    }
    set(needed, needed & had)?;
    Ok(set_no_new_privs(true)?)
}

/// Keeps the keys in this process's memory out of core files, and from other processes of its user (ptrace, /proc).
pub(crate) fn guard_memory() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let guarded = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // The limit alone would not do where cores go to a program.
    if let Err(e) = guarded.and_then(|()| setrlimit(Resource::Core, none)) {
        tracing::warn!("keys may get into core files: {e}");
    }
}

/// The calling thread keeps CAP_NET_ADMIN alone.
pub(crate) fn keep_net_admin() {
    let only = || {
        let kept = capabilities(None)?.permitted & CapabilitySet::NET_ADMIN;
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
        std::io::Result::Ok(set_no_new_privs(true)?)
    };
    if let Err(e) = only() {
        tracing::warn!("cannot give up capabilities: {e}");
    }
}

const OVERRIDE: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Linux before 5.7 asks for CAP_NET_RAW.
fn may_bind_to_interfaces() -> bool {
    let lo = Bind { addr: ([0; 4], 0).into(), interface: Some("lo".into()) };
    !UdpEncapsulation::new(lo).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied)
}

/// What is read again, and the directories of what is written or taken away.
fn files(cfg: &Config, file: &Path) -> Vec<PathBuf> {
    let mut files = vec![file.to_owned(), cfg.state.clone()];
    files.extend(control::path(cfg).parent().map(Path::to_owned));
    files.extend(cfg.private_key_file.clone());
    files.extend(cfg.peers.iter().filter_map(|peer| peer.get_ref().preshared_key_file.clone()));
    files
}

/// Whether it takes no override to read or write it, now or later; what is not there will be one's own.
fn is_own(path: &Path) -> bool {
    match std::fs::File::open(path).and_then(|file| file.metadata()) {
        Ok(meta) => meta.uid() == rustix::process::geteuid().as_raw(),
        Err(e) => e.kind() == ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guarded_process_leaves_no_core() {
        guard_memory();
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(rustix::process::getrlimit(Resource::Core).maximum, Some(0));
    }
}
