//! Compares three ways to send datagrams over loopback between two processes: this project's library, quinn's
//! datagrams, and plain UDP. Prints a Markdown table, and then its rows as JSON lines for
//! tools/bench/collect.
//!
//!     cargo run --release --manifest-path tools/bench/library/Cargo.toml -- [--seconds 3] [--only 'CCID 5']

mod dccp;
mod quic;
mod system;
mod udp;
mod variant;

use clap::Parser;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use system::{cpu, resident};
use variant::{BULK, Client, Connects, Failure, PING, QUESTION};

const CONNECTIONS: usize = 1000;
/// Number of echo messages per second on each connection.
const PER_SECOND: u32 = 20;

#[derive(Parser)]
#[command(about = "Compares the library with quinn's datagrams and plain UDP over loopback")]
struct Args {
    /// Seconds per measurement.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Measure only variants whose name contains this text.
    #[arg(long, default_value = "", value_parser = part_of_a_name)]
    only: String,
    /// Run as the server process of a variant.
    #[arg(long, hide = true)]
    serve: Option<String>,
}

fn part_of_a_name(text: &str) -> Result<String, String> {
    let names = NAMES.map(|name| format!("`{name}`")).join(", ");
    let any = NAMES.iter().any(|name| name.contains(text));
    any.then(|| text.to_owned()).ok_or_else(|| format!("no variant has this in its name; variants: {names}"))
}

/// A server process and its address. Dropping this value kills the process.
struct Server(Child, String);

impl Server {
    fn start(name: &str) -> Result<Server, Failure> {
        let mut child =
            Command::new(std::env::current_exe()?).args(["--serve", name]).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Server(child, line.trim().into()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn percentile(sorted: &[Duration], part: f64) -> f64 {
    let at = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(f64::NAN, |d| d.as_secs_f64() * 1e6)
}

/// Measures a transfer. Returns the received rate in Mbit/s, the loss in per cent, and the CPU seconds of
/// both ends per gigabyte.
async fn throughput(client: &impl Client, server: u32, seconds: f64) -> Result<(f64, f64, f64), Failure> {
    let before = cpu(server)? + cpu(std::process::id())?;
    let (data, until, mut sent) = (vec![7; BULK], Instant::now() + Duration::from_secs_f64(seconds), 0u64);
    while Instant::now() < until {
        client.send_many(&data, 64).await?;
        sent += 64;
    }
    let spent = cpu(server)? + cpu(std::process::id())? - before;
    tokio::time::sleep(Duration::from_millis(300)).await;
    loop {
        client.send(QUESTION).await?;
        let answered = tokio::time::timeout(Duration::from_secs(1), client.recv()).await;
        let Ok(Ok(answer)) = answered else { continue };
        let number = |at: usize| u64::from_be_bytes(*answer[at..].first_chunk().unwrap_or(&[0; 8]));
        let (datagrams, nanos) = (number(0), number(8).max(1));
        let bytes = datagrams as f64 * BULK as f64;
        let lost = sent.saturating_sub(datagrams) as f64 / sent as f64 * 100.0;
        return Ok((bytes * 8e3 / nanos as f64, lost, spent / bytes * 1e9));
    }
}

async fn ping(client: &impl Client, seconds: f64) -> Result<(f64, f64), Failure> {
    let (mut times, until) = (Vec::new(), Instant::now() + Duration::from_secs_f64(seconds));
    while Instant::now() < until {
        let begun = Instant::now();
        client.send(&[1; PING]).await?;
        // Without the timeout, a lost answer would stall the measurement.
        if tokio::time::timeout(Duration::from_secs(1), client.recv()).await.is_ok_and(|got| got.is_ok()) {
            times.push(begun.elapsed());
        }
    }
    times.sort_unstable();
    Ok((percentile(&times, 0.5), percentile(&times, 0.99)))
}

/// Opens all connections. Returns the number of connections per second, and the clients.
async fn open<C: Connects>(connects: &C) -> Result<(f64, Vec<C::Client>), Failure> {
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    let turns = std::sync::Arc::new(tokio::sync::Semaphore::new(32));
    for _ in 0..CONNECTIONS {
        let (connects, turns) = (connects.clone(), turns.clone());
        tasks.spawn(async move {
            let _turn = turns.acquire_owned().await;
            connects.connect().await
        });
    }
    let mut open = Vec::new();
    while let Some(client) = tasks.join_next().await {
        open.push(client??);
    }
    Ok((CONNECTIONS as f64 / begun.elapsed().as_secs_f64(), open))
}

/// Measures echoes on all connections. Returns the server's CPU time per echo in microseconds.
async fn echoes<C: Client>(clients: Vec<C>, server: u32, seconds: f64) -> Result<f64, Failure> {
    let before = cpu(server)?;
    let mut tasks = tokio::task::JoinSet::new();
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    for (n, client) in clients.into_iter().enumerate() {
        tasks.spawn(async move {
            let pause = Duration::from_secs(1) / PER_SECOND;
            tokio::time::sleep(pause * (n as u32 % 50) / 50).await;
            let mut echoed = 0u64;
            while Instant::now() < until {
                client.send(&[1; PING]).await?;
                if tokio::time::timeout(pause, client.recv()).await.is_ok_and(|got| got.is_ok()) {
                    echoed += 1;
                }
                tokio::time::sleep(pause).await;
            }
            Ok::<_, Failure>((echoed, client))
        });
    }
    let (mut echoed, mut open) = (0, Vec::new());
    while let Some(done) = tasks.join_next().await {
        let (more, client) = done??;
        echoed += more;
        open.push(client);
    }
    Ok((cpu(server)? - before) * 1e6 / echoed as f64)
}

/// Prints a row of the table, and returns it as JSON.
async fn measure<C: Connects>(
    name: &str,
    server: &Server,
    connects: C,
    args: &Args,
) -> Result<String, Failure> {
    let process = server.0.id();
    let one = connects.connect().await?;
    let (rate, lost, per_gb) = throughput(&one, process, args.seconds).await?;
    let (p50, p99) = ping(&one, args.seconds).await?;
    let before = (resident(process)?, resident(std::process::id())?);
    let (per_second, open) = open(&connects).await?;
    let memory = |before: u64, now: u64| now.saturating_sub(before) as f64 / 1024.0 / CONNECTIONS as f64;
    let kib = (memory(before.0, resident(process)?), memory(before.1, resident(std::process::id())?));
    let echo = echoes(open, process, args.seconds + 2.0).await?;
    println!(
        "| {name} | {rate:.0} | {lost:.2} | {per_gb:.2} | {p50:.0} | {p99:.0} | {per_second:.0} | {:.1}, {:.1} | {echo:.1} |",
        kib.0, kib.1
    );
    let mut row = format!(
        r#""label":"{}","cell":"base","rate_mbps":[{rate}],"lost_pct":[{lost}],"cpu_s_per_gb":[{per_gb}]"#,
        name.replace(',', "")
    );
    row += &format!(r#","ping_p50_us":[{p50}],"ping_p99_us":[{p99}],"echo_us":[{echo}]"#);
    // Plain UDP has no connections.
    if name != "UDP" {
        row += &format!(r#","connects_per_s":[{per_second}],"memory_kib":[{}]"#, kib.0);
    }
    Ok(format!("{{{row}}}"))
}

const NAMES: [&str; 5] = ["UDP", "DCCP, CCID 2", "DCCP, CCID 5", "DCCP, CCID 5, keys", "quinn"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    if let Some(name) = &args.serve {
        return match name.as_str() {
            "UDP" => udp::serve().await,
            "quinn" => quic::serve().await,
            name => dccp::serve(name).await,
        };
    }
    println!(
        "| | Mbit/s | lost % | CPU s/GB | ping p50 us | p99 us | connects/s | KiB a connection: server, client | server CPU us/echo |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for name in NAMES.into_iter().filter(|name| name.contains(&args.only)) {
        let server = Server::start(name)?;
        rows.push(match name {
            "UDP" => measure(name, &server, udp::Connector(server.1.parse()?), &args).await?,
            "quinn" => measure(name, &server, quic::connector(&server.1)?, &args).await?,
            name => measure(name, &server, dccp::connector(name, &server.1)?, &args).await?,
        });
    }
    println!("{}", rows.join("\n"));
    Ok(())
}
