//! Tests what a tunnel does to its host: name servers, the hook program, and traffic that bypasses the
//! tunnel. The tunnel must leave nothing behind.

use crate::common::{Bed, CLIENT, SERVER, bed, inside, ip, printed, run, set_mode, wait_for};
use rustix::process::Signal;

const BEFORE: &str = "nameserver 192.168.71.2\nsearch example.org\n";

/// Creates a bed whose client has its own resolv.conf, which no other program manages.
fn with_names() -> Option<Bed> {
    let mut bed = bed()?;
    bed.spaces.etc("c", "resolv.conf", BEFORE);
    // PATH has only the program `ip`.
    let bin = bed.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let ip = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|dir| dir.join("ip"))
        .find(|ip| ip.exists());
    std::os::unix::fs::symlink(ip.unwrap(), bin.join("ip")).unwrap();
    std::os::unix::fs::symlink("/bin/sh", bin.join("sh")).unwrap();
    bed.environment.push(("PATH", bin.to_str().unwrap().into()));
    Some(bed)
}

#[test]
fn name_servers_follow_the_session_and_come_back_after_all_ends() {
    let Some(mut bed) = with_names() else { return };
    let file = format!("/etc/netns/{}/resolv.conf", bed.space[0]);
    let text = || std::fs::read_to_string(&file).unwrap();
    let changed =
        || text().contains("nameserver 10.71.0.1\nsearch example.org\n") && !text().contains("192.168.71.2");
    bed.up_with("", "dns = [\"10.71.0.1\"]");
    wait_for("the name server in the tunnel", changed);
    // If a tunnel is killed, its helper process restores the name servers. If the helper is killed too, the
    // next start restores them.
    bed.signal("c", Signal::KILL);
    wait_for("the original name servers after the kill", || text() == BEFORE);
    bed.again("c");
    wait_for("the name server in the tunnel after the kill", changed);
    assert_eq!(bed.kill_helper("c").code(), Some(1));
    assert!(changed() && bed.log("c").contains("the helper process died"), "{}", bed.log("c"));
    bed.edit("c", "dns = ", "# dns = ");
    bed.again("c");
    assert_eq!(text(), BEFORE);
    bed.signal("c", Signal::KILL);
    bed.edit("c", "# dns = ", "dns = ");
    bed.again("c");
    wait_for("the name server in the tunnel again", changed);
    // While there is no session, the original name servers are in use.
    bed.signal("s", Signal::INT);
    wait_for("the original name servers", || text() == BEFORE);
    bed.again("s");
    wait_for("the name server in the tunnel after a new session", changed);
    bed.down();
    assert_eq!(text(), BEFORE);
    assert!(
        !std::fs::read_dir(bed.path("state"))
            .unwrap()
            .flatten()
            .any(|f| f.file_name().to_string_lossy().contains("resolv"))
    );
}

/// The kernel deletes the routes and the IPv6 addresses of an interface that is switched off.
#[test]
fn routes_and_addresses_come_back_after_the_interface_was_off() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    let c = bed.space[0].clone();
    let shown = |what: &str| ip(&format!("-n {c} {what} show dev tunC"));
    let has = || shown("-4 route").contains("10.72.0.0/16") && shown("-6 address").contains(CLIENT[1]);
    assert!(has());
    ip(&format!("-n {c} link set tunC down"));
    assert!(!has());
    ip(&format!("-n {c} link set tunC up"));
    wait_for("the routes and addresses", has);
    wait_for("the server answers", || bed.ping(SERVER[1]));
}

#[test]
fn a_hook_is_told_of_sessions_and_paths() {
    let Some(mut bed) = bed() else { return };
    let (hook, out) = (bed.path("hook"), bed.path("told"));
    let script = format!(
        "#!/bin/sh\necho \"$MPDCCP_EVENT $MPDCCP_INTERFACE $MPDCCP_PEER $MPDCCP_PATH\" >> {}\n[ $MPDCCP_EVENT != path-down ]\n",
        out.display()
    );
    std::fs::write(&hook, script).unwrap();
    let of_client = format!("hook = {hook:?}");
    set_mode(&hook, 0o755);
    bed.up_with("", &of_client);
    let told = || std::fs::read_to_string(&out).unwrap_or_default();
    wait_for("both path-up events", || told().matches("path-up").count() == 2);
    let first = told();
    assert!(first.starts_with("session-up tunC server \n"), "{first}");
    assert!(
        first.contains("path-up tunC server one\n") && first.contains("path-up tunC server two\n"),
        "{first}"
    );
    run("ip", &format!("-n {} link set p0 down", bed.space[0]));
    wait_for("the path-down event", || told().contains("path-down tunC server one\n"));
    wait_for("the log line about the hook's failure", || {
        bed.log("c").contains("for path-down: the program ended with exit status: 1")
    });
    bed.down();
    assert_eq!(told().matches("session-down tunC server").count(), 1, "{}", told());
    // The hook is not executable, which is reported before anything starts.
    set_mode(&hook, 0o644);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    let output = command.args(["tunnel", "check"]).arg(bed.path("c.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("is not an executable program"));
}

/// A service manager may stop a tunnel while it starts. Here, the start waits for the reader of the capture.
#[test]
fn a_signal_during_the_start_ends_the_tunnel_in_order() {
    let Some(mut bed) = bed() else { return };
    let (fifo, role) = (bed.path("fifo"), "role = \"server\"");
    assert!(run("mkfifo", fifo.to_str().unwrap()).status.success());
    bed.change = vec![("s", role.into(), format!("{role}\ncapture = {fifo:?}"))];
    bed.launch("");
    bed.signal("s", Signal::INT);
    let reader = std::thread::spawn(|| drop(std::fs::read(fifo)));
    assert!(bed.wait("s").success());
    reader.join().unwrap();
    assert!(bed.log("s").contains("closing all sessions: SIGINT"), "{}", bed.log("s"));
}

/// When the tunnel dies, the hook is called for each peer and path that was up, to report that it is now
/// down.
#[test]
fn a_hook_is_told_of_the_end_of_a_killed_tunnel() {
    let Some(mut bed) = bed() else { return };
    let (hook, out) = (bed.path("hook"), bed.path("told"));
    let script =
        format!("#!/bin/sh\necho \"$MPDCCP_EVENT $MPDCCP_PATH $MPDCCP_REASON\" >> {}\n", out.display());
    std::fs::write(&hook, script).unwrap();
    set_mode(&hook, 0o755);
    bed.up_with("", &format!("hook = {hook:?}"));
    let told = || std::fs::read_to_string(&out).unwrap_or_default();
    wait_for("both path-up events", || told().matches("path-up").count() == 2);
    bed.signal("c", Signal::KILL);
    let last =
        "path-down two the tunnel died\npath-down one the tunnel died\nsession-down  the tunnel died\n";
    wait_for("the path-down and session-down events", || told().ends_with(last));
    wait_for("the control socket is gone", || !bed.path("c.sock").exists());
}

#[test]
fn bypassing_traffic_leaves_as_without_the_tunnel() {
    let Some(mut bed) = bed() else { return };
    let client = bed.space[0].clone();
    run("ip", &format!("-n {client} route add default via 192.168.71.2"));
    bed.allowed = "\"0.0.0.0/0\", \"::/0\"".into();
    let bypass = "default_route = true\nbypass = { networks = [\"198.51.100.0/24\"], ports = [\"udp/5000-5010\"], users = [4242, \"nobody\"] }";
    bed.up_with("", bypass);
    let device = |args: &str| {
        let text = printed(&run("ip", &format!("-n {client} route get {args}")));
        text.split_once(" dev ").map_or(text.clone(), |(_, rest)| rest.split(' ').next().unwrap().to_owned())
    };
    assert_eq!(device("203.0.113.9"), "tunC");
    assert_eq!(device("198.51.100.9"), "p0");
    assert_eq!(device("203.0.113.9 ipproto udp dport 5005"), "p0");
    assert_eq!(device("203.0.113.9 ipproto udp dport 5011"), "tunC");
    assert_eq!(device("203.0.113.9 ipproto tcp dport 5005"), "tunC");
    assert_eq!(device("203.0.113.9 uid 4242"), "p0");
    assert_eq!(device("203.0.113.9 uid 4243"), "tunC");
    // Check the rule with a real socket, too.
    let source = inside(&client, || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect("203.0.113.9:5000").unwrap();
        socket.local_addr().unwrap().ip().to_string()
    });
    assert_eq!(source, "192.168.71.1");
    let rules = || {
        let all = ["-4", "-6"].map(|family| run("ip", &format!("{family} -n {client} rule")).stdout);
        String::from_utf8(all.concat()).unwrap().matches("28014:").count()
    };
    assert_eq!(rules(), 1 + 2 + 4);
    let open = |bed: &Bed| wait_for("a session", || bed.status("c")["peers"][0]["state"] == "open");
    bed.signal("c", Signal::KILL);
    wait_for("the original routes", || rules() == 0 && device("203.0.113.9") == "p0");
    bed.again("c");
    open(&bed);
    assert_eq!(rules(), 7);
    // If the helper process dies, the tunnel ends. The next tunnel takes over what it has left behind.
    bed.kill_helper("c");
    assert_eq!(rules(), 7);
    bed.again("c");
    open(&bed);
    assert_eq!(rules(), 7, "no rule exists twice");
    // A tunnel without `bypass` and `default_route` removes what the previous tunnel has left behind.
    bed.kill_helper("c");
    bed.edit("c", bypass, "");
    bed.again("c");
    open(&bed);
    assert_eq!(rules(), 0);
    assert!(!String::from_utf8_lossy(&run("ip", &format!("-n {client} rule")).stdout).contains("0x6d70"));
    bed.down();
}
