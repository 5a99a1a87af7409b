//! Decides which measurements are faults, warnings or notes, and describes each in a sentence.

use super::finding::Finding;
use super::measure::{LOAD_RATE, Load, Loss, Silence, Sizes};
use std::time::Duration;

/// A line that loses at least this share of its packets has a problem.
const LOSS: f64 = 0.01;
/// A queue that adds more delay than this is reported. In milliseconds.
const QUEUE: f64 = 300.0;
/// A NAT timeout below this is a problem. In seconds; RFC 4787 requires 120.
const SILENCE: u64 = 30;
/// A clock difference above this is a problem. In seconds.
const CLOCK: f64 = 60.0;

pub(crate) fn of_loss(loss: &Loss) -> Option<Finding> {
    let lossy = |part: f64, direction: &str| {
        (part >= LOSS).then(|| format!("{:.1} % of the packets {direction} are lost", part * 100.0))
    };
    let parts: Vec<String> = [lossy(loss.up, "to the server"), lossy(loss.down, "from the server")]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| {
        Finding::fault(
            "loss",
            format!("{}, without load", parts.join(" and ")),
            "Check the radio signal, the cable and other traffic on this Internet connection. Until this is fixed, give other paths a higher priority",
        )
    })
}

pub(crate) fn of_sizes(sizes: &Sizes, interface: &str, overhead: u16) -> Vec<Finding> {
    let Sizes { device, up, down, told } = *sizes;
    let least = up.min(down);
    if least >= device {
        return Vec::new();
    }
    let way = match (up < device, down < device) {
        (true, true) => "in both directions",
        (true, false) => "to the server",
        _ => "from the server",
    };
    let known = told.is_some_and(|told| told <= up.saturating_add(1)) && down >= up;
    let mut found = vec![if known {
        Finding::note(
            "mtu",
            format!("packets larger than {least} bytes {way} are dropped with an ICMP error"),
            "",
        )
    } else {
        Finding::fault(
            "mtu",
            format!(
                "MTU black hole: packets larger than {least} bytes {way} are lost without an ICMP error, although {interface} has MTU {device}"
            ),
            format!(
                "The tunnel detects the size itself. For other programs: `ip link set {interface} mtu {least}`, or have the network send ICMP errors"
            ),
        )
    }];
    if least < 1_280 + overhead {
        found.push(Finding::warning(
            "mtu",
            format!(
                "this path carries inner packets of at most {} bytes; IPv6 needs 1280",
                least.saturating_sub(overhead)
            ),
            "Large packets take other paths. If no path carries 1280 bytes, the tunnel splits IPv6 packets",
        ));
    }
    found
}

pub(crate) fn of_silence(silence: &Silence, keepalive: Duration) -> Option<Finding> {
    let fails = silence.fails?;
    let range = format!("after {} to {fails} s of silence", silence.holds);
    let kept = keepalive.as_secs().max(1) < silence.holds.max(1);
    if silence.holds >= SILENCE {
        return Some(Finding::note(
            "nat_timeout",
            format!("the NAT or firewall on this Internet connection forgets a flow {range}"),
            if kept { String::new() } else { lower(silence.holds) },
        ));
    }
    let advice = if kept {
        format!(
            "keepalive is {} s, so even idle paths stay open. Do not raise keepalive above the NAT's timeout",
            keepalive.as_secs()
        )
    } else {
        lower(silence.holds)
    };
    let message = format!("the NAT or firewall on this Internet connection forgets a flow too soon: {range}");
    Some(Finding::fault("nat_timeout", message, advice))
}

fn lower(holds: u64) -> String {
    format!(
        "Set keepalive = {} in the file, and raise the NAT's timeout for UDP to 120 s or more",
        (holds / 2).max(1)
    )
}

pub(crate) fn of_load(load: &Load, up: bool) -> Option<Finding> {
    let way = if up { "to the server" } else { "from the server" };
    let seconds = load.queue_ms / 1_000.0;
    if load.queue_ms <= QUEUE {
        return None;
    }
    if load.busy {
        let message = format!(
            "packets {way} waited up to {seconds:.1} s under load; the cause is unknown because this host was too busy"
        );
        return Some(Finding::note("buffer", message, "Try again when the processor is idle"));
    }
    Some(Finding::fault(
        "buffer",
        format!(
            "bufferbloat: at {:.1} Mbit/s, every packet {way} waits at least {seconds:.1} s in a queue",
            load.rate.mbps()
        ),
        format!(
            "Set `rate` of this path to about {} at the sending end, so that packets queue in the tunnel instead",
            rate(load)
        ),
    ))
}

/// Returns nine tenths of the line's rate, for use as the value of the configuration key `rate`.
fn rate(load: &Load) -> String {
    let kbps = load.rate.bps() * 9 / 10_000;
    if kbps >= 10_000 { format!("{}M", kbps / 1_000) } else { format!("{kbps}k") }
}

/// Judges this host's clock, which is `ahead` seconds ahead of the server's.
pub(crate) fn of_clock(ahead: f64) -> Option<Finding> {
    let by = match ahead.abs() {
        s if s < CLOCK => return None,
        s if s < 7_200.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    };
    let side = if ahead > 0.0 { "ahead of" } else { "behind" };
    Some(Finding::fault(
        "clock",
        format!("this host's clock is {by} {side} the server's; one of them is wrong"),
        "Compare `date -u` at both ends, and enable time synchronisation (`timedatectl set-ntp true`). After the client's clock has been moved backwards, the server may reject the client's handshakes",
    ))
}

/// Describes the result of a load test.
pub(crate) fn words(load: &Load) -> String {
    let more = if load.faster { "at least " } else { "" };
    let rate = load.rate.mbps().min(LOAD_RATE.mbps());
    format!("{more}{rate:.1} Mbit/s with {:.0} ms of queue", load.queue_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpdccp_units::Rate;

    #[test]
    fn a_good_line_has_no_findings() {
        assert_eq!(of_loss(&Loss { up: 0.004, down: 0.0, rtt_ms: 20.0, rtt_max_ms: 25.0 }), None);
        let whole = Sizes { device: 1_500, up: 1_500, down: 1_500, told: Some(1_500) };
        assert_eq!(of_sizes(&whole, "eth0", 88), []);
        assert_eq!(of_silence(&Silence { holds: 40, fails: None }, Duration::from_secs(12)), None);
        assert_eq!(
            of_load(&Load { rate: Rate::from_mbps(10.0), queue_ms: 120.0, faster: false, busy: false }, true),
            None
        );
        assert_eq!(of_clock(-20.0), None);
    }

    #[test]
    fn each_fault_is_told_with_its_figure() {
        let say = |found: Option<Finding>| found.map(|f| format!("{}: {}", f.check, f.message)).unwrap();
        let loss = Loss { up: 0.0, down: 0.05, rtt_ms: 20.0, rtt_max_ms: 25.0 };
        assert!(say(of_loss(&loss)).contains("loss: 5.0 % of the packets from the server"));
        let queue = Load { rate: Rate::from_mbps(5.0), queue_ms: 2_000.0, faster: false, busy: false };
        assert!(of_load(&queue, true).unwrap().advice.contains("4500k"));
        assert!(say(of_load(&queue, false)).contains(
            "bufferbloat: at 5.0 Mbit/s, every packet from the server waits at least 2.0 s in a queue"
        ));
        let short = of_silence(&Silence { holds: 15, fails: Some(20) }, Duration::from_secs(12)).unwrap();
        assert!(short.message.contains("15 to 20 s") && short.advice.contains("keepalive is 12"));
        let shorter = of_silence(&Silence { holds: 10, fails: Some(15) }, Duration::from_secs(12)).unwrap();
        assert!(shorter.advice.contains("keepalive = 5"));
        assert!(say(of_clock(86_400.0)).contains("24.0 hours ahead"));
        assert!(say(of_clock(-900_000.0)).contains("10.4 days behind"));
    }

    #[test]
    fn a_black_hole_is_silent_and_a_narrow_path_is_not() {
        let checks = |up, down, told| {
            let found = of_sizes(&Sizes { device: 1_500, up, down, told }, "eth0", 88);
            found.into_iter().map(|f| (f.severity, f.check)).collect::<Vec<_>>()
        };
        use crate::tunnel::doctor::finding::Severity::{Fault, Note, Warning};
        assert_eq!(checks(1_400, 1_400, Some(1_500)), [(Fault, "mtu")]);
        assert_eq!(checks(1_500, 1_400, Some(1_500)), [(Fault, "mtu")]);
        assert_eq!(checks(1_400, 1_500, None), [(Fault, "mtu")]);
        assert_eq!(checks(1_492, 1_492, Some(1_492)), [(Note, "mtu")]);
        assert_eq!(checks(1_492, 1_300, Some(1_492)), [(Fault, "mtu"), (Warning, "mtu")]);
    }
}
