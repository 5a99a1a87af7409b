//! The plan of a test: the command line after all checks have passed.

use crate::error::Error;
use crate::perf::args::{ClientFlags, Common, EncapsulationArg, PerfArgs};
use crate::perf::control::Test;
use crate::perf::file;
use crate::perf::iperf3::test_start;
use crate::perf::keys::Keys;
use crate::perf::limits::Limits;
use crate::perf::message::{self, STAMPED};
use crate::perf::output::Output;
use crate::perf::peer_path::{PathArg, addresses};
use crate::perf::report::{Reporter, Settings};
use crate::perf::sender::Load;
use crate::perf::transfer::Mode;
use dccp_net::with_port;
use mpdccp_proto::policy::Dscp;
use mpdccp_proto::{Named, is_unicast};
use mpdccp_units::{Duration, Rate};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// A checked test plan.
pub(crate) struct Plan {
    pub(crate) role: Role,
    /// The flags of both ends.
    pub(super) common: Common,
    pub(crate) dccp_port: u16,
    /// This end's keys. If present, all packets are encrypted.
    pub(crate) keys: Option<Keys>,
    pub(crate) mode: Mode,
    /// Limits of the server.
    pub(crate) limits: Limits,
    /// The only interface that sockets may use, if there is such a restriction.
    pub(crate) bind_dev: Option<String>,
    pub(crate) interval: Option<Duration>,
    /// Total time that a client waits for any of the server's addresses to answer.
    pub(crate) patience: Duration,
    /// A session ends after this long without a packet from the peer.
    pub(crate) survive: Duration,
    /// DSCP of outer IP headers.
    pub(crate) dscp: u8,
    pub(crate) daemon: bool,
}

pub(crate) enum Role {
    Server {
        listen: SocketAddr,
        once: bool,
        rendezvous: Vec<SocketAddr>,
    },
    Client {
        connect: SocketAddr,
        /// The other addresses that the server's name resolves to. The client tries them in turn if the first
        /// address does not answer.
        others: VecDeque<SocketAddr>,
        paths: Vec<PathArg>,
        multipath: bool,
        parallel: u32,
        cport: Option<u16>,
    },
}

impl Plan {
    /// Describes the other end for messages.
    pub(crate) fn peer(&self) -> String {
        match &self.role {
            Role::Server { .. } => "the client".into(),
            Role::Client { connect, .. } if self.common.encapsulation == EncapsulationArg::Raw => {
                with_port(*connect, self.dccp_port).to_string()
            }
            Role::Client { connect, .. } => format!("{connect}, DCCP port {}", self.dccp_port),
        }
    }

    /// Client: switches to the next address of the server's name. Returns false if there is no other address.
    pub(crate) fn take_next_address(&mut self) -> bool {
        let Role::Client { connect, others, .. } = &mut self.role else { return false };
        let next = others.pop_front();
        *connect = next.unwrap_or(*connect);
        next.is_some()
    }

    /// Returns the number of addresses that the client has not tried yet.
    pub(crate) fn addresses_left(&self) -> u32 {
        match &self.role {
            Role::Server { .. } => 0,
            Role::Client { others, .. } => others.len() as u32,
        }
    }

    /// Creates the reporter. Prints the settings if requested.
    pub(crate) fn reporter(&self) -> Result<Reporter, Error> {
        let Common { logfile, title, timestamps, .. } = &self.common;
        let output = Output::new(logfile.as_deref(), title.clone(), *timestamps);
        let output = output.map_err(|e| {
            let file = logfile.as_deref().unwrap_or("".as_ref());
            Error::usage(format!("--logfile {}: {e}", file.display()))
        })?;
        let several = !matches!(self.role, Role::Client { parallel: 1, .. });
        let reporter = Reporter::new(output, self.common.json(), self.start(), self.common.format, several);
        if self.common.verbose {
            reporter.settings(&Settings {
                version: env!("CARGO_PKG_VERSION"),
                ccid: self.common.ccid,
                scheduler: self.common.scheduler.name(),
                size: self.size(),
                queue_packets: self.common.queue,
                mtu: self.common.mtu,
                dscp: self.dscp,
            });
        }
        Ok(reporter)
    }

    /// Returns the first part of a JSON document.
    fn start(&self) -> Value {
        let mut start = json!({
            "connected": [],
            "version": concat!("mpdccp ", env!("CARGO_PKG_VERSION")),
            "system_info": system(),
        });
        if let Role::Client { connect, parallel, .. } = &self.role {
            start["connecting_to"] = json!({ "host": connect.ip(), "port": connect.port() });
            let test = if let Mode::Ask(test) = &self.mode { Some(test) } else { None };
            start["test_start"] = test_start(test, *parallel, self.dscp << 2);
            start["target_bitrate"] = test.and_then(|test| test.rate_bps).unwrap_or(0).into();
        }
        start
    }

    /// Returns the message size in bytes if the command line determines it.
    pub(crate) fn size(&self) -> Option<usize> {
        match &self.mode {
            Mode::Plain(load) => load.map(|load| load.size),
            Mode::Ask(test) => Some(test.size),
            Mode::Obey => None,
        }
    }
}

/// Returns the host's kernel and name, formatted like uname(1).
fn system() -> String {
    let read = |name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let parts = ["ostype", "hostname", "osrelease", "version"].map(|name| read(name).trim().to_owned());
    format!("{} {}", parts.join(" "), std::env::consts::ARCH)
}

fn mode(client_flags: Option<&ClientFlags>, common: &Common) -> Mode {
    // As with iperf3, 0 means no limit.
    let time = common.time.filter(|time| !time.is_zero());
    let pace = common.rate.filter(|pace| pace.rate != Rate::ZERO);
    let (rate, burst) = (pace.map(|pace| pace.rate), pace.map_or(1, |pace| pace.burst));
    let size = usize::try_from(common.size).unwrap_or(usize::MAX);
    let load = Load { size, rate, burst, messages: common.messages(), time };
    match client_flags {
        _ if common.send => Mode::Plain(Some(load)),
        Some(_) if common.receive => Mode::Plain(None),
        None => Mode::Obey,
        Some(client_flags) => Mode::Ask(Test {
            up: !client_flags.reverse,
            down: client_flags.reverse || client_flags.bidir,
            echo: client_flags.echo,
            size,
            rate_bps: rate.map(Rate::bps),
            burst,
            messages: common.messages(),
            time_ms: time.map(|time| time.as_millis() as u64),
            omit_ms: client_flags.omit.as_millis() as u64,
            server_output: client_flags.get_server_output,
        }),
    }
}

impl TryFrom<PerfArgs> for Plan {
    type Error = Error;
    fn try_from(mut args: PerfArgs) -> Result<Plan, Error> {
        let place = args.complete();
        let PerfArgs { client, bind_dev, limits, once, daemon, rendezvous, client_flags, common, .. } = args;
        let client_flags = client.map(|_| client_flags);
        let mode = mode(client_flags.as_ref(), &common);
        let paths = client_flags.as_ref().map_or(&[][..], |client_flags| &client_flags.paths);
        let (mut places, dccp_port) = places(client_flags.is_some(), &place, paths, &common)?;
        let place = places.pop_front().ok_or_else(|| Error::usage(format!("{place}: no address")))?;
        for path in paths {
            let remote = path.remote.unwrap_or(place.ip());
            if path.local.is_ipv4() != remote.is_ipv4() {
                return Err(Error::usage(format!(
                    "--path {}: IP version differs from that of the remote address {remote}",
                    path.local
                )));
            }
            if path.remote.is_some_and(|remote| !is_unicast(remote)) {
                return Err(Error::usage(format!(
                    "--path {}@{remote}: the remote address is not a unicast address",
                    path.local
                )));
            }
        }
        if let (Mode::Plain(_), Some(client_flags)) = (&mode, &client_flags)
            && (client_flags.reverse
                || client_flags.bidir
                || client_flags.echo
                || client_flags.get_server_output
                || !client_flags.omit.is_zero())
        {
            return Err(Error::usage(
                "--reverse, --bidir, --echo, --omit and --get-server-output cannot be combined with --send or --receive; remove one or the other",
            ));
        }
        check_file(&mode, client_flags.as_ref(), &common)?;
        check_outputs(&common)?;
        let reachable = |client: &SocketAddr| {
            client.is_ipv4() == place.is_ipv4() && client.port() > 0 && is_unicast(client.ip())
        };
        if let Some(client) = rendezvous.iter().find(|client| !reachable(client)) {
            return Err(Error::usage(format!(
                "--rendezvous {client}: expected a unicast address of the same IP version as that of the server, {}, and a port from 1 to 65535",
                place.ip()
            )));
        }
        let patience = client_flags.as_ref().map_or(0, |client_flags| client_flags.connect_timeout);
        let patience = Duration::from_millis(patience.into());
        let role = match client_flags {
            None => Role::Server { listen: place, once, rendezvous },
            Some(ClientFlags { paths, multipath, parallel, cport, .. }) => {
                Role::Client { connect: place, others: places, paths, multipath, parallel, cport }
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
            return Err(Error::usage(format!("{flag} is only for a sender; add --send or remove {flag}")));
        }
        if common.size < message::MIN_LEN as u64 {
            return Err(Error::usage(format!(
                "--size {}: too small; expected at least 4 bytes",
                common.size
            )));
        }
        if common.coverage > 0 && common.encapsulation == EncapsulationArg::Udp {
            return Err(Error::usage(
                "--coverage needs --encapsulation raw; the UDP checksum always covers the whole packet",
            ));
        }
        let keys = Keys::read(&common, matches!(role, Role::Client { .. }))?;
        Ok(Plan {
            role,
            dccp_port,
            keys,
            mode,
            limits,
            bind_dev,
            interval: Some(common.interval).filter(|interval| !interval.is_zero()),
            patience,
            survive: Duration::from_millis(common.rcv_timeout.into()),
            dscp: common.tos.or(common.dscp).map_or(0, |Dscp(dscp)| dscp),
            daemon,
            common,
        })
    }
}

/// Checks whether this test can use `--file`.
fn check_file(mode: &Mode, client_flags: Option<&ClientFlags>, common: &Common) -> Result<(), Error> {
    let Some(path) = &common.file else { return Ok(()) };
    let wrong = |why: &str| Err(Error::usage(format!("--file {}: {why}", path.display())));
    let (reads, writes) = match (mode, client_flags) {
        (Mode::Ask(Test { echo: true, .. }), _) => return wrong("echoes carry no file; remove --echo"),
        (Mode::Ask(Test { up: true, down: true, .. }), _) => {
            return wrong("a file is sent or received, not both; remove --bidir");
        }
        (Mode::Ask(test), Some(flags)) if test.down && flags.parallel > 1 => {
            return wrong("the file holds the data of only one connection; remove -P");
        }
        (Mode::Ask(test), _) => (test.up, test.down),
        (Mode::Plain(load), _) => (load.is_some(), load.is_none()),
        (Mode::Obey, _) => (true, true),
    };
    if common.size <= STAMPED as u64 {
        return wrong("each message starts with a header of 16 bytes; use a larger --size");
    }
    file::check(path, reads, writes)
}

/// Checks that no two flags name the same file. Devices such as /dev/null may be named several times.
fn check_outputs(common: &Common) -> Result<(), Error> {
    let Common { file, logfile, pidfile, pcap, qlog, .. } = common;
    let flags = ["--file", "--logfile", "--pidfile", "--pcap", "--qlog"];
    let mut named = BTreeMap::new();
    for (flag, file) in flags.into_iter().zip([file, logfile, pidfile, pcap, qlog]) {
        let file = file.as_ref().filter(|file| !file.starts_with("/dev"));
        if let Some((file, earlier)) = file.and_then(|file| Some((file, named.insert(file, flag)?))) {
            return Err(Error::usage(format!("{flag} {}: {earlier} names the same file", file.display())));
        }
    }
    Ok(())
}

/// Returns the outer addresses and the DCCP port. There are several addresses only on a client whose server's
/// name resolves to several.
fn places(
    is_client: bool,
    text: &str,
    paths: &[PathArg],
    common: &Common,
) -> Result<(VecDeque<SocketAddr>, u16), Error> {
    const DCCP_PORT: u16 = 5001;
    let raw = common.encapsulation == EncapsulationArg::Raw;
    let default = if raw { DCCP_PORT } else { dccp_wire::DCCP_UDP_PORT };
    let flag = if is_client { "-c" } else { "-B" };
    let version = |ip: IpAddr| if ip.is_ipv4() { !common.ipv6 } else { !common.ipv4 };
    let fits =
        |ip: IpAddr| version(ip) && paths.first().is_none_or(|path| path.local.is_ipv4() == ip.is_ipv4());
    let wrong = |why: &str| Error::usage(format!("{flag} {text}: {why}"));
    let mut places: VecDeque<SocketAddr> = addresses(text, default, fits).map_err(|e| wrong(&e))?.into();
    if is_client && places.iter().any(|place| place.port() == 0 || !is_unicast(place.ip())) {
        return Err(wrong(
            "not the address of a host; expected a unicast address and a port from 1 to 65535",
        ));
    }
    // A server listens on one address.
    places.truncate(if is_client { usize::MAX } else { 1 });
    let ips = paths.iter().map(|path| path.local).chain(places.iter().map(SocketAddr::ip));
    if let Some(ip) = ips.into_iter().find(|ip| !version(*ip)) {
        let (only, expected) = if common.ipv4 { ("-4", "IPv4") } else { ("-6", "IPv6") };
        return Err(Error::usage(format!(
            "{only} requires {expected} addresses, not {ip}; remove {only} or change the address"
        )));
    }
    let inside = places.front().map(SocketAddr::port).filter(|_| raw).unwrap_or(DCCP_PORT);
    if raw {
        places.iter_mut().for_each(|place| place.set_port(0));
    }
    match common.dccp_port.unwrap_or(inside) {
        0 => Err(Error::usage("invalid DCCP port 0; give a port from 1 to 65535")),
        port => Ok((places, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::flags;
    use dccp_secure::PrivateKey;
    use mpdccp_proto::reorder::{ReorderConfig, ReorderKind};

    fn plan(line: &str) -> Plan {
        let args: PerfArgs = flags(line.split_whitespace()).unwrap();
        args.try_into().unwrap_or_else(|e: Error| panic!("{e}"))
    }

    #[test]
    fn a_client_requests_what_its_flags_say() {
        let Mode::Ask(test) = plan("-c 127.0.0.1 -R -b 8M/4 -l 1000 -k 7 -O 2").mode else { panic!() };
        let wanted = Test {
            down: true,
            size: 1000,
            rate_bps: Some(8_000_000),
            burst: 4,
            messages: Some(7),
            omit_ms: 2000,
            ..Test::default()
        };
        assert_eq!(test, wanted);
        let Mode::Plain(Some(load)) = plan("-c 127.0.0.1 --send -b 8M/4").mode else { panic!() };
        assert_eq!((load.rate, load.burst), (Some(Rate::from_bps(8_000_000)), 4));
    }

    #[test]
    fn a_client_sends_for_ten_seconds_unless_told_otherwise() {
        for (line, time) in [
            ("", Some(10)),
            ("--send", Some(10)),
            ("-R -F /nowhere/new", Some(10)),
            ("-t 3", Some(3)),
            ("-t 0", None),
            ("-k 5", None),
            ("-n 1K", None),
            ("-F /dev/zero", None),
        ] {
            let line =
                format!("-c 127.0.0.1 {line}").replace("/nowhere", std::env::temp_dir().to_str().unwrap());
            let time_ms = match plan(&line).mode {
                Mode::Ask(test) => test.time_ms,
                Mode::Plain(load) => load.unwrap().time.map(|time| time.as_millis() as u64),
                Mode::Obey => panic!("{line}"),
            };
            assert_eq!(time_ms, time.map(|s| s * 1000), "{line}");
        }
    }

    #[test]
    fn a_reorderer_may_have_a_longest_wait() {
        let ms = |n| ReorderConfig::active_fixed(Duration::from_millis(n));
        for (line, wanted) in [
            ("", None),
            ("--reordering active-fixed,70", Some(ms(70))),
            ("--reordering adaptive", Some(ReorderKind::named("adaptive").unwrap().into())),
        ] {
            assert_eq!(plan(&format!("-s {line}")).common.reordering, wanted, "{line}");
        }
    }

    #[test]
    fn ports_and_addresses_go_where_they_belong() {
        let place = |line: &str| {
            let plan = plan(line);
            match plan.role {
                Role::Server { listen, .. } => (listen.to_string(), plan.dccp_port),
                Role::Client { connect, .. } => (connect.to_string(), plan.dccp_port),
            }
        };
        for (line, addr, dccp_port) in [
            ("-s", "0.0.0.0:6511", 5001),
            ("-s -6", "[::]:6511", 5001),
            ("-s -p 7", "0.0.0.0:7", 5001),
            ("-c 127.0.0.1:7 --dccp-port 9", "127.0.0.1:7", 9),
            ("-c ::1 -p 7", "[::1]:7", 5001),
            ("-c fe80::1%lo -p 7", "[fe80::1%1]:7", 5001),
            ("-s --encapsulation raw", "0.0.0.0:0", 5001),
            ("-c 127.0.0.1:7 --encapsulation raw", "127.0.0.1:0", 7),
            ("-c 127.0.0.1:7 --encapsulation raw --dccp-port 9", "127.0.0.1:0", 9),
        ] {
            assert_eq!(place(line), (addr.to_owned(), dccp_port), "{line}");
        }
        assert_eq!(plan("-c fe80::1%lo -p 7 --encapsulation raw").peer(), "[fe80::1%1]:7");
        let paths = |line: &str| match plan(line).role {
            Role::Client { paths, multipath, .. } => (paths.len(), multipath),
            Role::Server { .. } => panic!("{line}"),
        };
        assert_eq!(paths("-c 127.0.0.1 -B 127.0.0.2"), (1, false));
        assert_eq!(paths("-c 127.0.0.1 -B 127.0.0.2 --path 127.0.0.3"), (1, true), "--path replaces -B");
        assert_eq!(paths("-c 127.0.0.1 --path 127.0.0.3 --path 127.0.0.4"), (2, true));
        assert_eq!(paths("-c 127.0.0.1"), (0, false));
    }

    #[test]
    fn a_key_may_be_given_twice() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &**PrivateKey::from_random([1; 32]).to_base64()).unwrap();
        let other = PrivateKey::from_random([2; 32]).public();
        let line = format!(
            "-c 127.0.0.1 --private-key-file {} --public-key {other} --public-key {other}",
            file.path().display()
        );
        assert!(plan(&line).keys.is_some());
    }
}
