//! Compares the emulator's policer and token bucket with those of the kernel. Packets go to a TUN device
//! through a kernel rule, and the emulator gets the same packets at the same times. The time at which the
//! kernel handled a packet is known only to lie between two timestamps, taken before and after sending. On a
//! busy machine, the comparison is therefore less precise, but not wrong.

use std::net::UdpSocket;
use std::process::Command;
use std::thread::sleep;

use dccp_net::{Clock, Tun, TunConfig};
use linkem_net::Entrance;
use mpdccp_linkem::{Limit, Link, LinkConfig, Meta, Policer, QueueConfig, QueueKind, RateModel};
use mpdccp_units::{Duration, Rate, Time};

/// Size of the test's IP packets.
const SIZE: u32 = 1_000;
const HEADERS: usize = 28;

/// A packet's number and arrival time.
type Came = (u32, Time);

/// A namespace with a TUN device for 10.79.0.0/24. Dropping the value deletes the namespace.
struct Space {
    name: String,
    tun: Tun,
}

impl Space {
    /// Creates the namespace and runs `command` in it. Prints the reason and returns `None` if this machine
    /// cannot do so.
    fn with(role: &str, command: &str) -> Option<Space> {
        let name = format!("linkem-{role}-{}", std::process::id());
        let made = run("ip", &format!("netns add {name}"));
        let tun = made.and_then(|()| device(&name).map_err(|e| format!("a TUN device: {e}")));
        let space = tun.map(|tun| Space { name: name.clone(), tun });
        let ruled =
            space.and_then(|space| run("ip", &format!("netns exec {name} {command}")).map(|()| space));
        ruled.inspect_err(|why| println!("SKIPPED {why}")).ok()
    }

    /// Sends `bursts` of packets with pauses in between. Returns the earliest and the latest time at which
    /// the kernel may have handled each packet, and the arrivals.
    fn send(&self, bursts: &[u32], pause: Duration) -> (Vec<[Time; 2]>, Vec<Came>) {
        let entrance = Entrance::open(&self.name).unwrap();
        let socket = entrance.inside(|| UdpSocket::bind("10.79.0.1:0")).unwrap().unwrap();
        let (mut sent, mut came) = (Vec::new(), Vec::new());
        for burst in bursts {
            for _ in 0..*burst {
                let mut payload = vec![0; SIZE as usize - HEADERS];
                payload[..4].copy_from_slice(&(sent.len() as u32).to_be_bytes());
                let before = Clock.now();
                // Sending may return an error if the rule drops the packet.
                let _ = socket.send_to(&payload, "10.79.0.2:9");
                sent.push([before, Clock.now()]);
                self.read(&mut came);
            }
            let until = Clock.now() + pause;
            while Clock.now() < until {
                sleep(Duration::from_micros(500));
                self.read(&mut came);
            }
        }
        (sent, came)
    }

    fn read(&self, came: &mut Vec<Came>) {
        let mut buf = [0; 2048];
        while let Ok(Some(n)) = self.tun.read(&mut buf) {
            // The kernel may also send packets of its own.
            if n == SIZE as usize && buf[0] == 0x45 {
                came.push((u32::from_be_bytes(*buf[HEADERS..].first_chunk().unwrap()), Clock.now()));
            }
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = run("ip", &format!("netns del {}", self.name));
    }
}

fn device(name: &str) -> std::io::Result<Tun> {
    let config = TunConfig {
        name: "tun0".to_owned(),
        addresses: vec![([10, 79, 0, 1].into(), 24)],
        mtu: 1500,
        offload: false,
    };
    Entrance::open(name)?.inside(|| Tun::create(&config))?
}

fn run(program: &str, args: &str) -> Result<(), String> {
    let out = Command::new(program).args(args.split_whitespace()).output();
    let out = out.map_err(|e| format!("{program}: {e}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.success() { Ok(()) } else { Err(format!("{program} {args}: {}", said.trim())) }
}

/// Returns when the emulator delivers packets sent at these times.
fn emulated(config: &LinkConfig, at: impl Iterator<Item = Time>) -> Vec<Came> {
    let mut link = Link::new(config.clone(), 1, Time::ZERO).unwrap();
    let mut came = Vec::new();
    for (number, at) in (0..).zip(at) {
        came.extend(std::iter::from_fn(|| link.pop(at)).map(|d| (d.packet, d.at)));
        link.push(at, Meta { bytes: SIZE, ..Meta::default() }, number);
    }
    while let Some(at) = link.next_event() {
        came.extend(std::iter::from_fn(|| link.pop(at)).map(|d| (d.packet, d.at)));
    }
    came
}

/// Returns how many packets of each burst arrived.
fn of_bursts(bursts: &[u32], came: &[Came]) -> Vec<u32> {
    let ends = bursts.iter().scan(0, |end, n| {
        *end += n;
        Some(*end)
    });
    let before: Vec<u32> = ends.map(|end| came.iter().filter(|(n, _)| *n < end).count() as u32).collect();
    (0..before.len()).map(|i| before[i] - i.checked_sub(1).map_or(0, |i| before[i])).collect()
}

/// Checks that kernel and emulator pass the same number of packets of each burst. The numbers may differ by
/// one packet because of rounding, and by the tokens that accumulate while the time of the kernel's decision
/// is uncertain. Returns the emulator's arrivals and the length of this uncertainty.
fn compare(
    bursts: &[u32],
    (config, rate): (&LinkConfig, Rate),
    sent: &[[Time; 2]],
    came: &[Came],
) -> (Vec<Came>, Duration) {
    let emulated = emulated(config, sent.iter().map(|[earliest, _]| *earliest));
    let (kernel, ours) = (of_bursts(bursts, came), of_bursts(bursts, &emulated));
    let unsure = 2 * sent.iter().map(|[earliest, latest]| latest.since(*earliest)).max().unwrap_or_default();
    let slack = 1 + (rate.bytes_in(unsure) as u32).div_ceil(SIZE);
    println!("of bursts {bursts:?}, kernel passed {kernel:?}, emulator {ours:?}; allowed {slack}");
    for (kernel, ours) in kernel.iter().zip(&ours) {
        assert!(kernel.abs_diff(*ours) <= slack, "kernel {kernel}, emulator {ours}, allowed {slack}");
    }
    (emulated, unsure)
}

#[test]
fn a_policer_passes_what_the_kernels_passes() {
    // nft's bucket holds one second's worth of tokens in addition to the burst.
    let rule = "nft add table ip t; add chain ip t o { type filter hook output priority 0; }; \
                add rule ip t o udp dport 9 limit rate over 250000 bytes/second burst 20000 bytes drop";
    let Some(space) = Space::with("police", rule) else { return };
    let (rate, bursts) = (Rate::from_mbps(2.0), [400, 60, 60]);
    let (sent, came) = space.send(&bursts, Duration::from_millis(100));
    let config = LinkConfig {
        rate: RateModel::Constant(Rate::from_mbps(100_000.0)),
        policer: Some(Policer { rate, burst: 270_000 }),
        queue: QueueConfig { kind: QueueKind::DropTail, limit: Limit::Packets(1_000) },
        ..LinkConfig::default()
    };
    compare(&bursts, (&config, rate), &sent, &came);
}

#[test]
fn a_token_bucket_passes_what_the_kernels_passes_and_no_earlier() {
    let rule = "tc qdisc add dev tun0 root tbf rate 2mbit burst 20000 limit 30000";
    let Some(space) = Space::with("bucket", rule) else { return };
    let (rate, bursts) = (Rate::from_mbps(2.0), [100, 60, 100]);
    let (sent, came) = space.send(&bursts, Duration::from_millis(150));
    let config = LinkConfig {
        rate: RateModel::TokenBucket { rate, burst: 20_000 },
        queue: QueueConfig { kind: QueueKind::DropTail, limit: Limit::Bytes(30_000) },
        ..LinkConfig::default()
    };
    let (emulated, unsure) = compare(&bursts, (&config, rate), &sent, &came);
    // On a busy machine, the kernel's packets may arrive late. The bucket must not let them pass early.
    for ((number, at), (_, ours)) in came.iter().zip(&emulated) {
        assert!(
            *at + unsure + rate.time_for(SIZE.into()) >= *ours,
            "packet {number}: {at:?} against {ours:?}"
        );
    }
}
