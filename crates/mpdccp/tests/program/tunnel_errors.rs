//! Tests wrong input and missing prerequisites. The program must print one message that says what is wrong,
//! where, and how to fix it, exit with code 2, and leave nothing behind.

use crate::common::{set_mode, skipped};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SERVER: &str = r#"
role = "server"
security = "none"
interface = "mperr0"
listen = ["127.0.0.1:0"]
addresses = ["10.99.99.1/24"]
[[peer]]
name = "one"
allowed_ips = ["10.99.99.2/32"]
from = ["127.0.0.1"]
"#;

const CLIENT: &str = r#"
role = "client"
security = "none"
interface = "mperr0"
addresses = ["10.99.99.2/24"]
[[peer]]
name = "hub"
allowed_ips = ["10.99.99.0/24"]
[[peer.path]]
name = "a"
local = "127.0.0.1"
remote = "127.0.0.1:6511"
"#;

struct Case {
    directory: tempfile::TempDir,
}

impl Case {
    fn new(config: &str) -> Case {
        let case = Case { directory: tempfile::tempdir().unwrap() };
        let control = format!("control = {:?}\n", case.path("control.sock"));
        std::fs::write(case.path("tunnel.toml"), control + config).unwrap();
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        command.arg("tunnel").args(args).arg("--config").arg(self.path("tunnel.toml"));
        command
    }

    /// Runs `tunnel up`, which must fail with a message that contains all of `words`.
    fn fails_with(&self, words: &[&str]) {
        self.check(self.command(&["up"]).output().unwrap(), words);
    }

    fn check(&self, output: Output, words: &[&str]) {
        self.check_code(2, output, words);
    }

    fn check_code(&self, code: i32, output: Output, words: &[&str]) {
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{message}");
        for word in words {
            assert!(message.contains(word), "no `{word}` in: {message}");
        }
        assert!(!message.contains("panicked"), "{message}");
        assert!(!self.path("control.sock").exists());
        assert!(!std::fs::exists("/sys/class/net/mperr0").unwrap());
    }
}

#[test]
fn more_paths_than_a_session_has_are_refused() {
    let path = |n: u32| {
        format!("[[peer.path]]\nname = \"p{n}\"\nlocal = \"127.0.0.1\"\nremote = \"127.0.0.1:6511\"\n")
    };
    let more: String = (0..63).map(path).collect();
    Case::new(&format!("{CLIENT}{more}")).fails_with(&["tunnel.toml: line", "64 paths; expected at most 8"]);
}

/// Most configuration errors are covered by mpdccp-tunnel/tests/it/config.toml. This test covers the others.
#[test]
fn wrong_values_name_what_is_allowed() {
    let with = |line: &str| Case::new(&format!("{line}\n{CLIENT}"));
    with("reordering = \"strict\"").fails_with(&["line 2", "passive", "active-fixed"]);
    with("join_advertised = \"ring\"").fails_with(&["line 2", "ring", "`no`", "`mesh`", "`pairs`"]);
    with("queue = { max_ms = 50, max = 3 }").fails_with(&["line 2", "max_bytes"]);
    with("queue = { max_packets = 0 }").fails_with(&["line 2", "expected 1 or more"]);
    Case::new(&format!("advertise = [\"224.0.0.1\"]\n{SERVER}"))
        .fails_with(&["advertise: 224.0.0.1", "unicast address"]);
    let to = |remote: &str| Case::new(&CLIENT.replace("127.0.0.1:6511", remote));
    to("224.0.0.5:6511").fails_with(&["path `a`", "remote 224.0.0.5:6511", "not an address of a host"]);
    to("2001:db8::1:6511").fails_with(&["line 13", "is ambiguous", "\"[2001:db8::1]:6511\""]);
    let rule = |text: &str| Case::new(&format!("{CLIENT}[[policy_rule]]\nprotocol = \"udp\"\n{text}"));
    rule("").fails_with(&["line 14", "policy_rule: rule 1", "has no action"]);
    rule("scheduler = \"best\"").fails_with(&["line 14", "rule 1", "best", "redundant"]);
    Case::new(&SERVER.replace("from", "#")).fails_with(&["line 8", "one", "from = \"any\""]);
    let case = Case::new("");
    std::fs::remove_file(case.path("tunnel.toml")).unwrap();
    case.fails_with(&["tunnel.toml", "No such file"]);
}

#[test]
fn keys_that_are_missing_wrong_or_open_to_others_are_named() {
    let key = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
    let (own, other) =
        ("hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=", "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=");
    let none = "security = \"none\"";
    let with = |top: &str, peer: &str| {
        let peer = format!("allowed_ips = [\"10.99.99.0/24\"]\n{peer}");
        Case::new(&CLIENT.replace(none, top).replace("allowed_ips = [\"10.99.99.0/24\"]", &peer))
    };
    let (mine, theirs) = (format!("private_key = \"{key}\""), format!("public_key = \"{other}\""));
    with(&mine, "public_key = \"AAAA\"").fails_with(&["line 10", "3 bytes"]);
    with(&mine, &format!("public_key = \"{own}\"")).fails_with(&["peer `hub`", "the public key of this end"]);
    with(&mine, &format!("public_key = \"{key}\"")).fails_with(&["peer `hub`", "private key of this end"]);
    with("private_key = \"AAAA\"", &theirs).fails_with(&["private_key", "3 bytes"]);
    with(&format!("{none}\n{mine}"), "").fails_with(&["security = \"none\"", "private_key", "leave"]);
    with(&format!("{mine}\nciphers = [\"rot13\"]"), &theirs).fails_with(&["aes-128-gcm"]);
    let file = with("private_key_file = \"/nonexistent/key\"", &theirs);
    file.fails_with(&["private_key_file", "/nonexistent/key", "No such file"]);
    let path = file.path("open.key");
    std::fs::write(&path, key).unwrap();
    set_mode(&path, 0o640);
    with(&format!("private_key_file = {path:?}"), &theirs).fails_with(&["other users can read", "chmod 600"]);
}

/// The tunnel refuses key files that other users can read.
#[test]
fn the_examples_of_genkey_make_files_for_their_owner_only() {
    let program = Path::new(env!("CARGO_BIN_EXE_mpdccp"));
    let help = Command::new(program).args(["genkey", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let examples: Vec<&str> = help
        .lines()
        .filter(|line| line.contains("mpdccp genkey |") || line.contains("mpdccp genkey >"))
        .collect();
    assert_eq!(examples.len(), 2, "{help}");
    let places = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    for example in examples {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("umask 022\n{}", example.replace("/etc/mpdccp/", ""));
        let mut shell = Command::new("sh");
        shell.args(["-ec", &script]).env("PATH", &places).current_dir(&directory);
        let done = shell.output().unwrap();
        assert!(done.status.success(), "{example}: {done:?}");
        let mode = std::fs::metadata(directory.path().join("private.key")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{example}");
    }
}

#[test]
fn addresses_are_given_or_asked_for() {
    let auto = CLIENT.lines().find(|line| line.starts_with("addresses")).unwrap();
    Case::new(&CLIENT.replace(auto, "addresses = \"auto\""))
        .fails_with(&["needs keys", "security = \"noise\""]);
    Case::new(&format!("assign = {{ pool = [\"10.99.99.0/24\"] }}\n{SERVER}"))
        .fails_with(&["[assign] needs keys"]);
    let key = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
    let server = SERVER
        .replace("security = \"none\"", &format!("private_key = \"{key}\""))
        .replace("from = [\"127.0.0.1\"]", "public_key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"");
    Case::new(&format!("assign = {{ pool = [] }}\n{server}")).fails_with(&["assign: pool", "10.0.0.0/24"]);
    let many: Vec<String> = (0..99).map(|n| format!("\"10.{n}.0.0/16\"")).collect();
    let many = format!("assign = {{ pool = [\"10.99.99.0/24\"], routes = [{}] }}\n{server}", many.join(", "));
    Case::new(&many).fails_with(&["assign: routes", "too many"]);
}

#[test]
fn peers_must_be_told_apart() {
    let second = |from: &str| {
        format!("{SERVER}[[peer]]\nname = \"two\"\nallowed_ips = [\"10.99.99.3/32\"]\nfrom = {from}\n")
    };
    Case::new(&second("[\"192.0.2.1\", \"127.0.0.1\"]")).fails_with(&[
        "line 15",
        "`one` and `two`",
        "127.0.0.1",
    ]);
    let any = second("[\"192.0.2.1\"]").replacen("[\"127.0.0.1\"]", "\"any\"", 1);
    Case::new(&any).fails_with(&["line 15", "peer `one` has from", "move peer `two` before"]);
}

#[test]
fn an_address_that_is_not_here_to_listen_on() {
    // The address may appear later, for example while the host boots. So the exit code is 1, which makes the
    // service manager try again.
    let fails_with = |config: &str, words: &[&str]| {
        let case = Case::new(config);
        case.check_code(1, case.command(&["up"]).output().unwrap(), words);
    };
    let elsewhere = SERVER.replace("127.0.0.1:0", "192.0.2.77:0");
    fails_with(&elsewhere, &["listen 192.0.2.77:0", "no address 192.0.2.77", "ip address"]);
    fails_with(&format!("web = \"192.0.2.77:80\"\n{SERVER}"), &["web: cannot listen on 192.0.2.77:80"]);
}

#[test]
fn a_port_in_use() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = format!("127.0.0.1:{}", taken.local_addr().unwrap().port());
    Case::new(&SERVER.replace("127.0.0.1:0", &listen)).fails_with(&[&listen, "in use", "ss -ulnp"]);
}

/// Flags of `setpriv` for a user without rights.
const NOBODY: &[&str] = &["--reuid=65534", "--regid=65534", "--clear-groups"];

/// Runs `mpdccp tunnel` with the rights that these flags of `setpriv` leave. Only root can do that; for other
/// users, prints that the test was skipped.
fn with_rights(flags: &[&str], args: &[&str], file: &Path) -> Option<Output> {
    // Every user must be able to reach the program.
    let directory = tempfile::tempdir().unwrap();
    set_mode(directory.path(), 0o755);
    let binary = directory.path().join("mpdccp");
    std::fs::copy(env!("CARGO_BIN_EXE_mpdccp"), &binary).unwrap();
    let mut command = Command::new("setpriv");
    match command.args(flags).arg(binary).arg("tunnel").args(args).arg(file).output() {
        Ok(output) if !output.stderr.starts_with(b"setpriv") => Some(output),
        other => {
            skipped(format!("cannot run setpriv: {other:?}"));
            None
        }
    }
}

#[test]
fn no_permission_to_make_an_interface() {
    let case = Case::new(CLIENT);
    set_mode(case.directory.path(), 0o777);
    // Root may create interfaces.
    if let Some(output) = with_rights(NOBODY, &["up", "--config"], &case.path("tunnel.toml")) {
        case.check(output, &["cannot create interface mperr0", "CAP_NET_ADMIN"]);
    }
}

#[test]
fn native_dccp_has_no_udp_port() {
    Case::new(&format!("encapsulation = \"raw\"\n{CLIENT}"))
        .fails_with(&["remote 127.0.0.1:6511", "no UDP port"]);
}

/// Runs `tunnel check` on a configuration.
fn checked(file: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    let output = command.args(["tunnel", "check"]).arg(file).args(more).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_file_is_checked_without_starting_anything() {
    let case = Case::new(&format!("rate = \"100\"\n{CLIENT}"));
    let file = case.path("tunnel.toml");
    let (code, said) = checked(&file, &[]);
    assert_eq!(code, Some(0), "{said}");
    for words in ["warning: line 2: rate of 100 bit/s", "no errors, 1 warning"] {
        assert!(said.contains(words), "{said}");
    }
    let wrong = CLIENT.replace("interface =", "interfase =").replace("local =", "priority = 16\nlocale =");
    let wrong = wrong.replace("security = \"none\"", "private_key_file = \"/nonexistent/key\"");
    std::fs::write(&file, wrong).unwrap();
    let (code, said) = checked(&file, &["--json"]);
    assert_eq!(code, Some(2), "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let errors = said["errors"].as_array().unwrap();
    let of = |key: &str| errors.iter().find(|e| e["key"] == key).map_or(0, |e| e["line"].as_u64().unwrap());
    let lines =
        ["private_key_file", "interfase", "peer.public_key", "peer.path.priority", "peer.path.locale"]
            .map(of);
    assert_eq!(lines, [3, 4, 6, 11, 12], "{said}");
    assert_eq!(checked(&case.path("none.toml"), &[]).0, Some(2));
    assert!(!case.path("control.sock").exists());
}

/// In the packaged unit, root may not read other users' files.
#[test]
fn a_file_that_may_not_be_read_is_named_with_a_remedy() {
    let case = Case::new("");
    let file = case.path("tunnel.toml");
    set_mode(case.directory.path(), 0o755);
    set_mode(&file, 0o600);
    let powerless = ["--bounding-set=-all", "--inh-caps=-all"];
    for (rights, owner, words) in [(NOBODY, 0, "; use sudo"), (&powerless, 4711, "run: chown root ")] {
        if chown(&file, Some(owner), None).is_err() {
            return skipped("only root can give a file away");
        }
        let Some(output) = with_rights(rights, &["check"], &file) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("tunnel.toml: Permission denied") && said.contains(words), "{said}");
    }
}

/// A user without permission must not be told to start a tunnel.
#[test]
fn a_lack_of_rights_is_told_from_a_tunnel_that_is_not_there() {
    let closed = tempfile::tempdir().unwrap();
    set_mode(closed.path(), 0o700);
    let socket = closed.path().join("control.sock");
    if let Some(output) = with_rights(NOBODY, &["status", "--config"], &socket) {
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("only root") && !message.contains("tunnel up"), "{message}");
    }
}

#[test]
fn nobody_to_ask() {
    let case = Case::new(CLIENT);
    for args in [&["status"][..], &["down"], &["path", "del", "a"]] {
        case.check(case.command(args).output().unwrap(), &["no tunnel answers", "tunnel up"]);
    }
    // For `health`, this is a finding instead of an error.
    let output = case.command(&["health", "--json"]).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &found["healthy"]), (Some(1), &false.into()), "{output:?}");
    assert!(found["wrong"][0].as_str().unwrap().contains("no tunnel answers"), "{found}");
}

/// A running tunnel keeps its control socket, which is named after `interface`, when `interface` changes in
/// the tunnel's file.
#[test]
fn a_tunnel_whose_file_names_another_socket_is_listed() {
    let case = Case::new(CLIENT);
    let directory = case.path("mpdccp");
    std::fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o700);
    let _running = UnixListener::bind(directory.join("old.sock")).unwrap();
    for args in ["reload", "down"] {
        let mut command = case.command(&[args]);
        let output = command.env("XDG_RUNTIME_DIR", case.directory.path()).output().unwrap();
        case.check(output, &["no tunnel answers", "a running tunnel with --config", "mpdccp/old.sock"]);
    }
}

#[test]
fn a_control_socket_that_cannot_be_created_is_named_with_a_remedy() {
    let case = Case::new("");
    let control = case.path("none").join("c.sock");
    std::fs::write(case.path("tunnel.toml"), format!("control = {control:?}\n{CLIENT}")).unwrap();
    case.fails_with(&["cannot create control socket", "none/c.sock", "set `control`"]);
}

/// The tunnel is killed while it handles a request.
#[test]
fn a_tunnel_that_does_not_answer_is_named() {
    let case = Case::new(CLIENT);
    let socket = case.path("control.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    // If the end of a socket has unread data when it is closed, the other end gets an error.
    let tunnel = std::thread::spawn(move || listener.accept().unwrap().0.read_exact(&mut [0]).unwrap());
    let output = case.command(&["reload"]).output().unwrap();
    tunnel.join().unwrap();
    std::fs::remove_file(socket).unwrap();
    case.check_code(1, output, &["no answer from the tunnel at", "control.sock", "see its log"]);
}

/// If it panicked instead, it would lift a kill switch.
#[test]
fn a_helper_whose_log_nobody_reads_ends_in_order() {
    let ((mut ours, its), (reader, writer)) = (UnixStream::pair().unwrap(), std::io::pipe().unwrap());
    drop(reader);
    let mut helper = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    helper.args(["tunnel", "helper", "none.toml"]).stdin(OwnedFd::from(its)).stderr(writer);
    let mut helper = helper.spawn().unwrap();
    // A request that no tunnel sends: its length, and its text.
    ours.write_all(&[&2_u32.to_ne_bytes()[..], b"{}"].concat()).unwrap();
    assert_eq!(helper.wait().unwrap().code(), Some(0));
}
