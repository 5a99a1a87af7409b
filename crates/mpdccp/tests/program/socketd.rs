//! Tests `mpdccp socketd` started by root.

use crate::common::{set_mode, skipped};
use mpdccp_socketd::Reply;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

const MPDCCP: &str = env!("CARGO_BIN_EXE_mpdccp");

fn command(socket: &std::path::Path, user: &str) -> Command {
    let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "ulimit -S -n 256; exec \"$0\" \"$@\"",
            MPDCCP,
            "socketd",
            "--udp-port",
            &port.to_string(),
            "--user",
            user,
            "--socket",
        ])
        .arg(socket);
    command
}

#[test]
fn a_daemon_gives_up_the_privileges_of_root() {
    if !rustix::process::geteuid().is_root() {
        return skipped("the daemon's change of user needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), 0o755);
    // The daemon creates this directory as root. Later, running as another user, it must be able to remove
    // its socket there.
    let socket = dir.path().join("own/socketd.sock");
    let mut daemon = command(&socket, "nobody").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready at "), "{line}");
    assert!(line.ends_with(&format!("mpdccp run --socket {} -- PROGRAM\n", socket.display())), "{line}");
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let field = |name: &str| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{status}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for name in ["Uid:", "Gid:"] {
        assert!(field(name).iter().all(|id| id != "0"), "{status}");
    }
    assert!(field("Groups:").is_empty(), "{status}");
    for name in ["CapPrm:", "CapEff:"] {
        assert_eq!(field(name), ["0000000000000000"], "{status}");
    }
    assert_eq!(field("NoNewPrivs:"), ["1"], "{status}");
    // The limit must be high, so that one user's sockets cannot use up the daemon's descriptors.
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let limit: Vec<_> = limit.split_whitespace().collect();
    assert_eq!(limit[3], limit[4], "{limits}");
    rustix::process::kill_process(rustix::process::Pid::from_child(&daemon), rustix::process::Signal::TERM)
        .unwrap();
    assert!(daemon.wait().unwrap().success());
    assert!(!socket.exists());

    let mut daemon = command("here.sock".as_ref(), "nobody");
    let mut daemon = daemon.current_dir(dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    line.clear();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let here = fs::canonicalize(dir.path()).unwrap().join("here.sock");
    assert!(line.starts_with(&format!("ready at {};", here.display())), "{line}");

    for (user, why) in [("nosuch-user", "this host has no such user"), ("root", "this is root")] {
        let socket = dir.path().join(user);
        let output = command(&socket, user).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && complaint.contains(why), "{output:?}");
        assert!(!socket.exists());
    }
}

/// The next daemon must be able to remove its socket from the directory.
#[test]
fn a_daemon_that_cannot_start_leaves_no_directory() {
    let dir = tempfile::tempdir().unwrap();
    let taken = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut daemon = Command::new(MPDCCP);
    daemon.args(["socketd", "--udp-port", &port, "--socket"]).arg(dir.path().join("own/socketd.sock"));
    let output = daemon.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && complaint.contains("--udp-port"), "{output:?}");
    assert!(!dir.path().join("own").exists());
}

/// The loader would skip the library, and the program would run without DCCP sockets.
#[test]
fn a_library_that_cannot_be_preloaded_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["my programs", "a:b"] {
        let place = dir.path().join(name);
        fs::create_dir(&place).unwrap();
        let program = place.join("mpdccp");
        fs::hard_link(MPDCCP, &program).or_else(|_| fs::copy(MPDCCP, &program).map(drop)).unwrap();
        fs::write(place.join("libdccp_preload.so"), "").unwrap();
        let output = Command::new(&program).args(["run", "--socket", MPDCCP, "true"]).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && complaint.contains("cannot preload"), "{output:?}");
        assert!(complaint.contains(name), "{complaint}");
    }
}

#[test]
fn a_program_is_not_started_without_a_daemon_of_its_version() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("mpdccp");
    fs::hard_link(MPDCCP, &program).or_else(|_| fs::copy(MPDCCP, &program).map(drop)).unwrap();
    fs::write(dir.path().join("libdccp_preload.so"), "").unwrap();
    let socket = dir.path().join("socketd.sock");
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let refuses = |why: &str| {
        let output =
            Command::new(&program).args(["run", "--socket"]).arg(&socket).arg("true").output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && complaint.contains(why), "{output:?}");
    };
    refuses("no daemon answers");
    rustix::net::bind(&listener, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
    // A daemon that was killed leaves its socket behind.
    refuses("no daemon answers");
    rustix::net::listen(&listener, 2).unwrap();
    let daemon = std::thread::spawn(move || {
        for answer in [Some(Reply::Err(rustix::io::Errno::PROTO.raw_os_error())), None] {
            let asker = rustix::net::accept(&listener).unwrap();
            mpdccp_socketd::receive(&asker, &mut [0; 100], true).unwrap();
            answer.iter().for_each(|answer| mpdccp_socketd::send(&asker, answer, None).unwrap());
        }
    });
    refuses("is of another version than this program");
    refuses("does not serve this program");
    daemon.join().unwrap();
}
