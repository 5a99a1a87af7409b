//! Tests TCP connections carried by the tunnel as streams, as seen by the hosts.

use crate::common::spaces::Spaces;
use crate::common::{Bed, CLIENT, REMOTE, SERVER, bed, inside, ip, run, wait_for};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time limit of a step, which is reached only if the step hangs.
const PATIENCE: Duration = Duration::from_secs(30);

fn up(common: &str) -> Option<Bed> {
    let mut bed = bed()?;
    bed.up(&format!("tcp = \"streams\"\n{common}"));
    Some(bed)
}

pub(crate) fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}

fn listen(bed: &Bed, end: usize, address: SocketAddr) -> TcpListener {
    inside(&bed.space[end], move || TcpListener::bind(address).unwrap())
}

fn connect(bed: &Bed, end: usize, to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = inside(&bed.space[end], move || TcpStream::connect_timeout(&to, PATIENCE))?;
    patient(&stream);
    Ok(stream)
}

fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let (stream, from) = listener.accept().unwrap();
    patient(&stream);
    (stream, from)
}

fn patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}

/// Opens a connection from the client's host to the server's host.
fn pair(bed: &Bed, port: u16) -> (TcpStream, TcpStream) {
    let listener = listen(bed, 1, at(SERVER[0], port));
    let near = connect(bed, 0, at(SERVER[0], port)).unwrap();
    (near, accept(&listener).0)
}

fn tcp(bed: &Bed, end: &str, key: &str) -> u64 {
    bed.status(end)["tcp"][key].as_u64().unwrap()
}

/// Returns bytes whose pattern reveals data that has been displaced.
pub(crate) fn pattern(n: usize) -> Vec<u8> {
    (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

#[test]
fn hosts_see_the_true_addresses_in_both_directions_and_versions() {
    let Some(mut bed) = up("") else { return };
    for (end, from, to) in [(0, CLIENT, SERVER), (1, SERVER, CLIENT)] {
        for version in 0..2 {
            // Port 80 must work too, although the proxy thread lacks the capability to bind ports below 1024.
            let address = at(to[version], [8_000, 80][version]);
            let listener = listen(&bed, 1 - end, address);
            let mut near = connect(&bed, end, address).unwrap();
            let (mut far, seen) = accept(&listener);
            assert_eq!(seen.ip().to_string(), from[version]);
            assert_eq!((near.local_addr().unwrap(), near.peer_addr().unwrap()), (seen, address));
            assert_eq!(far.local_addr().unwrap(), address);
            // In this test, the server sends first.
            far.write_all(b"hello").unwrap();
            let mut heard = [0; 5];
            near.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"hello");
        }
    }
    assert_eq!(["c", "s"].map(|end| tcp(&bed, end, "opened")), [2, 2]);
    assert_eq!(["c", "s"].map(|end| tcp(&bed, end, "accepted")), [2, 2]);
    wait_for("no flow is left", || tcp(&bed, "c", "flows") + tcp(&bed, "s", "flows") == 0);
    bed.down();
}

#[test]
fn every_byte_arrives_and_each_direction_ends_by_itself_while_a_path_dies() {
    let Some(mut bed) = up("") else { return };
    let (mut near, mut far) = pair(&bed, 8_000);
    let data = pattern(30_000_000);
    let sent = data.clone();
    let sender = std::thread::spawn(move || {
        near.write_all(&sent).unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        // The other direction of the connection is still open.
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).unwrap();
        answer
    });
    let mut got = vec![0; 5_000_000];
    far.read_exact(&mut got).unwrap();
    run("ip", &format!("-n {} link set p0 down", bed.space[0]));
    far.read_to_end(&mut got).unwrap();
    assert!(got == data, "{} of {} bytes", got.len(), data.len());
    far.write_all(b"thanks").unwrap();
    drop(far);
    assert_eq!(sender.join().unwrap(), b"thanks");
    let read = bed.status("c")["tun"]["read_packets"].as_u64().unwrap();
    assert!(read < 30_000_000 / 1_400 / 2, "{read} packets: super-packets of the kernel were segmented");
    assert!(tcp(&bed, "c", "read_bytes") == 30_000_000 && tcp(&bed, "s", "written_bytes") == 30_000_000);
    bed.down();
}

#[test]
fn a_refused_port_is_refused_and_a_reset_stays_a_reset() {
    let Some(mut bed) = up("") else { return };
    for ip in SERVER {
        let refused = connect(&bed, 0, at(ip, 9)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
    assert_eq!(tcp(&bed, "c", "refused"), 2);
    let (mut near, far) = pair(&bed, 8_000);
    set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
    drop(far);
    assert_eq!(near.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let (near, mut far) = pair(&bed, 8_001);
    set_socket_linger(&near, Some(Duration::ZERO)).unwrap();
    drop(near);
    assert_eq!(far.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::ConnectionReset);
    bed.down();
}

/// Runs a Python script in an end's namespace.
fn python(bed: &Bed, end: usize, script: &str) -> Child {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &bed.space[end], "python3", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A server that returns all data once the client has finished sending.
const ECHO: &str = r#"
import asyncio, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
async def echo(reader, writer):
    writer.write(await reader.read())
    await writer.drain()
    writer.close()
async def main():
    await (await asyncio.start_server(echo, "10.71.0.1", 8000, backlog=2000)).serve_forever()
asyncio.run(main())
"#;

/// A client that opens a thousand connections before using any of them.
const MANY: &str = r#"
import asyncio, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
async def connect():
    for _ in range(600):
        try:
            return await asyncio.open_connection("10.71.0.1", 8000)
        except ConnectionRefusedError:
            # It does not listen yet.
            await asyncio.sleep(0.05)
async def use(n, reader, writer):
    data = bytes([n % 256]) * 50_000
    writer.write(data)
    writer.write_eof()
    assert await reader.read() == data, n
async def main():
    reader, writer = await connect()
    pairs = [(reader, writer)] + await asyncio.gather(*(connect() for _ in range(999)))
    await asyncio.gather(*(use(n, *pair) for n, pair in enumerate(pairs)))
asyncio.run(asyncio.wait_for(main(), 100))
"#;

#[test]
fn a_thousand_connections_at_once() {
    let Some(mut bed) = up("") else { return };
    let mut server = python(&bed, 1, ECHO);
    let said = python(&bed, 0, MANY).wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let _ = server.kill();
    server.wait().unwrap();
    // The counter includes attempts made before the server was listening.
    assert!(tcp(&bed, "s", "accepted") >= 1_000);
    bed.down();
}

/// Returns the network namespaces of a process's threads.
fn namespaces(pid: &str) -> Vec<PathBuf> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_link(thread.path().join("ns/net")).ok()).collect()
}

/// Returns the network namespace in which an end terminates TCP connections.
fn private_namespace(bed: &Bed, end: &str) -> PathBuf {
    let pid = bed.pid(end).as_raw_nonzero().to_string();
    let host = std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    namespaces(&pid).into_iter().find(|namespace| *namespace != host).unwrap()
}

/// Returns whether any process is in a network namespace.
fn is_used(namespace: &PathBuf) -> bool {
    let mut processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.any(|process| namespaces(&process.file_name().to_string_lossy()).contains(namespace))
}

#[test]
fn a_killed_end_resets_the_flows_of_the_other_and_leaves_nothing() {
    for killed in ["c", "s"] {
        let Some(mut bed) = up("") else { return };
        let (mut near, mut far) = pair(&bed, 8_000);
        near.write_all(b"before").unwrap();
        let mut got = [0; 6];
        far.read_exact(&mut got).unwrap();
        let private = private_namespace(&bed, killed);
        bed.signal(killed, Signal::KILL);
        // When the killed end is back, the other end learns that the connection died.
        bed.again(killed);
        let (mut left, mut lost) = if killed == "c" { (far, near) } else { (near, far) };
        assert_eq!(left.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::ConnectionReset);
        // This host learns that its connection was lost only when it sends data.
        lost.write_all(b"more").unwrap();
        assert_eq!(lost.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::ConnectionReset);
        wait_for("no process in the private namespace", || !is_used(&private));
        let (mut near, mut far) = pair(&bed, 8_001);
        near.write_all(b"again!").unwrap();
        far.read_exact(&mut got).unwrap();
        bed.down();
    }
}

#[test]
fn after_a_crash_of_both_ends_both_hosts_learn_that_the_connection_is_over() {
    let Some(mut bed) = up("") else { return };
    let (near, far) = pair(&bed, 8_000);
    ["c", "s"].iter().for_each(|end| bed.signal(end, Signal::KILL));
    ["s", "c"].iter().for_each(|end| bed.again(end));
    wait_for("a path", || bed.client_path("one")["state"] == "up");
    for mut host in [near, far] {
        host.write_all(b"more").unwrap();
        assert_eq!(host.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(["c", "s"].map(|end| bed.status(end)["tcp"]["as_packets"]["midstream"].clone()), [0, 0]);
    let left = |bed: &Bed| {
        std::fs::read_dir(bed.path(""))
            .unwrap()
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains("connections"))
            .count()
    };
    assert_eq!(left(&bed), 2);
    bed.down();
    assert_eq!(left(&bed), 0);
}

#[test]
fn without_a_namespace_of_its_own_connections_travel_as_packets() {
    let Some(mut bed) = up("offload = false") else { return };
    let (mut near, mut far) = pair(&bed, 8_000);
    near.write_all(b"hello").unwrap();
    let mut got = [0; 5];
    far.read_exact(&mut got).unwrap();
    assert!(bed.status("c")["tcp"].is_null());
    assert!(bed.log("c").contains("cannot terminate TCP"));
    bed.down();
}

#[test]
fn connections_beyond_half_of_the_descriptors_travel_as_packets() {
    let Some(mut bed) = bed() else { return };
    bed.descriptors = Some(128);
    bed.up("tcp = \"streams\"");
    let listener = listen(&bed, 1, at(SERVER[0], 8_000));
    let mut pairs: Vec<_> =
        (0..100).map(|_| (connect(&bed, 0, at(SERVER[0], 8_000)).unwrap(), accept(&listener).0)).collect();
    for (near, far) in &mut pairs {
        near.write_all(b"hello").unwrap();
        far.read_exact(&mut [0; 5]).unwrap();
    }
    assert_eq!(["c", "s"].map(|end| tcp(&bed, end, "flows")), [64; 2]);
    assert_eq!(bed.status("c")["tcp"]["as_packets"]["limit"], 36);
    drop(pairs);
    bed.down();
}

/// The tunnel carries a connection to a distant host as a stream. After the tunnel is killed, the connection
/// does not bypass it.
#[test]
fn a_kill_switch_holds_for_connections() {
    let Some(mut bed) = bed() else { return };
    let far = at("198.18.0.1", 8_000);
    ip(&format!("-n {} addr add 198.18.0.1/32 dev lo", bed.space[1]));
    ip(&format!("-n {} route add default via {}", bed.space[0], REMOTE[0]));
    bed.allowed = "\"0.0.0.0/0\"".into();
    bed.up_with("tcp = \"streams\"", "default_route = true\nkill_switch = true");
    let listener = listen(&bed, 1, far);
    connect(&bed, 0, far).unwrap();
    assert_eq!(accept(&listener).1.ip().to_string(), CLIENT[0]);
    assert_eq!((tcp(&bed, "c", "opened"), tcp(&bed, "s", "accepted")), (1, 1));
    bed.signal("c", Signal::KILL);
    let gone = || !run("ip", &format!("-n {} link show tunC", bed.space[0])).status.success();
    wait_for("the interface is gone", gone);
    assert!(connect(&bed, 0, far).is_err());
    bed.again("c");
    wait_for("a path", || bed.client_path("one")["state"] == "up");
    connect(&bed, 0, far).unwrap();
    bed.down();
}

#[test]
fn connections_stay_with_a_server_that_drains_and_new_ones_go_to_the_next() {
    let Some(mut bed) = bed() else { return };
    let [c, s] = bed.space.clone();
    // A second server with the same inner addresses, behind the host of the first server.
    let Some(mut second) = Spaces::new("mpt2-", &["d"], &[]) else { return };
    let d = second.space("d");
    for command in [
        format!("link add q netns {s} type veth peer name q netns {d}"),
        format!("-n {s} addr add 192.168.73.1/24 dev q"),
        format!("-n {s} addr add fd73::1/64 dev q nodad"),
        format!("-n {d} addr add 192.168.73.2/24 dev q"),
        format!("-n {d} addr add fd73::2/64 dev q nodad"),
        format!("-n {s} link set q up"),
        format!("-n {d} link set q up"),
        format!("netns exec {s} sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"),
        format!("-n {c} route add 192.168.73.0/24 via {}", REMOTE[0]),
        format!("-n {c} route add fd73::/64 via {}", REMOTE[1]),
        format!("-n {d} route add default via 192.168.73.1"),
        format!("-n {d} route add default via fd73::1"),
    ] {
        ip(&command);
    }
    bed.remote = [
        format!("[\"{}:6511\", \"192.168.73.2:6511\"]", REMOTE[0]),
        format!("[\"[{}]:6511\", \"[fd73::2]:6511\"]", REMOTE[1]),
    ];
    bed.up("tcp = \"streams\"");
    let own = |path: &str| bed.path(path).to_str().unwrap().to_owned();
    let text = std::fs::read_to_string(bed.path("s.toml")).unwrap();
    std::fs::write(bed.path("d.toml"), text.replace(&own("s.sock"), &own("d.sock"))).unwrap();
    let mut command = second.mpdccp("d", "tunnel up --config");
    command.arg(bed.path("d.toml")).stderr(Stdio::null());
    second.ends.push(command.spawn().unwrap());
    wait_for("the second server", || bed.path("d.sock").exists());
    let (mut near, mut far) = pair(&bed, 8_000);
    let left = bed.tunnel("s", &["drain", "--seconds", "1"]);
    assert_eq!(left.status.code(), Some(1), "one connection is still open");
    wait_for("the client is with the second server", || bed.has_both_paths("d"));
    let listener = inside(&d, || TcpListener::bind(at(SERVER[0], 8_001)).unwrap());
    let mut other = connect(&bed, 0, at(SERVER[0], 8_001)).unwrap();
    let (mut other_far, from) = accept(&listener);
    assert_eq!(from.ip().to_string(), CLIENT[0]);
    assert_eq!((tcp(&bed, "d", "accepted"), tcp(&bed, "s", "accepted"), tcp(&bed, "c", "opened")), (1, 1, 2));
    for (one, another) in [(&mut near, &mut far), (&mut other, &mut other_far)] {
        let data = pattern(1_000_000);
        let sent = data.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| one.write_all(&sent).unwrap());
            let mut got = vec![0; data.len()];
            another.read_exact(&mut got).unwrap();
            assert!(got == data);
        });
    }
    // The old session ends once its last connection has ended.
    drop(near);
    assert_eq!(far.read_to_end(&mut Vec::new()).unwrap(), 0);
    drop(far);
    wait_for("the old server has no client", || {
        bed.tunnel("s", &["drain", "--seconds", "1"]).status.success()
    });
    other.write_all(b"more").unwrap();
    other_far.read_exact(&mut [0; 4]).unwrap();
    bed.down();
}
