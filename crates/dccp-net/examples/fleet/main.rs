//! Runs many clients of one tunnel server in this process, each with its own key and two addresses in
//! 127.0.0.0/8. `fleet config N` prints the server's configuration. `fleet run N SERVER_PID` opens N sessions
//! with two paths each, leaves them idle, sends pings through them, and prints what they cost the server.
//! `fleet restart N SERVER_PID` kills the server and prints how soon all sessions are open again.
//! tools/bench/fleet creates the namespace and runs this program.

mod clients;

use clients::{Clients, key_of, octets};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// Maximum number of sessions that are in the process of being opened.
const OUTSTANDING: usize = 200;
/// Time limit for opening sessions.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: fleet config N | fleet run N SERVER_PID [IDLE_SECONDS LOAD_SECONDS PINGS_PER_SECOND] | fleet restart N SERVER_PID [PINGS_PER_SECOND]";
    let number = |i: usize, default: &str| args.get(i).map_or(default, |s| s).parse::<u32>();
    let n = number(1, "")?;
    match args.first().map(String::as_str) {
        Some("config") => print!("{}", config(n)),
        Some("restart") => restart(n, number(2, "")?, number(3, "5000")?)?,
        Some("run") => run(n, number(2, "")?, number(3, "10")?, number(4, "5")?, number(5, "5000")?)?,
        _ => return Err(usage.into()),
    }
    Ok(())
}

/// Returns the server's configuration. The script adds the interface, the control socket and other keys.
fn config(n: u32) -> String {
    let mut text = format!("private_key = \"{}\"\n", *key_of(u32::MAX).to_base64());
    for i in 0..n {
        let [a, b] = octets(i);
        let key = key_of(i).public();
        text += &format!(
            "[[peer]]\nname = \"c{i}\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.64.{a}.{b}/32\"]\n"
        );
    }
    text
}

/// Returns the CPU time in seconds and the resident memory in bytes of a process.
fn usage_of(pid: u32) -> Result<(f64, f64), Error> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let rss = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = rss.trim().trim_end_matches(" kB").parse()?;
    Ok((ticks as f64 / 100.0, kib * 1024.0))
}

fn open_all(fleet: &mut Clients, n: u32) -> Result<(), Error> {
    let since = Instant::now();
    let mut opened = 0;
    while fleet.up < 2 * n as usize && since.elapsed() < PATIENCE {
        while opened < n && (opened as usize) < fleet.open + OUTSTANDING {
            fleet.connect(opened);
            opened += 1;
        }
        fleet.turn(Duration::from_millis(1))?;
    }
    Ok(())
}

/// Kills the server while the sessions carry pings, and waits until all sessions are open at the server that
/// the script starts next.
fn restart(n: u32, server: u32, rate: u32) -> Result<(), Error> {
    let mut fleet = Clients::new(n)?;
    open_all(&mut fleet, n)?;
    fleet.run_for(Duration::from_secs(2))?;
    println!("{n} clients: {} sessions, {} paths", fleet.open, fleet.up);
    let pid = i32::try_from(server)?;
    let pid = rustix::process::Pid::from_raw(pid).ok_or("the process ID of the server is invalid")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    let since = Instant::now();
    let (mut sent, mut told) = (0u64, [1, 50, 95, 100].into_iter().peekable());
    while let Some(share) = told.peek()
        && since.elapsed() < PATIENCE
    {
        let due = (since.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        while sent < due {
            fleet.ping((sent * 7919 % u64::from(n)) as u32);
            sent += 1;
        }
        fleet.turn(Duration::from_millis(1))?;
        let back = fleet.open.saturating_sub((n as usize).saturating_sub(fleet.closed));
        if back * 100 >= n as usize * share {
            println!(
                "{share} % open again {:.2} s after the server was killed",
                since.elapsed().as_secs_f64()
            );
            told.next();
        }
    }
    println!(
        "{} sessions, {} paths; {} sessions were closed during the run",
        fleet.open, fleet.up, fleet.closed
    );
    Ok(())
}

fn run(n: u32, server: u32, idle: u32, load: u32, rate: u32) -> Result<(), Error> {
    let mut fleet = Clients::new(n)?;
    let (cpu0, rss0) = usage_of(server)?;
    let (own0, _) = usage_of(std::process::id())?;
    let since = Instant::now();
    open_all(&mut fleet, n)?;
    let took = since.elapsed().as_secs_f64();
    let (cpu1, rss1) = usage_of(server)?;
    let (own1, _) = usage_of(std::process::id())?;
    let sessions = fleet.open as f64;
    println!(
        "{n} clients: {} sessions, {} paths in {took:.2} s: {:.0} sessions/s; CPU per session: {:.0} us at the server, {:.0} us at the client",
        fleet.open,
        fleet.up,
        sessions / took,
        (cpu1 - cpu0) / sessions * 1e6,
        (own1 - own0) / sessions * 1e6
    );
    println!(
        "memory: {:.1} KiB a session ({:.0} MiB in all)",
        (rss1 - rss0) / sessions / 1024.0,
        rss1 / 1048576.0
    );

    // Wait first, because a session probes its paths more often in the ten seconds after its first packets.
    fleet.run_for(Duration::from_secs(12))?;
    let (cpu2, _) = usage_of(server)?;
    let (since, before) = (Instant::now(), fleet.received);
    fleet.run_for(Duration::from_secs(idle.into()))?;
    let (cpu3, rss3) = usage_of(server)?;
    let spent = since.elapsed().as_secs_f64();
    println!(
        "idle for {spent:.0} s: {:.1} % of a core, {:.0} records/s from the server, {} paths up",
        (cpu3 - cpu2) / spent * 100.0,
        (fleet.received - before) as f64 / spent,
        fleet.up
    );
    println!("memory when idle: {:.1} KiB a session", (rss3 - rss0) / sessions / 1024.0);

    let since = Instant::now();
    let mut sent = 0u64;
    while since.elapsed().as_secs() < load.into() {
        let due = (since.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        while sent < due {
            // The step is a prime, so that caches cannot predict the order of the sessions.
            fleet.ping((sent * 7919 % u64::from(n)) as u32);
            sent += 1;
        }
        fleet.turn(Duration::from_micros(200))?;
    }
    fleet.run_for(Duration::from_millis(300))?;
    let (cpu4, rss4) = usage_of(server)?;
    println!(
        "{:.0} pings/s for {load} s: {:.2} % lost, {:.2} us of server CPU per ping (two packets)",
        sent as f64 / f64::from(load),
        (sent - fleet.answers) as f64 / sent as f64 * 100.0,
        (cpu4 - cpu3) / sent as f64 * 1e6
    );
    println!("memory after load: {:.1} KiB a session", (rss4 - rss0) / sessions / 1024.0);
    // For tools/bench/collect.
    let kib = |rss: f64| (rss - rss0) / sessions / 1024.0;
    let row = [
        ("sessions_per_s", sessions / took),
        ("setup_cpu_us", (cpu1 - cpu0) / sessions * 1e6),
        ("memory_idle_kib", kib(rss3)),
        ("memory_loaded_kib", kib(rss4)),
        ("idle_cpu_pct", (cpu3 - cpu2) / spent * 100.0),
        ("ping_cpu_us", (cpu4 - cpu3) / sent as f64 * 1e6),
        ("lost_pct", (sent - fleet.answers) as f64 / sent as f64 * 100.0),
    ]
    .map(|(name, value)| format!(r#""{name}":[{value}]"#));
    println!(r#"{{"label":"tunnel","cell":"{n}",{}}}"#, row.join(","));
    Ok(())
}
