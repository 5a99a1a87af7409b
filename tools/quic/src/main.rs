//! Sends one bulk stream with quinn, for `scenarios/calibration-quic.toml`.
//!
//!     cargo install --path tools/quic --root /usr/local

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand, ValueEnum};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Size of a UDP datagram in an IP packet of 1,500 bytes.
const DATAGRAM: u16 = 1472;
/// The largest receive window of the simulator's TCP, bytes.
const WINDOW: u32 = 16 << 20;

#[derive(Parser)]
#[command(about = "Sends one bulk stream with quinn", version)]
struct Args {
    #[command(subcommand)]
    end: End,
}

#[derive(Subcommand)]
enum End {
    /// Receive one stream, and print how many bytes arrived in the first seconds.
    Receive {
        port: u16,
        /// Seconds from the sender's start.
        seconds: f64,
    },
    /// Send to a receiver on the same machine until killed.
    Send { to: SocketAddr, cc: Cc },
}

#[derive(Clone, Copy, ValueEnum)]
enum Cc {
    Cubic,
    Bbr,
}

/// Returns the certificate and key of the server. They are constant, so that the client can check the
/// certificate without a file. A constant key is not secret, but this program needs no secrets.
fn identity() -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), Failure> {
    let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let der = PrivatePkcs8KeyDer::from([&head[..], &[7; 32]].concat());
    let key = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_ED25519)?;
    let certificate = rcgen::CertificateParams::new(["localhost".to_owned()])?.self_signed(&key)?;
    Ok((certificate.der().clone(), der))
}

/// Returns quinn's defaults with two changes: all packets have 1,500 bytes, as in the simulator, and flow
/// control does not limit the sender.
fn transport(cc: Cc) -> Arc<TransportConfig> {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match cc {
        Cc::Cubic => Arc::new(CubicConfig::default()),
        Cc::Bbr => Arc::new(BbrConfig::default()),
    };
    let mut transport = TransportConfig::default();
    transport.initial_mtu(DATAGRAM).min_mtu(DATAGRAM).mtu_discovery_config(None);
    transport.stream_receive_window(WINDOW.into()).send_window(WINDOW.into());
    // The lab's links are devices without checksum offload, where the kernel refuses segmentation offload.
    // quinn would detect this only through the loss of its first packets.
    transport.enable_segmentation_offload(false).congestion_controller_factory(factory);
    Arc::new(transport)
}

async fn receive(port: u16, seconds: f64) -> Result<(), Failure> {
    let (certificate, key) = identity()?;
    let mut config = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    config.transport_config(transport(Cc::Cubic));
    let endpoint = Endpoint::server(config, (Ipv4Addr::UNSPECIFIED, port).into())?;
    let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut begun = [0; 8];
    stream.read_exact(&mut begun).await?;
    let end = UNIX_EPOCH + Duration::from_nanos(u64::from_be_bytes(begun)) + Duration::from_secs_f64(seconds);
    let mut bytes = 0;
    while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, true).await {
        if SystemTime::now() > end {
            break;
        }
        bytes += chunk.bytes.len();
    }
    println!("stream_bytes={bytes}");
    connection.closed().await;
    Ok(())
}

async fn send(to: SocketAddr, cc: Cc) -> Result<(), Failure> {
    let begun = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(identity()?.0)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport(cc));
    let mut endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(to, "localhost")?.await?;
    let sending = connection.clone();
    tokio::spawn(async move {
        let mut stream = sending.open_uni().await?;
        stream.write_all(&begun.to_be_bytes()).await?;
        loop {
            stream.write_all(&[0; 1 << 16]).await?;
        }
        #[allow(unreachable_code)]
        Ok::<(), Failure>(())
    });
    tokio::signal::ctrl_c().await?;
    let path = connection.stats().path;
    println!("packets={} lost={} events={}", path.sent_packets, path.lost_packets, path.congestion_events);
    connection.close(VarInt::from_u32(0), b"");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    match Args::parse().end {
        End::Receive { port, seconds } => receive(port, seconds).await,
        End::Send { to, cc } => send(to, cc).await,
    }
}
