//! Tests that the tunnel trusts neither ICMP nor other users of the host, and that an eavesdropper learns
//! nothing.

use crate::common::{Bed, CLIENT, LOCAL, REMOTE, SERVER, bed, inside, ip, run, set_mode, socket, wait_for};
use dccp_secure::PrivateKey;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn};
use nix::sys::socket::{recvfrom, sendto, socket as system_socket};
use rustix::process::Uid;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Sends an ICMP message from an arbitrary source to a host. The function adds the checksum to `message`.
fn icmp(space: &str, to: Ipv4Addr, mut message: Vec<u8>) {
    let words = message.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = words.sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let send = move || {
        let flags = SockFlag::SOCK_CLOEXEC;
        let raw = system_socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp).unwrap();
        let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
        sendto(raw.as_raw_fd(), &message, &to, MsgFlags::empty()).unwrap();
    };
    inside(space, send);
}

/// Sends a forged Fragmentation Needed. It quotes an echo reply that was never sent, so an attacker needs to
/// know only the addresses of the two ends.
fn forge(bed: &Bed, victim: usize) {
    let ends = [LOCAL[0], REMOTE[0]].map(|ip| ip.parse::<Ipv4Addr>().unwrap());
    let (from, to) = (ends[victim], ends[1 - victim]);
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(552u16.to_be_bytes());
    message.extend([0x45, 0, 5, 220, 0, 1, 0x40, 0, 64, 1, 0, 0]);
    message.extend(from.octets().into_iter().chain(to.octets()));
    message.extend([0, 0, 0, 0, 0, 1, 0, 1]);
    icmp(&bed.space[1 - victim], from, message);
    wait_for("the forged MTU in the route cache", || {
        ip(&format!("-n {} route get {to}", bed.space[victim])).contains("mtu 552")
    });
}

#[test]
fn forged_icmp_does_not_shrink_a_path_before_or_after_it_opens() {
    let Some(mut bed) = bed() else { return };
    // Probes must find this size, although forged ICMP messages report a smaller one.
    for space in &bed.space {
        run("ip", &format!("-n {space} link set p0 mtu 1600"));
    }
    (0..2).for_each(|victim| forge(&bed, victim));
    bed.up("");
    let sizes = |bed: &Bed| {
        ["c", "s"].map(|end| {
            let status = bed.status(end);
            let paths = status["peers"][0]["paths"].as_array().unwrap();
            (status["mtu"].as_u64(), paths.iter().map(|path| path["mtu"].as_u64()).min())
        })
    };
    // 1500 minus the sizes of IPv6, UDP, record, DCCP, and MP_SEQ with the flow option. The path with the
    // smaller MTU determines the size.
    let whole = [(Some(1500 - 40 - 8 - 32 - 16 - 16), Some(Some(1500))); 2];
    assert_eq!(sizes(&bed), whole, "{}", bed.log("c"));
    wait_for("a probe of the interface's full MTU", || {
        ["c", "s"].iter().all(|end| {
            let status = bed.status(end);
            status["peers"][0]["paths"].as_array().unwrap().iter().any(|path| path["mtu"] == 1600)
        })
    });
    // Flush the MTU of the first message, because the kernel ignores a second message while it remembers the
    // first.
    for (space, to) in [(0, REMOTE[0]), (1, LOCAL[0])] {
        run("ip", &format!("-n {} route flush cache", bed.space[space]));
        wait_for("the route cache without the MTU", || {
            !ip(&format!("-n {} route get {to}", bed.space[space])).contains("mtu 552")
        });
    }
    (0..2).for_each(|victim| forge(&bed, victim));
    // Keep going for longer than the interval at which the client checks the system's path MTU.
    for _ in 0..12 {
        let large = format!("ping -c 1 -W 5 -M do -s {} {}", 1388 - 28, SERVER[0]);
        let output = bed.at_client(&large);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(sizes(&bed), whole, "{}", bed.log("c"));
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    bed.down();
}

/// Reads all frames on the outer interfaces with a packet socket (packet(7)), without using any mpdccp code.
/// An unencrypted tunnel serves as the control: there, the text must be found.
#[test]
fn an_eavesdropper_reads_nothing() {
    const WORD: &[u8] = b"a word that must not be seen on the wire";
    for (common, readable) in [("security = \"none\"", true), ("", false)] {
        let Some(mut bed) = bed() else { return };
        let tap = inside(&bed.space[1], || {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let tap = system_socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll);
            (tap.unwrap(), ["p0", "p1"].map(|name| if_nametoindex(name).unwrap() as usize))
        });
        let (mut caught, mut bytes) = (0, vec![0; 70_000]);
        let mut seen = [0; 2];
        let mut look = || {
            while let Ok((len, from)) = recvfrom::<LinkAddr>(tap.0.as_raw_fd(), &mut bytes) {
                let ours = from.is_some_and(|from| tap.1.contains(&from.ifindex()));
                let frame = &bytes[..if ours { len } else { 0 }];
                caught += frame.len();
                // Search for the inner text, and for the Service Code of the DCCP packet around it.
                for (seen, word) in seen.iter_mut().zip([WORD, b"MPTU"]) {
                    *seen += usize::from(frame.windows(word.len()).any(|w| w == word));
                }
            }
        };
        bed.up(common);
        let [client, server] =
            [0, 1].map(|end| socket(&bed.space[end], &format!("{}:7", [CLIENT, SERVER][end][0])));
        for _ in 0..20 {
            for (from, to) in [(&client, SERVER[0]), (&server, CLIENT[0])] {
                from.send_to(WORD, format!("{to}:7")).unwrap();
            }
            look();
        }
        for socket in [&client, &server] {
            socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
            let mut arrived = [0; 100];
            let len = socket.recv(&mut arrived).unwrap();
            assert_eq!(&arrived[..len], WORD);
        }
        bed.down();
        look();
        assert!(caught > 40 * WORD.len(), "{caught} bytes");
        assert_eq!(seen.map(|n| n > 0), [readable; 2], "{seen:?}");
        assert_eq!(bed.log("c").contains("anyone on the network can read"), readable, "{}", bed.log("c"));
        assert_eq!(bed.log("s").contains("anyone on the network can read"), readable, "{}", bed.log("s"));
    }
}

/// Other users get no answer, even if the modes of the socket and of its directory let them connect.
#[test]
fn other_users_of_the_host_command_nothing() {
    let Some(mut bed) = bed() else { return };
    bed.launch("");
    let socket = bed.path("c.sock");
    set_mode(socket.parent().unwrap(), 0o755);
    set_mode(&socket, 0o666);
    let ask = |user: u32| {
        let socket = socket.clone();
        // Use a separate thread, because a thread that switches to another user stays that user.
        let ask = move || {
            let user = Uid::from_raw(user);
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            let mut stream = UnixStream::connect(socket).unwrap();
            let _ = stream.write_all(b"{\"command\":\"status\"}\n");
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer
        };
        std::thread::spawn(ask).join().unwrap()
    };
    assert!(ask(0).contains("tunC"));
    assert_eq!(ask(65_534), "");
    assert!(bed.log("c").contains("control socket: user 65534 has no permission"), "{}", bed.log("c"));
    bed.down();
}

#[test]
fn a_log_for_machines_has_one_object_a_line() {
    let Some(mut bed) = bed() else { return };
    bed.arguments = vec!["--log-format", "json"];
    bed.up("");
    bed.down();
    for end in ["c", "s"] {
        let log = bed.log(end);
        let mut messages = Vec::new();
        for line in log.lines() {
            let event: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            for key in ["timestamp", "level", "message"] {
                assert!(event[key].is_string(), "no {key} in {line}");
            }
            assert!(["INFO", "WARN", "ERROR"].contains(&event["level"].as_str().unwrap()), "{line}");
            messages.push(event["message"].as_str().unwrap().to_owned());
        }
        assert!(messages.iter().any(|m| m.contains("session open")), "{log}");
    }
}

/// A server does not answer an unknown key, so the client explains the possible reasons for the silence.
#[test]
fn a_wrong_key_is_hinted_at() {
    let Some(mut bed) = bed() else { return };
    let [right, wrong] = [2, 9].map(|n| PrivateKey::from_random([n; 32]).public().to_string());
    bed.change = vec![("c", right.clone(), wrong.clone())];
    bed.launch("");
    wait_for("a hint", || bed.log("c").contains("still no answer"));
    let log = bed.log("c");
    assert!(log.contains("mpdccp pubkey") && log.contains("preshared key"), "{log}");
    // Once the configuration has the right key again, the tunnel works.
    bed.edit("c", &wrong, &right);
    bed.reload("c");
    wait_for("a session", || bed.status("c")["peers"][0]["state"] == "open");
    bed.down();
}
