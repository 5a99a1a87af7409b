//! The command line.

use crate::choice::choice;
use crate::fault::Fault;
use crate::perf::control::Test;
use crate::perf::message;
use crate::perf::peer_path::{PathArg, address};
use crate::perf::sender::Load;
use crate::perf::transfer::Mode;
use crate::quantity::rate;
use clap::{Args, Subcommand, ValueEnum};
use mpdccp_proto::reorder::{ReorderConfig, ReorderKind};
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{Ccid, Named, Variant};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use units::{Duration, Rate};

/// As `server` and `client`, or with the flags of iperf3.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct PerfArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Wait for connections, as `server` does.
    #[arg(short, long, conflicts_with = "client")]
    server: bool,
    /// Connect to a server, as `client` does; for 10 seconds unless told otherwise.
    #[arg(short, long, value_name = "HOST[:PORT]", required_unless_present = "server")]
    client: Option<String>,
    /// Server: the address to wait on, all by default. Client: the address to send from.
    #[arg(short = 'B', long, value_name = "IP")]
    bind: Option<IpAddr>,
    /// UDP port (6511 by default) or, with raw, DCCP port.
    #[arg(short, long)]
    port: Option<u16>,
    /// Server: end after the first connection.
    #[arg(short = '1', long = "one-off", alias = "once")]
    once: bool,
    /// Server: tell a client that comes from there with --cport that it is waited for (RFC 5596); opens NATs and firewalls before the server.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "client")]
    invite: Vec<SocketAddr>,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum Command {
    /// Wait for connections, and do what clients ask for.
    Server(ServerArgs),
    /// Connect; send unless told to receive.
    Client(ClientArgs),
}

#[derive(Args)]
struct ServerArgs {
    /// Address to wait on, with the UDP port (6511 by default) or, with raw, the DCCP port.
    #[arg(long, value_name = "HOST[:PORT]")]
    listen: String,
    /// End after the first connection.
    #[arg(short = '1', long)]
    once: bool,
    /// Tell a client that comes from there with --cport that it is waited for (RFC 5596); opens NATs and firewalls before the server.
    #[arg(long, value_name = "HOST:PORT")]
    invite: Vec<SocketAddr>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct ClientArgs {
    /// Host to connect to, with the UDP port (6511 by default) or, with raw, the DCCP port.
    #[arg(long, value_name = "HOST[:PORT]")]
    connect: String,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    common: Common,
}

/// What a client may want.
#[derive(Args)]
struct Wishes {
    /// The server sends, the client receives.
    #[arg(short = 'R', long, conflicts_with_all = ["bidir", "echo"])]
    reverse: bool,
    /// Both send.
    #[arg(long, conflicts_with = "echo")]
    bidir: bool,
    /// The server sends back what it gets: measures round trips, which need no common clock.
    #[arg(long)]
    echo: bool,
    /// So many connections at a time.
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    parallel: u32,
    /// Leave the first seconds out of the results.
    #[arg(short = 'O', long, value_name = "S", default_value = "0", value_parser = seconds)]
    omit: Duration,
    /// A path from this address; given twice or more often, a multipath session is opened. Priority 0 to 15, default 3.
    #[arg(long = "path", value_name = "LOCAL[@REMOTE][,PRIO]")]
    paths: Vec<PathArg>,
    /// A multipath session, even over one path.
    #[arg(long)]
    multipath: bool,
    /// UDP port and DCCP port to send from (with raw: DCCP port), for a server that invites this client.
    #[arg(long, value_name = "PORT", conflicts_with_all = ["paths", "parallel"])]
    cport: Option<u16>,
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
    /// Only IPv4.
    #[arg(short = '4', long = "version4", conflicts_with = "ipv6")]
    ipv4: bool,
    /// Only IPv6.
    #[arg(short = '6', long = "version6")]
    ipv6: bool,
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
    /// Let paths that share a bottleneck take a part each instead of one together.
    #[arg(long)]
    no_coupling: bool,
    /// Have the header checksum cover no more of the data than RFC 4340 section 9.2 says for this number, where the other end accepts it, and
    /// accept the same: 0 all, 1 nothing, 2 to 15 the first 4 to 56 bytes. Only with raw.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=15))]
    coverage: u8,
    /// Send, without telling the other end, which may be another program.
    #[arg(long, conflicts_with = "receive")]
    send: bool,
    /// Receive, without telling the other end.
    #[arg(long)]
    receive: bool,
    /// Send at this constant rate instead of as fast as congestion control allows: bit/s, or with k, M, G.
    #[arg(short = 'b', long, visible_alias = "bitrate", value_parser = rate)]
    rate: Option<Rate>,
    /// Bytes of each message.
    #[arg(short = 'l', long, visible_alias = "length", default_value_t = 1200)]
    size: usize,
    /// Send this many messages. Without this, --bytes and --time: until interrupted.
    #[arg(short = 'k', long, value_parser = clap::value_parser!(u32).range(1..))]
    messages: Option<u32>,
    /// Send as many messages as this many bytes take; K, M and G are powers of 1024.
    #[arg(short = 'n', long, conflicts_with = "messages", value_parser = bytes)]
    bytes: Option<u64>,
    /// Send for this long, seconds.
    #[arg(short, long, value_name = "S", value_parser = seconds)]
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
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Report in JSON, one object per line.
    #[arg(short = 'J', long)]
    json: bool,
    /// Write all packets to this pcap file.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write packets, congestion control and losses to this qlog file (JSON-SEQ, for qvis and the like).
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
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
    pub(crate) coupling: bool,
    /// Checksum Coverage to send, and to accept.
    pub(crate) coverage: u8,
    pub(crate) mode: Mode,
    pub(crate) queue: u32,
    pub(crate) scheduler: SchedulerKind,
    pub(crate) reorder: ReorderConfig,
    pub(crate) mtu: u16,
    pub(crate) interval: Option<Duration>,
    pub(crate) json: bool,
    pub(crate) pcap: Option<PathBuf>,
    pub(crate) qlog: Option<PathBuf>,
}

pub(crate) enum Role {
    Server { listen: SocketAddr, once: bool, invite: Vec<SocketAddr> },
    Client { connect: SocketAddr, paths: Vec<PathArg>, multipath: bool, parallel: u32, cport: Option<u16> },
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

/// One end's command line, whichever form it had.
struct End {
    /// Of a client.
    wishes: Option<Wishes>,
    place: String,
    once: bool,
    invite: Vec<SocketAddr>,
    common: Common,
}

impl From<PerfArgs> for End {
    fn from(args: PerfArgs) -> End {
        match args.command {
            Some(Command::Server(ServerArgs { listen, once, invite, common })) => {
                End { wishes: None, place: listen, once, invite, common }
            }
            Some(Command::Client(ClientArgs { connect, wishes, common })) => {
                End { wishes: Some(wishes), place: connect, once: false, invite: Vec::new(), common }
            }
            None => {
                let PerfArgs { client, bind, port, once, invite, mut wishes, mut common, .. } = args;
                let with_port = |host: String| match (port, host.parse::<Ipv6Addr>()) {
                    (None, _) => host,
                    (Some(port), Ok(ip)) => format!("[{ip}]:{port}"),
                    (Some(port), Err(_)) => format!("{host}:{port}"),
                };
                let Some(host) = client else {
                    let any = if common.ipv6 {
                        IpAddr::from(Ipv6Addr::UNSPECIFIED)
                    } else {
                        Ipv4Addr::UNSPECIFIED.into()
                    };
                    let any = bind.unwrap_or(any).to_string();
                    return End { wishes: None, place: with_port(any), once, invite, common };
                };
                let local = bind.filter(|_| wishes.paths.is_empty());
                wishes.paths.extend(local.map(|local| PathArg { local, remote: None, prio: 3 }));
                if common.messages().is_none() && !common.receive {
                    common.time.get_or_insert(Duration::from_secs(10));
                }
                End { wishes: Some(wishes), place: with_port(host), once: false, invite, common }
            }
        }
    }
}

impl Plan {
    /// Bytes of the messages of either end, if they are known.
    pub(crate) fn size(&self) -> Option<usize> {
        match &self.mode {
            Mode::Plain(load) => load.map(|load| load.size),
            Mode::Ask(test) => Some(test.size),
            Mode::Obey => None,
        }
    }
}

impl Common {
    /// How many messages to send, if that was said.
    fn messages(&self) -> Option<u32> {
        let size = self.size.max(1) as u64;
        self.messages.or(self.bytes.map(|bytes| u32::try_from(bytes.div_ceil(size)).unwrap_or(u32::MAX)))
    }
}

fn mode(wishes: Option<&Wishes>, common: &Common) -> Mode {
    // As with iperf3: 0 is no limit.
    let time = common.time.filter(|time| !time.is_zero());
    let load = Load { size: common.size, rate: common.rate, messages: common.messages(), time };
    match wishes {
        _ if common.send => Mode::Plain(Some(load)),
        Some(_) if common.receive => Mode::Plain(None),
        None => Mode::Obey,
        Some(wishes) => Mode::Ask(Test {
            up: !wishes.reverse,
            down: wishes.reverse || wishes.bidir,
            echo: wishes.echo,
            size: common.size,
            rate_bps: common.rate.map(Rate::bps),
            messages: common.messages(),
            time_ms: time.map(|time| time.as_millis() as u64),
            omit_ms: wishes.omit.as_millis() as u64,
        }),
    }
}

impl TryFrom<PerfArgs> for Plan {
    type Error = Fault;
    fn try_from(args: PerfArgs) -> Result<Plan, Fault> {
        let End { wishes, place, once, invite, common } = args.into();
        let mode = mode(wishes.as_ref(), &common);
        let paths = wishes.as_ref().map_or(&[][..], |wishes| &wishes.paths);
        let (place, dccp_port) = places(wishes.is_some(), &place, paths, &common)?;
        for path in paths {
            let remote = path.remote.unwrap_or(place.ip());
            if path.local.is_ipv4() != remote.is_ipv4() {
                return Err(Fault::usage(format!(
                    "--path {}: not of the same IP version as {remote}",
                    path.local
                )));
            }
        }
        if let (Mode::Plain(_), Some(wishes)) = (&mode, &wishes)
            && (wishes.reverse || wishes.bidir || wishes.echo || !wishes.omit.is_zero())
        {
            return Err(Fault::usage(
                "--reverse, --bidir, --echo and --omit are agreed with the server: take --send or --receive away",
            ));
        }
        let role = match wishes {
            None => Role::Server { listen: place, once, invite },
            Some(Wishes { paths, multipath, parallel, cport, .. }) => {
                let multipath = multipath || paths.len() > 1;
                Role::Client { connect: place, paths, multipath, parallel, cport }
            }
        };
        let sender_only = [
            ("--rate", common.rate.is_some()),
            ("--messages", common.messages.is_some()),
            ("--bytes", common.bytes.is_some()),
            ("--time", common.time.is_some()),
        ];
        let sends = !matches!(mode, Mode::Obey | Mode::Plain(None));
        if let Some((flag, _)) = sender_only.iter().find(|(_, given)| *given && !sends) {
            return Err(Fault::usage(format!(
                "{flag} is for the end that sends; add --send or take it away"
            )));
        }
        if common.size < message::MIN_LEN {
            return Err(Fault::usage(format!("--size {}: a message has at least 4 bytes", common.size)));
        }
        if common.coverage > 0 && common.carrier == CarrierArg::Udp {
            return Err(Fault::usage(
                "--coverage is for --carrier raw: inside UDP the checksum of UDP covers everything",
            ));
        }
        let common = &common;
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
            coupling: !common.no_coupling,
            coverage: common.coverage,
            mode,
            queue: common.queue,
            scheduler: common.scheduler,
            reorder: reorder(common),
            mtu: common.mtu,
            interval: Some(common.interval).filter(|interval| !interval.is_zero()),
            json: common.json,
            pcap: common.pcap.clone(),
            qlog: common.qlog.clone(),
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
fn places(
    is_client: bool,
    text: &str,
    paths: &[PathArg],
    common: &Common,
) -> Result<(SocketAddr, u16), Fault> {
    const DCCP_PORT: u16 = 5001;
    let raw = common.carrier == CarrierArg::Raw;
    let default = if raw { DCCP_PORT } else { dccp_wire::DCCP_UDP_PORT };
    let flag = if is_client { "--connect" } else { "--listen" };
    let version = |ip: IpAddr| if ip.is_ipv4() { !common.ipv6 } else { !common.ipv4 };
    let fits =
        |ip: IpAddr| version(ip) && paths.first().is_none_or(|path| path.local.is_ipv4() == ip.is_ipv4());
    let place = address(text, default, fits).map_err(|e| Fault::usage(format!("{flag} {text}: {e}")))?;
    if let Some(ip) = paths.iter().map(|path| path.local).chain([place.ip()]).find(|ip| !version(*ip)) {
        let only = if common.ipv4 { "-4" } else { "-6" };
        return Err(Fault::usage(format!("{ip} is not of the IP version that {only} asks for")));
    }
    let inside = if raw { place.port() } else { DCCP_PORT };
    let place = if raw { SocketAddr::new(place.ip(), 0) } else { place };
    Ok((place, common.dccp_port.unwrap_or(inside)))
}

fn ccid(text: &str) -> Result<u8, String> {
    let n: i64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    Ccid::try_from(n).map(|ccid| ccid.0)
}

/// As iperf3 reads them.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse().ok().and_then(|n: u64| n.checked_mul(1 << shift)).filter(|n| *n > 0);
    bytes.ok_or_else(|| format!("`{text}` is no number of bytes, expected such as 1000000, 500K or 1G"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let with_unit = || linkem_net::quantity::parse_time(text).ok().map(|time| time.as_secs_f64());
    let seconds = text.parse().ok().or_else(with_unit).filter(|s: &f64| (0.0..=1e6).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds, or a time such as 500ms".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_names() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("500ms"), Ok(Duration::from_millis(500)));
        assert!(seconds("inf").is_err() && seconds("-1").is_err());
        assert!(ccid("1").unwrap_err().contains("2, "));
        assert_eq!((bytes("700"), bytes("2K"), bytes("1g")), (Ok(700), Ok(2048), Ok(1 << 30)));
        assert!(["", "0", "M", "1.5M", "99999999999G"].into_iter().all(|text| bytes(text).is_err()));
    }
}
