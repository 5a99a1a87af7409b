//! Tests the tunnel as a service: messages to the service manager, capabilities, and new keys.

use crate::common::{Bed, SERVER, bed, ip, set_mode, wait_for, write_private};
use dccp_secure::{PresharedKey, PrivateKey};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// Creates a bed whose ends send messages to a service manager. Also returns the socket that receives the
/// messages.
fn managed(watchdog: &str, of_server: &str) -> Option<(Bed, UnixDatagram)> {
    let mut bed = bed()?;
    let socket = bed.path("notify");
    let heard = UnixDatagram::bind(&socket).unwrap();
    heard.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let watchdog = ("WATCHDOG_USEC", watchdog.to_owned());
    bed.environment = vec![("NOTIFY_SOCKET", socket.display().to_string()), watchdog];
    let role = "role = \"server\"";
    bed.change = vec![("s", role.into(), format!("{role}\n{of_server}"))];
    Some((bed, heard))
}

fn hear(socket: &UnixDatagram, word: &str) {
    let mut buffer = [0; 1000];
    wait_for(word, || {
        let n = socket.recv(&mut buffer).unwrap();
        std::str::from_utf8(&buffer[..n]).unwrap().contains(word)
    });
}

/// The ends send the messages that systemd expects with Type=notify.
#[test]
fn a_service_manager_is_told() {
    let Some((mut bed, heard)) = managed("30000000", "") else { return };
    bed.up("");
    hear(&heard, "READY=1");
    // The data thread sends this message repeatedly as long as it is alive.
    (0..4).for_each(|_| hear(&heard, "WATCHDOG=1"));
    bed.down();
    hear(&heard, "STOPPING=1");
}

/// If one shard hangs, this is detected even though the other shards still answer.
#[test]
fn every_shard_answers_the_watchdog() {
    let Some((mut bed, heard)) = managed("400000", "shards = 3") else { return };
    // Only the server may send messages here, so end the client.
    bed.launch("");
    bed.signal("c", rustix::process::Signal::KILL);
    for name in ["shard 2", "shard 1", "mpdccp"] {
        hear(&heard, "WATCHDOG=1");
        let threads = bed.threads("s");
        let (thread, _) = threads.iter().find(|(_, comm)| comm == name).unwrap();
        let thread = Pid::from_raw(*thread);
        // Stop only this thread, as a deadlock would.
        if let Err(e) = ptrace::attach(thread) {
            crate::common::skipped(format!("a thread cannot be stopped here: {e}"));
            break;
        }
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        // Skip messages sent before the thread stopped, and messages of the round in which the thread has
        // already reported.
        heard.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut words = 0;
        while heard.recv(&mut [0; 100]).is_ok() {
            words += 1;
            assert!(words < 100, "{name} hangs, but the tunnel still reports that it is alive");
        }
        heard.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        ptrace::detach(thread, None).unwrap();
    }
    hear(&heard, "WATCHDOG=1");
}

/// Each line has a priority prefix, which journald evaluates, but no time, because journald adds it.
#[test]
fn the_journal_gets_priorities() {
    let Some(mut bed) = bed() else { return };
    let log = bed.path("c.log");
    let file = std::fs::File::create(&log).unwrap().metadata().unwrap();
    bed.environment = vec![("JOURNAL_STREAM", format!("{}:{}", file.dev(), file.ino()))];
    bed.up("keylog = \"/dev/null\"");
    let text = bed.log("c");
    assert!(text.lines().any(|line| line == "<6>peer server: session open"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("<4>anyone who can read /dev/null")), "{text}");
    // The server logs to a file rather than to the journal, so its lines have no prefix.
    assert!(bed.log("s").lines().all(|line| !line.starts_with('<')), "{}", bed.log("s"));
    bed.down();
}

/// User ID of `nobody`.
const NOBODY: u64 = 65_534;

/// Returns the effective and permitted capabilities of each of an end's threads. Checks that all threads run
/// as nobody, under a system call filter.
fn capabilities(bed: &Bed, end: &str) -> Vec<[u64; 2]> {
    let of = |(thread, _): (i32, String)| {
        let (user, seccomp, capabilities) = capabilities_of(thread);
        assert_eq!((user, seccomp), (NOBODY, 2), "user, and a filter of system calls");
        capabilities
    };
    bed.threads(end).into_iter().map(of).collect()
}

/// Returns a thread's user ID, seccomp mode, and effective and permitted capabilities.
fn capabilities_of(thread: i32) -> (u64, u64, [u64; 2]) {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
    let line = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    let get = |key: &str| u64::from_str_radix(&line(key), 16).unwrap();
    assert_eq!((get("CapInh:"), get("CapAmb:"), get("NoNewPrivs:")), (0, 0, 1));
    let limits = std::fs::read_to_string(format!("/proc/{thread}/limits")).unwrap();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    assert!(
        core.split_whitespace().take(2).all(|limit| limit == "0"),
        "keys must not get into core files: {core}"
    );
    (line("Uid:").parse().unwrap(), get("Seccomp:"), [get("CapEff:"), get("CapPrm:")])
}

/// Returns the user and the capabilities of an end's helper process.
fn of_helper(bed: &Bed, end: &str) -> (u64, [u64; 2]) {
    let (user, _, capabilities) = capabilities_of(bed.helper(end).as_raw_nonzero().get());
    (user, capabilities)
}

/// The bits of some capabilities in a capability mask, as described in capabilities(7).
const OVERRIDE: u64 = 1 << 1;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

#[test]
fn unneeded_privileges_are_dropped() {
    let Some(mut bed) = bed() else { return };
    bed.change = vec![("s", "role = \"server\"".into(), "role = \"server\"\nshards = 2".into())];
    bed.up("metrics = \"127.0.0.1:9586\"");
    for end in ["s", "c"] {
        let found = capabilities(&bed, end);
        assert!(found.len() > 3 && found.iter().all(|caps| *caps == [0; 2]), "{end}: {found:x?}");
        assert_eq!(of_helper(&bed, end), (0, [NET_ADMIN; 2]));
    }
    assert!(!bed.log("c").contains("partly confined"), "{}", bed.log("c"));
    // The helper process can still add new routes and paths.
    bed.edit("c", "10.72.0.0/16", "10.73.0.0/16");
    assert_eq!(bed.tunnel("c", &["reload"]).status.code(), Some(0));
    assert!(ip(&format!("-n {} route show dev tunC", bed.space[0])).contains("10.73.0.0/16"));
    let more = ["path", "add", "three", "--interface", "p0", "--remote", crate::common::REMOTE[0]];
    assert_eq!(bed.tunnel("c", &more).status.code(), Some(0));
    wait_for("the new path is up", || bed.client_path("three")["state"] == "up");
    bed.down();
}

#[test]
fn native_dccp_keeps_raw_sockets_and_files_of_others_stay_readable() {
    let Some(mut bed) = bed() else { return };
    bed.launch("security = \"none\"\nencapsulation = \"raw\"");
    wait_for("an echo", || bed.ping(SERVER[0]));
    for end in ["s", "c"] {
        assert!(capabilities(&bed, end).iter().all(|caps| *caps == [NET_RAW; 2]));
    }
    bed.down();
    // The configuration belongs to another user, so root needs CAP_DAC_OVERRIDE to read it.
    let file = bed.path("c.toml");
    chown(&file, Some(4711), None).unwrap();
    set_mode(&file, 0o600);
    ["s", "c"].iter().for_each(|end| bed.start(end));
    wait_for("an echo", || bed.ping(SERVER[0]));
    assert_eq!(of_helper(&bed, "c"), (0, [OVERRIDE | NET_ADMIN; 2]));
    assert!(bed.log("c").contains("c.toml belongs to another user"), "{}", bed.log("c"));
    bed.edit("c", "priority = 5", "priority = 4");
    assert_eq!(bed.tunnel("c", &["reload"]).status.code(), Some(0));
    bed.down();
}

/// A reload compares keys rather than file names.
#[test]
fn a_key_file_with_another_key_in_it_is_noticed() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    let key = |n: u8| PrivateKey::from_random([n; 32]);
    let psk = |n: u8| PresharedKey::from_random([n; 32]).to_base64().to_string();
    // The same keys move to files, so no connection changes.
    for (end, n) in [("c", 1), ("s", 2)] {
        write_private(&bed.path(&format!("{end}.key")), &key(n).to_base64());
        let inline = format!("private_key = \"{}\"", *key(n).to_base64());
        bed.edit(end, &inline, &format!("private_key_file = {:?}", bed.path(&format!("{end}.key"))));
        assert!(bed.reload(end).starts_with("0 peer(s) added, 0 removed"));
    }
    assert!(["c", "s"].iter().all(|end| !bed.log(end).contains("session closed")));
    // Set the same preshared key on both ends.
    for end in ["s", "c"] {
        write_private(&bed.path(&format!("{end}.psk")), &psk(7));
        let file = format!("preshared_key_file = {:?}\nallowed_ips", bed.path(&format!("{end}.psk")));
        bed.edit(end, "allowed_ips", &file);
        assert!(bed.reload(end).starts_with("1 peer(s) added, 1 removed"));
    }
    wait_for("an echo with the preshared key", || bed.ping(SERVER[0]));
    assert!(bed.reload("s").starts_with("0 peer(s) added, 0 removed"), "the key is still the same");
    // Write another key to the file.
    write_private(&bed.path("s.psk"), &psk(8));
    assert!(bed.reload("s").starts_with("1 peer(s) added, 1 removed"));
    assert!(!bed.ping(SERVER[0]), "the client does not know it");
    write_private(&bed.path("c.psk"), &psk(8));
    bed.reload("c");
    wait_for("an echo with the new preshared key", || bed.ping(SERVER[0]));
    // A reload with an invalid key changes nothing.
    write_private(&bed.path("c.key"), "AAAA");
    let output = bed.tunnel("c", &["reload"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && words.contains("c.key"), "{words}");
    assert!(bed.ping(SERVER[0]));
    // Now the client's own key changes.
    write_private(&bed.path("c.key"), &key(9).to_base64());
    assert!(bed.reload("c").starts_with("this end's key changed, 1 peer(s) added, 1 removed"));
    assert!(!bed.ping(SERVER[0]), "the server does not know it");
    bed.edit("s", &key(1).public().to_string(), &key(9).public().to_string());
    bed.reload("s");
    wait_for("an echo with the client's new key", || bed.ping(SERVER[0]));
    // Now the server's key changes.
    write_private(&bed.path("s.key"), &key(10).to_base64());
    bed.signal("s", rustix::process::Signal::HUP);
    wait_for("the server's log line about its new key", || bed.log("s").contains("this end's key changed"));
    assert!(!bed.ping(SERVER[0]), "the client knows the old one");
    bed.edit("c", &key(2).public().to_string(), &key(10).public().to_string());
    bed.reload("c");
    wait_for("an echo with the server's new key", || bed.ping(SERVER[0]));
    bed.down();
}
