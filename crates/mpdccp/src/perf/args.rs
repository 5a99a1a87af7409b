//! The command-line flags of `mpdccp perf`.

use crate::choice::choice;
use crate::perf::foreign::Foreign;
use crate::perf::limits::Limits;
use crate::perf::output::Unit;
use crate::perf::peer_path::PathArg;
use crate::perf::sender::MAX_BURST;
use crate::perf::values::{interval, seconds, with_number};
use clap::{Args, ValueEnum};
use dccp_secure::PublicKey;
use mpdccp_proto::policy::Dscp;
use mpdccp_proto::reorder::{ReorderConfig, ReorderKind};
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{Ccid, Named, Variant};
use mpdccp_tunnel::config::rate;
use mpdccp_units::{Duration, Rate};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

#[derive(Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct PerfArgs {
    /// Wait for connections, and run the tests that clients request.
    #[arg(short, long, conflicts_with = "client")]
    server: bool,
    /// Connect to this server, and send for 10 seconds by default. PORT is the UDP port (6511 by default), or
    /// the DCCP port with --encapsulation raw.
    #[arg(short, long, value_name = "HOST[:PORT]", required_unless_present = "server")]
    pub(super) client: Option<String>,
    /// Server: the address to listen on; by default all IPv4 addresses, or with -6 all IPv6 addresses.
    /// Client: the address to send from.
    #[arg(short = 'B', long, value_name = "IP")]
    bind: Option<IpAddr>,
    /// Send and receive only through this interface.
    #[arg(long, value_name = "DEV", conflicts_with = "paths")]
    pub(super) bind_dev: Option<String>,
    /// UDP port (6511 by default), or DCCP port with --encapsulation raw.
    #[arg(short, long)]
    port: Option<u16>,
    /// Server: exit after the first connection.
    #[arg(short = '1', long = "one-off", alias = "once", conflicts_with = "client")]
    pub(super) once: bool,
    /// Server: run in the background; use --logfile to see its output.
    #[arg(short = 'D', long, conflicts_with = "client")]
    pub(super) daemon: bool,
    /// Server: send DCCP-Listen packets (RFC 5596) to this client, which connects with --cport. They open
    /// NATs and firewalls in front of the server.
    #[arg(long, alias = "invite", value_name = "IP:PORT", conflicts_with_all = ["client", "private_key_file"])]
    pub(super) rendezvous: Vec<SocketAddr>,
    #[command(flatten)]
    pub(super) limits: Limits,
    #[command(flatten)]
    pub(super) client_flags: ClientFlags,
    #[command(flatten)]
    pub(super) common: Common,
}

impl PerfArgs {
    /// Fills in the defaults that depend on other flags. Returns the place to connect to or to listen at.
    pub(super) fn complete(&mut self) -> String {
        let (bind, port) = (self.bind, self.port);
        let PerfArgs { client, client_flags, common, .. } = self;
        let host = if let Some(host) = client {
            client_flags.multipath = !client_flags.paths.is_empty();
            let local = bind.filter(|_| !client_flags.multipath);
            client_flags.paths.extend(local.map(|local| PathArg { local, remote: None, prio: 3 }));
            // The file itself limits the amount of data, so no default duration is needed.
            let reads = common.file.is_some() && !client_flags.reverse;
            if common.messages().is_none() && !common.receive && !reads {
                common.time.get_or_insert(Duration::from_secs(10));
            }
            host.clone()
        } else {
            let any =
                if common.ipv6 { IpAddr::from(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
            bind.unwrap_or(any).to_string()
        };
        // An IPv6 address may be followed by its interface: fe80::1%eth0.
        let is_ipv6 = |host: &str| host.split('%').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok());
        match port {
            None => host,
            Some(port) if is_ipv6(&host) => format!("[{host}]:{port}"),
            Some(port) => format!("{host}:{port}"),
        }
    }

    /// Returns the requested JSON format and where to print it: a file or standard output, a title, and
    /// whether to print timestamps. `None` for text.
    pub(super) fn json(&self) -> Option<(Json, Option<PathBuf>, Option<String>, bool)> {
        let common = &self.common;
        common.json().map(|json| (json, common.logfile.clone(), common.title.clone(), common.timestamps))
    }
}

/// Flags of a client.
#[derive(Args)]
pub(super) struct ClientFlags {
    /// The server sends, the client receives.
    #[arg(short = 'R', long, conflicts_with_all = ["bidir", "echo", "server"])]
    pub(super) reverse: bool,
    /// Both ends send.
    #[arg(long, conflicts_with_all = ["echo", "server"])]
    pub(super) bidir: bool,
    /// The server returns each message. The client measures round-trip times and the delay variation of each
    /// direction, without a common clock.
    #[arg(long, conflicts_with = "server")]
    pub(super) echo: bool,
    /// Number of parallel connections.
    #[arg(short = 'P', long, value_name = "N", conflicts_with = "server", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) parallel: u32,
    /// Exclude this many seconds at the start of the test from the results.
    #[arg(short = 'O', long, value_name = "S", conflicts_with = "server", default_value = "0", value_parser = seconds)]
    pub(super) omit: Duration,
    /// Use a path from the address LOCAL in a multipath session (repeatable). REMOTE is the server's address
    /// for this path; default: that of -c. PRIO is the path's priority, 0 to 15; default: 3.
    #[arg(long = "path", value_name = "LOCAL[@REMOTE][,PRIO]", conflicts_with = "server")]
    pub(super) paths: Vec<PathArg>,
    /// Whether the command line has `--path`.
    #[arg(skip)]
    pub(super) multipath: bool,
    /// Also print the server's output for this test.
    #[arg(long, conflicts_with = "server")]
    pub(super) get_server_output: bool,
    /// UDP and DCCP port to send from (only DCCP with --encapsulation raw), for a server with --rendezvous.
    #[arg(long, value_name = "PORT", conflicts_with_all = ["paths", "parallel", "server"], value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) cport: Option<u16>,
    /// Give up if the server does not answer within this many milliseconds. If its name resolves to several
    /// addresses, they are tried in turn within this time.
    #[arg(long, value_name = "MS", conflicts_with = "server", default_value_t = 4_500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) connect_timeout: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EncapsulationArg {
    /// DCCP in UDP (RFC 6773).
    Udp,
    /// Native DCCP, IP protocol 33; needs CAP_NET_RAW.
    Raw,
}

#[derive(Args)]
pub(super) struct Common {
    /// Use only IPv4.
    #[arg(short = '4', long = "version4", conflicts_with = "ipv6")]
    pub(super) ipv4: bool,
    /// Use only IPv6.
    #[arg(short = '6', long = "version6")]
    pub(super) ipv6: bool,
    /// Encapsulation of packets.
    #[arg(long, alias = "carrier", value_enum, default_value = "udp")]
    pub(super) encapsulation: EncapsulationArg,
    /// DCCP port inside UDP. With --encapsulation raw, it replaces the port given with -p or -c. [default:
    /// 5001]
    #[arg(long, value_name = "PORT")]
    pub(super) dccp_port: Option<u16>,
    /// Congestion control for data from this end: a CCID number, or reno, cubic, bbr, prague. The other end
    /// has its own.
    #[arg(short = 'C', long, visible_alias = "congestion", default_value_t = 5, value_parser = ccid)]
    pub(super) ccid: u8,
    /// Variant of CCID 5 or 250: tuned, or exactly as its draft specifies.
    #[arg(long, alias = "variant", default_value = "tuned", value_parser = choice::<Variant>())]
    pub(super) cc_variant: Variant,
    /// Checksum coverage (RFC 4340 section 9.2): 0 covers all data, 1 none, 2 to 15 the first 4 to 56 bytes.
    /// This end accepts packets with this coverage, and also sends them if the other end accepts them. Needs
    /// --encapsulation raw.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=15))]
    pub(super) coverage: u8,
    /// Encrypt like the tunnel, with the private key in this file, created by `mpdccp genkey`. Off by
    /// default; either both ends must encrypt or neither.
    #[arg(long, value_name = "FILE")]
    pub(super) private_key_file: Option<PathBuf>,
    /// Public key of the other end (repeatable). A client needs its server's key, which the server prints
    /// when it starts. A server admits only clients with these keys, or by default every client with a key.
    #[arg(long, value_name = "KEY", requires = "private_key_file")]
    pub(super) public_key: Vec<PublicKey>,
    /// Send without a test request; the other end may be any DCCP program.
    #[arg(long, conflicts_with = "receive")]
    pub(super) send: bool,
    /// Receive without a test request; the other end may be any DCCP program.
    #[arg(long)]
    pub(super) receive: bool,
    /// Send at this constant rate, in bit/s or with k, M, G, in bursts of N messages (1 by default). With 0
    /// or without this flag: send as fast as congestion control allows.
    #[arg(short = 'b', long, visible_alias = "bitrate", value_name = "RATE[/N]", value_parser = pace)]
    pub(super) rate: Option<Pace>,
    /// Size of each message in bytes; K is 1024.
    #[arg(short = 'l', long, visible_alias = "length", default_value = "1200", value_parser = bytes)]
    pub(super) size: u64,
    /// Send this many messages instead of sending for 10 seconds.
    #[arg(short = 'k', long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) messages: Option<u64>,
    /// Send this file, or write received data to it. Sending ends at the end of the file, or earlier if
    /// limited by --time, --bytes or --messages. Lost messages leave gaps, because perf does not retransmit.
    #[arg(short = 'F', long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Send messages until this many bytes have been sent; K, M and G are powers of 1024.
    #[arg(short = 'n', long, conflicts_with = "messages", value_parser = bytes)]
    pub(super) bytes: Option<u64>,
    /// Send for this many seconds; 0 means until interrupted.
    #[arg(short, long, value_name = "S", value_parser = seconds)]
    pub(super) time: Option<Duration>,
    /// Size of the sender's queue, in packets.
    #[arg(long, value_name = "PACKETS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) queue: u32,
    /// Scheduler, which chooses the path of each packet that this end sends.
    #[arg(long, default_value = SchedulerKind::default().name(), value_parser = choice::<SchedulerKind>())]
    pub(super) scheduler: SchedulerKind,
    /// Reorderer: puts received messages in order (passive, active-fixed, adaptive or equalised). MS: longest
    /// wait for a missing message, in milliseconds. [default: passive]
    #[arg(long, value_name = "KIND[,MS]", value_parser = reordering)]
    pub(super) reordering: Option<ReorderConfig>,
    /// Largest IP packet in bytes. Each path is probed for its MTU up to this size.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..))]
    pub(super) mtu: u16,
    /// Give up after this many milliseconds without a packet from the peer.
    #[arg(long, visible_alias = "snd-timeout", value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=86_400_000))]
    pub(super) rcv_timeout: u32,
    /// Seconds between reports; 0 for none.
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = interval)]
    pub(super) interval: Duration,
    /// Print one JSON document at the end, with the fields that iperf3 prints for UDP.
    #[arg(short = 'J', long, conflicts_with = "json_stream")]
    json: bool,
    /// Print events as JSON objects, one per line, as they happen.
    #[arg(long)]
    json_stream: bool,
    /// Unit of rates: `k`, `m`, `g` or `t` for kbit/s to Tbit/s; `K`, `M`, `G` or `T` for KiB/s to TiB/s.
    #[arg(short = 'f', long, value_enum, default_value = "m", hide_possible_values = true)]
    pub(super) format: Unit,
    /// Print the settings first.
    #[arg(short = 'V', long)]
    pub(super) verbose: bool,
    /// Append the output to this file.
    #[arg(long, value_name = "FILE")]
    pub(super) logfile: Option<PathBuf>,
    /// Prefix each line with this text.
    #[arg(short = 'T', long, value_name = "TEXT")]
    pub(super) title: Option<String>,
    /// Prefix each line with the time, in UTC.
    #[arg(long)]
    pub(super) timestamps: bool,
    /// Write the process ID to this file, and remove the file at the end.
    #[arg(short = 'I', long, value_name = "FILE")]
    pub(super) pidfile: Option<PathBuf>,
    /// DSCP of sent packets, as the TOS byte: 184, 0xb8 or 0270 for EF. The two lowest bits belong to ECN and
    /// must be zero.
    #[arg(short = 'S', long, value_name = "N", value_parser = tos, conflicts_with = "dscp")]
    pub(super) tos: Option<Dscp>,
    /// DSCP of sent packets: 0 to 63 or a name such as ef, af41, le.
    #[arg(long, value_name = "DSCP")]
    pub(super) dscp: Option<Dscp>,
    /// Accepted for compatibility with iperf3, without effect: perf always sends datagrams.
    #[arg(short = 'u', long)]
    pub(super) udp: bool,
    /// Accepted for compatibility with iperf3, without effect: perf always flushes every line.
    #[arg(long, hide = true)]
    pub(super) forceflush: bool,
    #[command(flatten)]
    pub(super) _foreign: Foreign,
    /// Write all packets to this pcap file.
    #[arg(long, value_name = "FILE")]
    pub(super) pcap: Option<PathBuf>,
    /// Write packets, congestion control and losses to this qlog file (JSON-SEQ, for qvis and similar tools).
    #[arg(long, value_name = "FILE")]
    pub(super) qlog: Option<PathBuf>,
}

/// The format of JSON output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    /// One object per line for each event.
    Stream,
    /// One document.
    Document,
}

impl Common {
    /// Returns the requested JSON format; `None` for text.
    pub(super) fn json(&self) -> Option<Json> {
        if self.json { Some(Json::Document) } else { self.json_stream.then_some(Json::Stream) }
    }

    /// Returns the number of messages to send, if the command line limits that number.
    pub(super) fn messages(&self) -> Option<u64> {
        self.messages.or(self.bytes.map(|bytes| bytes.div_ceil(self.size)))
    }
}

/// Parses a reorderer and its longest wait for a missing message.
fn reordering(text: &str) -> Result<ReorderConfig, String> {
    let (kind, wait) = text.split_once(',').map_or((text, None), |(kind, wait)| (kind, Some(wait)));
    let cfg: ReorderConfig = ReorderKind::named(kind)?.into();
    let Some(wait) = wait else { return Ok(cfg) };
    let wait = wait.parse().ok().filter(|ms| *ms <= 60_000).map(Duration::from_millis);
    let wait = wait.ok_or("expected a wait of 0 to 60000 ms; example: active-fixed,100")?;
    Ok(ReorderConfig { wait, ..cfg })
}

/// Parses a CCID, given by number or by Linux's name for the algorithm.
fn ccid(text: &str) -> Result<u8, String> {
    const NAMES: [(&str, u8); 4] = [("reno", 2), ("bbr", 5), ("cubic", 7), ("prague", 252)];
    if let Some((_, ccid)) = NAMES.iter().find(|(name, _)| *name == text) {
        return Ok(*ccid);
    }
    let names = NAMES.map(|(name, _)| name).join(", ");
    let n: i64 =
        text.parse().map_err(|_| format!("invalid value `{text}`; expected a number or one of: {names}"))?;
    Ccid::try_from(n).map(|ccid| ccid.0)
}

/// A constant sending rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// As with iperf3, 0 means no limit.
    pub(super) rate: Rate,
    /// Number of messages that are sent back to back.
    pub(super) burst: u32,
}

fn pace(text: &str) -> Result<Pace, String> {
    let (text, burst) = with_number(text);
    let burst = burst.map_or(Some(1), |n| n.parse().ok().filter(|n| (1..=MAX_BURST).contains(n)));
    let rate = if text == "0" { Rate::ZERO } else { rate(text)? };
    let burst = burst.ok_or_else(|| format!("a burst has 1 to {MAX_BURST} messages; example: 10M/16"))?;
    Ok(Pace { rate, burst })
}

/// Parses a TOS byte in C syntax (decimal, hexadecimal or octal) and returns its DSCP.
fn tos(text: &str) -> Result<Dscp, String> {
    let tos = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(hex), _) => u8::from_str_radix(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => u8::from_str_radix(octal, 8),
        _ => text.parse(),
    };
    match tos {
        Ok(tos) if tos & 3 == 0 => Ok(Dscp(tos >> 2)),
        Ok(_) => {
            Err("the two lowest bits are the ECN field, which congestion control sets; set them to zero"
                .into())
        }
        Err(_) => Err("expected 0 to 252, such as 184, 0xb8 or 0270; --dscp takes names such as ef".into()),
    }
}

/// Parses a number of bytes in iperf3's syntax.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse().ok().and_then(|n: u64| n.checked_mul(1 << shift)).filter(|n| *n > 0);
    bytes.ok_or_else(|| format!("`{text}` is not a number of bytes; examples: 1000000, 500K, 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the time limits in docs/perf.md: a missing answer is reported within 5 s, and a session ends
    /// after 10 s without a packet.
    #[test]
    fn how_long_it_waits_unless_told_otherwise() {
        let args: PerfArgs = crate::choice::flags(["-c", "host"]).unwrap();
        assert_eq!(args.client_flags.connect_timeout, 4_500);
        assert_eq!(args.common.rcv_timeout, 10_000);
    }

    #[test]
    fn times_and_names() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("500ms"), Ok(Duration::from_millis(500)));
        assert!(seconds("inf").is_err() && seconds("-1").is_err());
        assert!(interval("0").is_ok() && interval("1ms").is_ok() && interval("1e-9").is_err());
        assert!(ccid("1").unwrap_err().contains("2, ") && ccid("vegas").unwrap_err().contains("cubic"));
        assert_eq!((ccid("7"), ccid("cubic")), (Ok(7), Ok(7)));
        let pace_of = |rate, burst| Ok(Pace { rate, burst });
        assert_eq!((pace("0"), pace("3M")), (pace_of(Rate::ZERO, 1), pace_of(Rate::from_mbps(3.0), 1)));
        assert_eq!(pace("3 Mbit/s"), pace("3M"));
        assert_eq!((pace("3M/16"), pace("0/2")), (pace_of(Rate::from_mbps(3.0), 16), pace_of(Rate::ZERO, 2)));
        assert!(["3M/0", "3M/1001", "3M/1x", "3M/x"].into_iter().all(|text| pace(text).is_err()));
        assert!(["184", "0xb8", "0270"].into_iter().all(|text| tos(text) == Ok(Dscp(46))));
        assert_eq!(tos("0"), Ok(Dscp(0)));
        assert!(["1", "0xb9", "256", "08", "ef", ""].into_iter().all(|text| tos(text).is_err()));
        assert_eq!((bytes("700"), bytes("2K"), bytes("1g")), (Ok(700), Ok(2048), Ok(1 << 30)));
        assert!(["", "0", "M", "1.5M", "99999999999G"].into_iter().all(|text| bytes(text).is_err()));
    }
}
