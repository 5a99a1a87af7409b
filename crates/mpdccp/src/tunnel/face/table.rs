//! Formats `tunnel status` for people.

use mpdccp_tunnel::status::Status;
use std::collections::BTreeMap;
use std::fmt::Write;

const HEAD: [&str; 16] = [
    "path",
    "state",
    "over",
    "since",
    "prio",
    "remote",
    "phase",
    "cwnd kB",
    "flight kB",
    "srtt ms",
    "min ms",
    "rate Mbit/s",
    "loss %",
    "MTU",
    "sent",
    "received",
];

/// Formats the status as text.
pub(crate) fn render(s: &Status) -> String {
    let mut out = String::new();
    let tun = &s.tun;
    // Ignore the result: writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{} ({}, MTU {}, up {:.0} s): {} packets from hosts, {} to hosts{}",
        s.interface,
        s.role,
        s.mtu,
        s.uptime_s,
        tun.read_packets,
        tun.written_packets,
        counters(&tun.drops)
    );
    if let Some(why) = &s.no_address {
        let _ = writeln!(out, "no address: {why}");
    }
    for socket in s.sockets.iter().filter(|socket| !socket.drops.is_empty()) {
        let _ = writeln!(out, "socket {}{}", socket.local, counters(&socket.drops));
    }
    if !s.endpoint.is_empty() {
        let _ = writeln!(out, "packets without a connection{}", counters(&s.endpoint));
    }
    for peer in &s.peers {
        let _ = write!(out, "\npeer {}: {}", peer.name, peer.state);
        if !peer.leased.is_empty() {
            let _ = write!(out, ", assigned {}", peer.leased.join(", "));
        }
        if let (Some(queue), Some(reorder)) = (&peer.queue, &peer.reorder) {
            let _ = write!(
                out,
                ", queue {} packets, oldest {:.1} ms (dropped: {} queue full, {} too old, {} early, {} too big), reordering holds {} packets ({} arrived too late; holes given up: {} proven lost, {} others)",
                queue.packets,
                queue.oldest_ms,
                queue.dropped_full,
                queue.dropped_old,
                queue.dropped_early,
                queue.dropped_too_big,
                reorder.occupancy,
                reorder.late,
                reorder.proven,
                reorder.timeouts + reorder.overflows
            );
        }
        let _ = writeln!(out, "{}", counters(&peer.drops));
        if peer.paths.is_empty() {
            continue;
        }
        let mut rows = vec![HEAD.map(String::from)];
        for path in &peer.paths {
            let kb = |n: Option<u64>| n.map_or("-".into(), |n| format!("{:.1}", n as f64 / 1e3));
            let num = |n: Option<f64>| n.map_or("-".into(), |n| format!("{n:.1}"));
            rows.push([
                path.name.clone(),
                path.state.clone(),
                if path.encapsulation.is_empty() { "-".into() } else { path.encapsulation.clone() },
                path.since_s.map_or("-".into(), since),
                path.priority.to_string(),
                path.remote.clone(),
                path.phase.clone().unwrap_or("-".into()),
                kb(path.cwnd_bytes),
                kb(path.inflight_bytes),
                num(path.srtt_ms),
                num(path.min_rtt_ms),
                num(path.delivery_mbps),
                num(path.loss_percent),
                if path.mtu == 0 { "-".into() } else { path.mtu.to_string() },
                path.sent_packets.to_string(),
                path.received_packets.to_string(),
            ]);
        }
        let width: Vec<usize> =
            (0..HEAD.len()).map(|i| rows.iter().map(|r| r[i].len()).max().unwrap_or(0)).collect();
        for row in &rows {
            let cells: Vec<String> = row.iter().zip(&width).map(|(cell, w)| format!("{cell:<w$}")).collect();
            let _ = writeln!(out, "  {}", cells.join("  ").trim_end());
        }
        for path in &peer.paths {
            if let Some(why) = &path.why {
                let _ = writeln!(out, "  {} waits: {why}", path.name);
            }
        }
        for path in &peer.paths {
            let of = path.quota_bytes.map_or_else(String::new, |quota| format!(" of {}", volume(quota)));
            let cost = path.cost.map_or_else(String::new, |cost| format!(", cost {cost:.2}"));
            if let Some(used) = path.quota_used_bytes {
                let _ = writeln!(out, "  {} carried {}{of} this month{cost}", path.name, volume(used));
            }
        }
        for path in peer.paths.iter().filter(|path| !path.drops.is_empty()) {
            let _ = writeln!(out, "  {}{}", path.name, counters(&path.drops));
        }
    }
    out
}

/// Formats a number of bytes in a suitable unit.
fn volume(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{:.1} {name}", bytes as f64 / unit)
}

/// Formats a duration in a short form.
fn since(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6_000 => format!("{} min", seconds / 60),
        6_000..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn counters(drops: &BTreeMap<String, u64>) -> String {
    let shown: Vec<String> = drops.iter().filter(|(_, n)| **n > 0).map(|(k, n)| format!("{n} {k}")).collect();
    if shown.is_empty() { String::new() } else { format!("; dropped: {}", shown.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_and_times_have_units_that_fit() {
        assert_eq!([0, 3_000_000, 5_200_000_000].map(volume), ["0.0 kB", "3.0 MB", "5.2 GB"]);
        assert_eq!([7.9, 150.0, 7_200.0, 400_000.0].map(since), ["7 s", "2 min", "2 h", "4 d"]);
    }
}
