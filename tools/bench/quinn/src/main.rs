//! Sends as many unreliable datagrams as quinn can over loopback; client and server each have a thread and an
//! endpoint. Prints a line of JSON: datagrams received and lost, and CPU time of both ends per gigabyte
//! received.
//!
//!     cargo run --release --manifest-path tools/bench/quinn/Cargo.toml -- [--seconds 3] [--bytes 1200] [--bbr]

use clap::Parser;
use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "Measures quinn's datagrams over loopback")]
struct Options {
    /// How long to send, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Bytes per datagram.
    #[arg(long, default_value_t = 1200)]
    bytes: usize,
    /// Use BBR instead of quinn's default CUBIC.
    #[arg(long)]
    bbr: bool,
}

/// What the server counts about received datagrams.
#[derive(Default)]
struct Received {
    datagrams: u64,
    bytes: u64,
    /// Time from the first to the last datagram.
    over: Duration,
}

fn cpu() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// Runs `work` in its own runtime on this thread, like a separate program.
fn on_this_thread<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

async fn receive(config: ServerConfig, bound: mpsc::Sender<SocketAddr>) -> Result<Received, Failure> {
    let endpoint = Endpoint::server(config, ([127, 0, 0, 1], 0).into())?;
    bound.send(endpoint.local_addr()?)?;
    let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
    let mut received = Received::default();
    let mut first = None;
    while let Ok(datagram) = connection.read_datagram().await {
        received.datagrams += 1;
        received.bytes += datagram.len() as u64;
        received.over = first.get_or_insert_with(Instant::now).elapsed();
    }
    Ok(received)
}

/// Sends datagrams as fast as congestion control allows. Returns the number of datagrams.
async fn send(connection: &Connection, options: &Options) -> Result<u64, Failure> {
    let payload = vec![7; options.bytes];
    let until = Instant::now() + Duration::from_secs_f64(options.seconds);
    let mut sent = 0;
    while Instant::now() < until {
        connection.send_datagram_wait(payload.clone().into()).await?;
        sent += 1;
    }
    // Wait until the last datagrams have arrived.
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(sent)
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let own = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.cert.der().clone())?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![own.cert.der().clone()], key.into())?;
    let mut transport = TransportConfig::default();
    // By default quinn detects the MTU only after some packets, and the first datagram would not fit.
    transport.initial_mtu(1452);
    if options.bbr {
        transport.congestion_controller_factory(Arc::new(BbrConfig::default()));
    } else {
        transport.congestion_controller_factory(Arc::new(CubicConfig::default()));
    }
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(Arc::new(transport));

    let (bound, address) = mpsc::channel();
    let receiver = std::thread::spawn(move || on_this_thread(receive(server, bound)));
    let to = address.recv()?;
    let (sent, spent) = on_this_thread(async {
        let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into())?;
        endpoint.set_default_client_config(client);
        let connection = endpoint.connect(to, "localhost")?.await?;
        let before = cpu();
        let sent = send(&connection, &options).await?;
        let spent = cpu() - before;
        connection.close(0u32.into(), b"");
        endpoint.wait_idle().await;
        Ok((sent, spent))
    })?;
    let received = receiver.join().map_err(|_| "the receiver panicked")??;
    if received.datagrams < 2 {
        return Err("nothing arrived".into());
    }
    println!(
        r#"{{"congestion":"{}","mbps":{:.1},"sent":{sent},"received":{},"lost_percent":{:.3},"cpu_seconds_per_gb":{:.3}}}"#,
        if options.bbr { "bbr" } else { "cubic" },
        received.bytes as f64 * 8.0 / received.over.as_secs_f64() / 1e6,
        received.datagrams,
        (sent - received.datagrams) as f64 / sent as f64 * 100.0,
        spent / received.bytes as f64 * 1e9,
    );
    Ok(())
}
