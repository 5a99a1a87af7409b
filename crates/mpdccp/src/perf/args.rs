//! The command line.

use crate::choice::choice;
use crate::fault::Fault;
use crate::perf::message;
use crate::perf::peer_path::{PathArg, address};
use crate::perf::sender::Load;
use crate::quantity::rate;
use clap::{Args, Subcommand, ValueEnum};
use mpdccp_proto::reorder::{ReorderConfig, ReorderKind};
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{Ccid, Named, Variant};
use std::net::SocketAddr;
use std::path::PathBuf;
use units::{Duration, Rate};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Wait for connections; receive unless told to send.
    Server(ServerArgs),
    /// Connect; send unless told to receive.
    Client(ClientArgs),
}

#[derive(Args)]
pub(crate) struct ServerArgs {
    /// Address to wait on, with the UDP port (6511 by default) or, with raw, the DCCP port.
    #[arg(long, value_name = "ADDR[:PORT]")]
    listen: String,
    /// End after the first connection.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub(crate) struct ClientArgs {
    /// Address to connect to, with the UDP port (6511 by default) or, with raw, the DCCP port.
    #[arg(long, value_name = "ADDR[:PORT]")]
    connect: String,
    /// A path from this address; given twice or more often, a multipath session is opened. Priority 0 to 15, default 3.
    #[arg(long = "path", value_name = "LOCAL[@REMOTE][,PRIO]")]
    paths: Vec<PathArg>,
    /// A multipath session, even over one path.
    #[arg(long)]
    multipath: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CarrierArg {
    /// DCCP in UDP (RFC 6773).
    Udp,
    /// Native DCCP, IP protocol 33; needs CAP_NET_RAW.
    Raw,
}

#[derive(Args)]
struct Common {
    /// How packets travel.
    #[arg(long, value_enum, default_value = "udp")]
    carrier: CarrierArg,
    /// DCCP port, inside UDP or instead of the one of --listen or --connect with raw. [default: 5001]
    #[arg(long, value_name = "PORT")]
    dccp_port: Option<u16>,
    /// Congestion control of what this end sends, and the one it prefers for what it receives.
    #[arg(long, default_value_t = 5, value_parser = ccid)]
    ccid: u8,
    /// Congestion control to insist on for what this end receives.
    #[arg(long, value_parser = ccid)]
    rx_ccid: Option<u8>,
    /// CCID 5 as tuned here or exactly after its draft.
    #[arg(long, default_value = "tuned", value_parser = choice::<Variant>())]
    variant: Variant,
    /// Send.
    #[arg(long, conflicts_with = "receive")]
    send: bool,
    /// Receive.
    #[arg(long)]
    receive: bool,
    /// Send at this constant rate instead of as fast as congestion control allows: bit/s, or with k, M, G.
    #[arg(long, value_parser = rate)]
    rate: Option<Rate>,
    /// Bytes of each message.
    #[arg(long, default_value_t = 1200)]
    size: usize,
    /// Send this many messages. Without this and --time: until interrupted.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    messages: Option<u32>,
    /// Send for this long, seconds.
    #[arg(long, value_name = "S", value_parser = seconds)]
    time: Option<Duration>,
    /// Packets the sender's queue holds.
    #[arg(long, value_name = "PACKETS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    queue: u32,
    /// Which path a packet takes.
    #[arg(long, default_value = SchedulerKind::default().name(), value_parser = choice::<SchedulerKind>())]
    scheduler: SchedulerKind,
    /// How received messages are put in order. [default: passive, or active-fixed with --reorder]
    #[arg(long, value_parser = choice::<ReorderKind>())]
    reordering: Option<ReorderKind>,
    /// Wait this many milliseconds at most for a message that is missing.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(..=60_000))]
    reorder: Option<u64>,
    /// Largest IP packet, bytes.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    /// Seconds between reports; 0 for none.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Report in JSON, one object a line.
    #[arg(long)]
    json: bool,
    /// Write all packets to this pcap file.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

/// What to do, checked.
pub(crate) struct Plan {
    pub(crate) role: Role,
    pub(crate) carrier: CarrierArg,
    pub(crate) dccp_port: u16,
    pub(crate) tx_ccid: u8,
    /// Acceptable for what the peer sends, preferred first.
    pub(crate) rx_ccids: Vec<u8>,
    pub(crate) variant: Variant,
    /// `None` receives.
    pub(crate) load: Option<Load>,
    pub(crate) queue: u32,
    pub(crate) scheduler: SchedulerKind,
    pub(crate) reorder: ReorderConfig,
    pub(crate) mtu: u16,
    pub(crate) interval: Option<Duration>,
    pub(crate) json: bool,
    pub(crate) pcap: Option<PathBuf>,
}

pub(crate) enum Role {
    Server { listen: SocketAddr, once: bool },
    Client { connect: SocketAddr, paths: Vec<PathArg>, multipath: bool },
}

impl Plan {
    /// The other end, for messages.
    pub(crate) fn peer(&self) -> String {
        match &self.role {
            Role::Server { .. } => "the client".into(),
            Role::Client { connect, .. } if self.carrier == CarrierArg::Raw => {
                SocketAddr::new(connect.ip(), self.dccp_port).to_string()
            }
            Role::Client { connect, .. } => format!("{connect}, DCCP port {}", self.dccp_port),
        }
    }
}

impl TryFrom<Command> for Plan {
    type Error = Fault;
    fn try_from(command: Command) -> Result<Plan, Fault> {
        let (is_client, place, common) = match &command {
            Command::Server(args) => (false, &args.listen, &args.common),
            Command::Client(args) => (true, &args.connect, &args.common),
        };
        let sends = common.send || (is_client && !common.receive);
        let (place, dccp_port) = places(is_client, place, common)?;
        let role = match &command {
            Command::Server(args) => Role::Server { listen: place, once: args.once },
            Command::Client(args) => {
                let multipath = args.multipath || args.paths.len() > 1;
                let paths = args.paths.clone();
                for path in &paths {
                    let remote = path.remote.unwrap_or(place.ip());
                    if path.local.is_ipv4() != remote.is_ipv4() {
                        return Err(Fault::usage(format!(
                            "--path {}: not of the same IP version as {remote}",
                            path.local
                        )));
                    }
                }
                Role::Client { connect: place, paths, multipath }
            }
        };
        let sender_only = [
            ("--rate", common.rate.is_some()),
            ("--messages", common.messages.is_some()),
            ("--time", common.time.is_some()),
        ];
        if let Some((flag, _)) = sender_only.iter().find(|(_, given)| *given && !sends) {
            return Err(Fault::usage(format!(
                "{flag} is for the end that sends; add --send or take it away"
            )));
        }
        if common.size < message::MIN_LEN {
            return Err(Fault::usage(format!("--size {}: a message has at least 4 bytes", common.size)));
        }
        Ok(Plan {
            role,
            carrier: common.carrier,
            dccp_port,
            tx_ccid: common.ccid,
            rx_ccids: match common.rx_ccid {
                Some(ccid) => vec![ccid],
                None => {
                    std::iter::once(common.ccid).chain(Ccid::known().filter(|n| *n != common.ccid)).collect()
                }
            },
            variant: common.variant,
            load: sends.then_some(Load {
                size: common.size,
                rate: common.rate,
                messages: common.messages,
                time: common.time,
            }),
            queue: common.queue,
            scheduler: common.scheduler,
            reorder: reorder(common),
            mtu: common.mtu,
            interval: Some(common.interval).filter(|interval| !interval.is_zero()),
            json: common.json,
            pcap: common.pcap.clone(),
        })
    }
}

/// Messages come as they are, unless a way of ordering them was asked for.
fn reorder(common: &Common) -> ReorderConfig {
    let wait = common.reorder.map(Duration::from_millis);
    let cfg = match (common.reordering, wait) {
        (Some(kind), _) => kind.into(),
        (None, Some(wait)) => ReorderConfig::active_fixed(wait),
        (None, None) => ReorderConfig::passive(),
    };
    ReorderConfig { wait: wait.unwrap_or(cfg.wait), ..cfg }
}

/// Carrier address and DCCP port.
fn places(is_client: bool, text: &str, common: &Common) -> Result<(SocketAddr, u16), Fault> {
    const DCCP_PORT: u16 = 5001;
    let raw = common.carrier == CarrierArg::Raw;
    let default = if raw { DCCP_PORT } else { dccp_wire::DCCP_UDP_PORT };
    let flag = if is_client { "--connect" } else { "--listen" };
    let place = address(text, default).ok_or_else(|| {
        Fault::usage(format!("{flag} {text}: expected an IP address, with or without a port"))
    })?;
    let inside = if raw { place.port() } else { DCCP_PORT };
    let place = if raw { SocketAddr::new(place.ip(), 0) } else { place };
    Ok((place, common.dccp_port.unwrap_or(inside)))
}

fn ccid(text: &str) -> Result<u8, String> {
    let n: i64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    Ccid::try_from(n).map(|ccid| ccid.0)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s: &f64| (0.0..=1e6).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_names() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(seconds("inf").is_err() && seconds("-1").is_err());
        assert!(ccid("1").unwrap_err().contains("2, "));
    }
}
