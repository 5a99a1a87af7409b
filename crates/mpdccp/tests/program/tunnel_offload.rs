//! Tests the kernel's super-packets through the tunnel. Data must arrive unchanged, whether or not the
//! interface accepts super-packets.

use crate::common::{Bed, CLIENT, SERVER, bed, inside, run, socket, wait_for};
use crate::tunnel_tcp::{at, pattern};
use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Sends bytes over TCP from `from` to `to`, in odd-sized writes. Returns the bytes that arrived.
fn over_tcp(bed: &Bed, (from, to): (usize, usize), address: &'static str, port: u16) -> Vec<u8> {
    let listener = inside(&bed.space[to], move || TcpListener::bind(at(address, port)).unwrap());
    let mut stream = inside(&bed.space[from], move || TcpStream::connect(at(address, port)).unwrap());
    let sender = std::thread::spawn(move || {
        pattern(SIZE).chunks(70_001).for_each(|chunk| stream.write_all(chunk).unwrap());
    });
    let mut received = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    received
}

const SIZE: usize = 3_000_001;

/// Returns how many packets and super-packets the kernel handed over at the client's interface.
fn handed_over(bed: &Bed) -> u64 {
    let output = run("ip", &format!("-n {} -j -s link show dev tunC", bed.space[0]));
    let links: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    links[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

fn carries_everything(keys: &str) -> Option<(u64, u64)> {
    let mut bed = bed()?;
    bed.up(keys);
    for family in 0..2 {
        for (from, to, address) in [(0, 1, SERVER[family]), (1, 0, CLIENT[family])] {
            let received = over_tcp(&bed, (from, to), address, 7_100 + family as u16);
            assert!(received == pattern(SIZE), "{address}: {} bytes", received.len());
        }
        datagrams(&bed, family);
    }
    let mut read = 0;
    wait_for("figures", || {
        read = bed.status("c")["tun"]["read_packets"].as_u64().unwrap_or(0);
        read > 0
    });
    Some((handed_over(&bed), read))
}

/// Sends twenty datagrams with one call. The last one is shorter.
fn datagrams(bed: &Bed, family: usize) {
    let (from, to) = (at(CLIENT[family], 0), at(SERVER[family], 7_200));
    let sender = socket(&bed.space[0], &from.to_string());
    let receiver = socket(&bed.space[1], &to.to_string());
    let data = pattern(19 * 603 + 17);
    // If the interface does not accept super-packets, the kernel segments them itself.
    setsockopt(&sender, UdpGsoSegment, &603).unwrap();
    assert_eq!(sender.send_to(&data, to).unwrap(), data.len());
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let mut expected: Vec<Vec<u8>> = data.chunks(603).map(<[u8]>::to_vec).collect();
    let mut room = [0; 2_000];
    // The datagrams may be reordered, because there are two paths.
    let mut received: Vec<Vec<u8>> =
        expected.iter().map(|_| receiver.recv(&mut room).map(|n| room[..n].to_vec()).unwrap()).collect();
    expected.sort();
    received.sort();
    assert!(received == expected);
}

#[test]
fn cut_and_joined_packets_arrive_as_they_were_sent() {
    let Some((handed_over, read)) = carries_everything("") else { return };
    assert!(
        read > handed_over + handed_over / 4,
        "{read} packets from {handed_over} super-packets: none was segmented"
    );
}

#[test]
fn without_offload_each_packet_comes_by_itself() {
    let Some((handed_over, read)) = carries_everything("offload = false") else { return };
    assert!(read <= handed_over, "{read} packets from {handed_over} super-packets");
}
