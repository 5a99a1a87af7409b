//! A server is taken away, asked or unasked: its clients go on with the other one.

use crate::common::{Bed, CLIENT, REMOTE, SERVER, bed, run, udp_payloads, wait_for};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The second server: the first one's configuration at other addresses of its host, with other inner ones.
struct Second(Child);

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn second(bed: &Bed) -> Second {
    let text = std::fs::read_to_string(bed.path("s.toml")).unwrap();
    let text = text.replace("tunS", "tunT").replace("s.sock", "t.sock").replace(":6511", ":6512");
    let text = text.replace("role =", "server_number = 7\nroutes = false\nrole =");
    std::fs::write(bed.path("t.toml"), text).unwrap();
    let log = std::fs::File::create(bed.path("t.log")).unwrap();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &bed.space[1], env!("CARGO_BIN_EXE_mpdccp"), "tunnel", "up", "--config"]);
    let child = command.arg(bed.path("t.toml")).stderr(log).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the second server", || bed.path("t.sock").exists());
    Second(child)
}

/// With the interface of the server that is to answer alone in having the address.
fn answers(bed: &Bed, interface: &str, other: &str) -> bool {
    let space = &bed.space[1];
    run("ip", &format!("-n {space} addr del {}/24 dev {other}", SERVER[0]));
    run("ip", &format!("-n {space} addr add {}/24 dev {interface}", SERVER[0]));
    run("ip", &format!("-n {space} route replace {}/32 dev {interface}", CLIENT[0]));
    bed.at_client(&format!("ping -c 1 -W 1 {}", SERVER[0])).status.success()
}

fn start() -> Option<(Bed, Second)> {
    let mut bed = bed()?;
    // Each path's second remote is the second server; both have the same key.
    bed.remote = [REMOTE[0].to_owned(), format!("[{}]", REMOTE[1])]
        .map(|host| format!("[\"{host}:6511\", \"{host}:6512\"]"));
    bed.up("");
    let other = second(&bed);
    Some((bed, other))
}

fn clients(bed: &Bed, end: &str) -> usize {
    let status = bed.status(end);
    usize::from(status["peers"][0]["state"] == "open")
}

#[test]
fn a_drained_server_is_left_for_the_next() {
    let Some((mut bed, _second)) = start() else { return };
    let since = Instant::now();
    let output = bed.tunnel("s", &["drain"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.ends_with("0 client(s) left here\n"), "{text}");
    wait_for("the client is at the second", || clients(&bed, "t") == 1 && clients(&bed, "s") == 0);
    // What is promised, and far more than it takes.
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    wait_for("over both paths", || ["one", "two"].iter().all(|name| bed.client_path(name)["state"] == "up"));
    wait_for("it carries", || answers(&bed, "tunT", "tunS"));
    // What is for the second server says so (docs/fleet.md).
    let capture = std::fs::read(bed.path("c.pcap")).unwrap();
    let numbered = |bytes: &Vec<u8>| bytes[..4] == [0x52, 0, 0, 7];
    assert!(udp_payloads(&capture).iter().any(numbered));
    // A client that would come now is refused; and a client is not drained.
    let output = bed.tunnel("c", &["drain"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && message.contains("only a server"), "{message}");
    bed.down();
}

#[test]
fn a_server_that_dies_is_left_for_the_next() {
    let Some((bed, _second)) = start() else { return };
    bed.signal("s", rustix::process::Signal::KILL);
    wait_for("the client is at the second", || {
        // Something has to be sent for its silence to be noticed.
        bed.at_client(&format!("ping -c 1 -W 1 {}", SERVER[0]));
        clients(&bed, "t") == 1
    });
    wait_for("it carries", || answers(&bed, "tunT", "tunS"));
    assert!(bed.log("c").contains("on to server 2 of 2"));
}
