//! Confines the threads of a running tunnel, in case an attacker takes control of them. A confined thread
//! cannot start programs, open files for writing, create namespaces, or use parts of the kernel that a tunnel
//! does not need.

use landlock::{ABI, AccessFs, Ruleset, RulesetAttr, RulesetStatus};
use nix::libc;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};
use std::collections::BTreeMap;
use std::error::Error;

/// System calls that fail with EPERM in a confined thread.
const REFUSED: [libc::c_long; 34] = [
    // Calls that start other programs or access other processes' memory.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Calls that change namespaces or mount file systems.
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    // Calls into parts of the kernel that often have security bugs.
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_personality,
    libc::SYS_syslog,
    // Calls that change the user or the capabilities. Blocking them matters if the process still runs as
    // root.
    libc::SYS_setuid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_capset,
];

/// The socket families that a tunnel needs.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The flags that make clone(2) create namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Confines the calling thread and the threads that it starts later. Returns the parts of the confinement
/// that this kernel does not support.
pub(crate) fn confine() -> Vec<String> {
    let kinds = [("Landlock", files as fn() -> Result<(), Box<dyn Error>>), ("seccomp", calls)];
    kinds.into_iter().filter_map(|(name, begin)| Some(format!("no {name}: {}", begin().err()?))).collect()
}

/// Prevents the thread from opening files for writing, and from creating, removing or executing files. Files
/// that are already open are not affected.
fn files() -> Result<(), Box<dyn Error>> {
    let changes = AccessFs::from_write(ABI::V3) | AccessFs::Execute;
    match Ruleset::default().handle_access(changes)?.create()?.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel does not support it".into()),
        _ => Ok(()),
    }
}

fn calls() -> Result<(), Box<dyn Error>> {
    let rule = |conditions: Vec<(SeccompCmpOp, libc::c_int)>| {
        let condition = |(op, value)| SeccompCondition::new(0, Dword, op, value as u64);
        SeccompRule::new(conditions.into_iter().map(condition).collect::<Result<_, _>>()?)
    };
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.map(|call| (call, Vec::new())).into();
    refused.insert(libc::SYS_socket, vec![rule(FAMILIES.map(|family| (SeccompCmpOp::Ne, family)).into())?]);
    let namespaces = NAMESPACES.map(|flag| rule(vec![(SeccompCmpOp::MaskedEq(flag as u64), flag)]));
    refused.insert(libc::SYS_clone, namespaces.into_iter().collect::<Result<_, _>>()?);
    // The flags of clone3 are in memory, where the filter cannot read them. Therefore clone3 fails with
    // ENOSYS, which makes the C library use clone instead.
    let without = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for (calls, error) in [(refused, libc::EPERM), (without, libc::ENOSYS)] {
        let (otherwise, then) = (SeccompAction::Allow, SeccompAction::Errno(error as u32));
        let filter = SeccompFilter::new(calls, otherwise, then, std::env::consts::ARCH.try_into()?)?;
        apply_filter(&BpfProgram::try_from(filter)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use nix::sched::{CloneFlags, unshare};
    use rustix::net::{AddressFamily, SocketType, socket};
    use std::io::ErrorKind;
    use std::process::Command;

    #[test]
    fn a_confined_thread_keeps_what_it_has_and_gets_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let mut open = std::fs::File::create(&file).unwrap();
        let (denied, path) = (Err(ErrorKind::PermissionDenied), file.clone());
        let confined = std::thread::spawn(move || {
            let missing = confine();
            std::io::Write::write_all(&mut open, b"open before").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "open before", "files can still be read");
            socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
            // Threads started after the confinement are restricted in the same way.
            let inner = std::thread::spawn(move || {
                missing.iter().for_each(|what| println!("SKIPPED {what}"));
                let has = |what| !missing.iter().any(|missing| missing.starts_with(what));
                if has("no Landlock") {
                    assert_eq!(std::fs::write(&path, "after").map_err(|e| e.kind()), denied);
                    assert_eq!(std::fs::remove_file(&path).map_err(|e| e.kind()), denied);
                }
                if has("no seccomp") {
                    assert_eq!(Command::new("true").status().map(drop).map_err(|e| e.kind()), denied);
                    let packets = socket(AddressFamily::PACKET, SocketType::DGRAM, None);
                    assert_eq!(packets.unwrap_err(), rustix::io::Errno::PERM);
                    assert_eq!(unshare(CloneFlags::CLONE_NEWUSER), Err(Errno::EPERM));
                }
            });
            inner.join().unwrap();
        });
        confined.join().unwrap();
        assert!(Command::new("true").status().is_ok(), "other threads are not confined");
        std::fs::write(&file, "after").unwrap();
    }
}
