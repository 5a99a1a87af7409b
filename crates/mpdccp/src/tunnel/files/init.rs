//! `tunnel init` writes the configuration files of both ends, with new keys. The client's paths use this
//! host's lines (Internet connections).

use super::lines::{self, Line};
use super::{NewFile, list, quoted, shell_word, write};
use crate::error::Error;
use crate::keys::random;
use crate::tunnel::doctor::system;
use crate::tunnel::host::routes::lacks_ipv6;
use dccp_secure::PrivateKey;
use ipnet::{IpNet, Ipv4Net};
use mpdccp_tunnel::config::Remote;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "Examples:
  mpdccp tunnel init --server vpn.example.org
  mpdccp tunnel init --server 203.0.113.1:443 --directory /etc/mpdccp --all-traffic
  mpdccp tunnel init --server 203.0.113.1 --line dsl=eth0 --line lte=wwan0 --lan 192.168.88.0/24";

/// How to let a host forward packets. A host that forwards IPv6 packets ignores router advertisements, unless
/// `accept_ra` of the interface is 2.
const FORWARD: &str = "sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1, and add both settings in /etc/sysctl.d. If `sysctl net.ipv6.conf.INTERFACE.accept_ra` prints 1 for an Internet connection, first set it to 2. Otherwise, the host loses the IPv6 default route that it learned from router advertisements";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address or name of the server, with an optional port (default 6511).
    #[arg(long)]
    server: String,
    /// Directory for client.toml and server.toml.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// An Internet connection of this host, as NAME=INTERFACE (repeatable). Default: all interfaces with a
    /// default route.
    #[arg(long = "line", value_name = "NAME=INTERFACE")]
    lines: Vec<String>,
    /// A network behind this host that hosts behind the server may reach (repeatable).
    #[arg(long = "lan", value_name = "PREFIX")]
    lans: Vec<IpNet>,
    /// Network for the addresses inside the tunnel. Default: a network that this host does not use.
    #[arg(long, value_name = "PREFIX")]
    network: Option<Ipv4Net>,
    /// Send all traffic of this host through the tunnel.
    #[arg(long)]
    all_traffic: bool,
    /// Overwrite existing files, including the keys in them.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let server: Remote =
        args.server.clone().try_into().map_err(|e| Error::usage(format!("--server: {e}")))?;
    let port = server.port.unwrap_or(dccp_wire::DCCP_UDP_PORT);
    let lines = lines::find(&args.lines, server.ip().map(|ip| ip.is_ipv4()))?;
    let network = match args.network {
        Some(network) if network.prefix_len() > 30 => {
            return Err(Error::usage(format!(
                "--network {network}: too small; expected a network for at least two hosts, such as 10.9.0.0/24"
            )));
        }
        Some(network) => network.trunc(),
        None => free_network()?,
    };
    let [client, of_server] = [PrivateKey::from_random(random()?), PrivateKey::from_random(random()?)];
    let inner = Inner::new(network, dccp_net::random_seed()?, !lacks_ipv6("default"));
    let files = [
        NewFile {
            path: args.directory.join("client.toml"),
            text: client_file(args, &lines, &inner, port, (&client, &of_server)),
        },
        NewFile {
            path: args.directory.join("server.toml"),
            text: server_file(args, &server, &inner, port, (&client, &of_server)),
        },
    ];
    write(&files, args.force)?;
    let found: Vec<String> = lines.iter().map(|line| format!("{} ({})", line.name, line.interface)).collect();
    println!("Internet connections of this host: {}", found.join(", "));
    println!("Written: {} and {}", files[0].path.display(), files[1].path.display());
    println!("\nNext:\n{}", steps(args, &server, port, &inner, &files));
    Ok(())
}

/// Generates the addresses inside the tunnel.
struct Inner {
    network: Ipv4Net,
    /// `None` if this host cannot have IPv6 addresses.
    prefix: Option<[u16; 4]>,
}

impl Inner {
    fn new(network: Ipv4Net, seed: [u8; 32], v6: bool) -> Inner {
        let part = |i: usize| u16::from_be_bytes([seed[i], seed[i + 1]]);
        // The IPv6 prefix is a unique local one (RFC 4193).
        Inner { network, prefix: v6.then(|| [0xfd00 | part(0) & 0xff, part(2), part(4), 0]) }
    }

    /// Returns the addresses of host 1 or 2, or those of the networks if `n` is 0, with their prefix lengths.
    fn host(&self, n: u8) -> Vec<(IpAddr, u8)> {
        let v4 = Ipv4Addr::from(u32::from(self.network.network()) + u32::from(n));
        let v6 = self.prefix.map(|[a, b, c, d]| Ipv6Addr::new(a, b, c, d, 0, 0, 0, n.into()));
        let v4 = (IpAddr::from(v4), self.network.prefix_len());
        std::iter::once(v4).chain(v6.map(|v6| (v6.into(), 64))).collect()
    }

    fn addresses(&self, n: u8) -> Vec<String> {
        self.host(n).iter().map(|(ip, length)| format!("{ip}/{length}")).collect()
    }
}

/// Returns a network that does not overlap any of this host's networks.
fn free_network() -> Result<Ipv4Net, Error> {
    let here: Vec<IpNet> =
        system::interfaces().map_err(Error::usage)?.into_iter().flat_map(|i| i.addresses).collect();
    let [start, ..] = dccp_net::random_seed()?;
    let candidates =
        (0..=255u8).map(|i| Ipv4Net::new_assert(Ipv4Addr::new(10, 99, start.wrapping_add(i), 0), 24));
    let free = |net: &Ipv4Net| {
        !here
            .iter()
            .any(|used| used.contains(&IpAddr::V4(net.network())) || IpNet::from(*net).contains(&used.addr()))
    };
    candidates.into_iter().find(free).ok_or_else(|| {
        Error::usage("this host uses all networks in 10.99.0.0/16; give another network with --network")
    })
}

fn client_file(
    args: &Args,
    lines: &[Line],
    inner: &Inner,
    port: u16,
    (own, server): (&PrivateKey, &PrivateKey),
) -> String {
    let mut allowed = inner.addresses(0);
    if args.all_traffic {
        allowed = vec!["0.0.0.0/0".into(), "::/0".into()];
    }
    let mut text = format!(
        "# The client: the end with the Internet connections. `mpdccp tunnel doctor --config FILE` tests them.\nrole = \"client\"\nprivate_key = \"{}\"\naddresses = {}\n{}\n\
         [[peer]]\nname = \"server\"\npublic_key = \"{}\"\nallowed_ips = {}\n",
        *own.to_base64(),
        list(&inner.addresses(2)),
        if args.all_traffic { "default_route = true\n" } else { "" },
        server.public(),
        list(&allowed),
    );
    let has_port = args.server.parse::<std::net::SocketAddr>().is_ok()
        || (args.server.matches(':').count() == 1 && !args.server.starts_with('['));
    let remote = if has_port { args.server.clone() } else { with_port(&args.server, port) };
    for line in lines {
        let metered = if line.name == "lte" {
            "# quota = \"50GB\"        # or cost = 5, for a metered connection\n"
        } else {
            ""
        };
        text += &format!(
            "\n[[peer.path]]\nname = {}\ninterface = {}\nremote = {}\n{metered}",
            quoted(&line.name),
            quoted(&line.interface),
            quoted(&remote)
        );
    }
    text
}

fn with_port(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

fn server_file(
    args: &Args,
    server: &Remote,
    inner: &Inner,
    port: u16,
    (client, own): (&PrivateKey, &PrivateKey),
) -> String {
    let listen: Vec<String> = match server.ip() {
        Some(IpAddr::V4(_)) => vec![format!("0.0.0.0:{port}")],
        Some(IpAddr::V6(_)) => vec![format!("[::]:{port}")],
        None => vec![format!("0.0.0.0:{port}"), format!("[::]:{port}")],
    };
    let mut allowed: Vec<String> = inner.host(2).iter().map(|(ip, _)| IpNet::from(*ip).to_string()).collect();
    allowed.extend(args.lans.iter().map(|lan| lan.trunc().to_string()));
    format!(
        "# For the server {}. This file contains the server's private key: delete it on this host after copying it.\nrole = \"server\"\nprivate_key = \"{}\"\nlisten = {}\naddresses = {}\n\n\
         [[peer]]\nname = \"client\"\npublic_key = \"{}\"\nallowed_ips = {}\n",
        args.server,
        *own.to_base64(),
        list(&listen),
        list(&inner.addresses(1)),
        client.public(),
        list(&allowed),
    )
}

fn steps(args: &Args, server: &Remote, port: u16, inner: &Inner, files: &[NewFile; 2]) -> String {
    let host = server.ip().map(|ip| ip.to_string()).or(server.name().map(str::to_owned)).unwrap_or_default();
    let at = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let [client, of_server] = [0, 1].map(|i: usize| shell_word(&files[i].path));
    let mut steps = vec![
        format!(
            "ssh root@{host} mkdir -p -m 700 /etc/mpdccp && scp -p {of_server} root@{at}:/etc/mpdccp/server.toml && rm {of_server}"
        ),
        format!(
            "at the server: allow UDP port {port} in the firewall, then: systemctl enable --now mpdccp@server   (or: mpdccp tunnel up --config /etc/mpdccp/server.toml)"
        ),
    ];
    if args.all_traffic || !args.lans.is_empty() {
        steps.push(format!("at the server: {FORWARD}"));
    }
    if args.all_traffic {
        steps.push("at the server: nft add table inet mpdccp; nft add chain inet mpdccp post '{ type nat hook postrouting priority srcnat; }'; nft add rule inet mpdccp post oifname != mpdccp0 masquerade   # lasts until a reboot; /etc/nftables.conf keeps rules".into());
    }
    if !args.lans.is_empty() {
        steps.push(format!("on this host, to forward packets of the LAN: {FORWARD}"));
    }
    steps.push(format!(
        "on this host: mpdccp tunnel doctor --config {client}   (reports faults and how to fix them)"
    ));
    steps.push(format!(
        "on this host: mpdccp tunnel up --config {client}       (then: ping {})",
        inner.host(1)[0].0
    ));
    let numbered = steps.iter().enumerate().map(|(i, step)| format!("  {}. {step}", i + 1));
    numbered.collect::<Vec<_>>().join("\n")
}
