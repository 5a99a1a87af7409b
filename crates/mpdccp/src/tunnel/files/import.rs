//! `tunnel import` converts a wg-quick file and lists the settings that it cannot convert.

use super::lines::{self, Line};
use super::wg_quick::{self, Section, WgFile};
use super::{NewFile, list, quoted, shell_word, write};
use crate::error::Error;
use dccp_secure::{OVERHEAD, PresharedKey, PrivateKey, PublicKey};
use ipnet::IpNet;
use mpdccp_tunnel::config::Remote;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

pub(crate) const EXAMPLES: &str = "Examples:
  mpdccp tunnel import /etc/wireguard/wg0.conf
  mpdccp tunnel import wg0.conf --line dsl=eth0 --line lte=wwan0 --output /etc/mpdccp/client.toml
Import the files of both ends. Stop WireGuard before you start the tunnel: both use the same addresses and ports.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The wg-quick file.
    file: PathBuf,
    /// Output file. Default: NAME.toml in the current directory.
    #[arg(long)]
    output: Option<PathBuf>,
    /// An Internet connection of this host, as NAME=INTERFACE (repeatable). Default: all interfaces with a
    /// default route.
    #[arg(long = "line", value_name = "NAME=INTERFACE")]
    lines: Vec<String>,
    /// Overwrite an existing file, including the keys in it.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let shown = args.file.display();
    let wrong = |why: String| Error::usage(format!("{shown}: {why}"));
    let text =
        std::fs::read_to_string(&args.file).map_err(|e| wrong(format!("cannot read the file: {e}")))?;
    let file = wg_quick::parse(&text).map_err(wrong)?;
    let lines = if is_client(&file) { lines::find(&args.lines, None)? } else { Vec::new() };
    let mut made = convert(&file, &lines).map_err(wrong)?;
    let output = args.output.clone().or_else(|| output_of(&args.file));
    let path = output.ok_or_else(|| wrong("the file has no name".into()))?;
    made.text.insert_str(0, &format!("# From {shown}.\n"));
    let file = NewFile { path, text: made.text };
    write(std::slice::from_ref(&file), args.force)?;
    println!("Written: {}", file.path.display());
    for lost in &made.lost {
        println!("Not imported: {lost}");
    }
    println!(
        "Next: wg-quick down {1}; mpdccp tunnel doctor --config {0}; mpdccp tunnel up --config {0}",
        shell_word(&file.path),
        shell_word(&args.file)
    );
    Ok(())
}

/// Returns the default output file. Only the last extension is replaced: `site.a.conf` becomes `site.a.toml`.
fn output_of(file: &Path) -> Option<PathBuf> {
    let mut name = file.file_stem()?.to_owned();
    name.push(".toml");
    Some(name.into())
}

/// A configuration, and the wg-quick settings that could not be converted.
#[derive(Debug, Default)]
struct Converted {
    text: String,
    /// The names of the peers.
    names: Vec<String>,
    lost: Vec<String>,
}

/// Returns whether this end is a client. A client opens sessions, so its wg-quick file contains a peer's
/// address (`Endpoint`).
fn is_client(file: &WgFile) -> bool {
    file.peers.iter().any(|peer| peer.get("endpoint").is_some())
}

fn convert(file: &WgFile, lines: &[Line]) -> Result<Converted, String> {
    let Section { line, .. } = file.interface;
    let client = is_client(file);
    let mut made = Converted::default();
    let key = file
        .interface
        .get("privatekey")
        .ok_or_else(|| format!("line {line}: [Interface] has no PrivateKey"))?;
    key.parse::<PrivateKey>().map_err(|e| format!("PrivateKey: {e}"))?;
    let addresses = file.interface.all("address");
    if addresses.is_empty() {
        return Err(format!("line {line}: [Interface] has no Address"));
    }
    let addresses: Vec<IpNet> =
        addresses.into_iter().map(|text| prefix("Address", text)).collect::<Result<_, _>>()?;
    let role = if client { "client" } else { "server" };
    made.text += &format!("role = \"{role}\"\nprivate_key = \"{key}\"\naddresses = {}\n", list(&addresses));
    let port = file.interface.get("listenport");
    match (client, port) {
        (false, port) => {
            let port: u16 = port
                .unwrap_or("51820")
                .parse()
                .map_err(|_| format!("ListenPort = {}: expected 1 to 65535", port.unwrap_or_default()))?;
            made.text += &format!("listen = [\"0.0.0.0:{port}\", \"[::]:{port}\"]\n");
        }
        (true, Some(port)) => {
            made.lost.push(format!("ListenPort = {port}: clients do not listen; each path has its own port"))
        }
        (true, None) => {}
    }
    let everything = file.peers.iter().flat_map(|peer| peer.all("allowedips")).any(|net| net.ends_with("/0"));
    let reached = file.peers.iter().filter(|_| client).flat_map(|peer| peer.all("allowedips"));
    let reached: Vec<IpNet> = reached.filter_map(|net| prefix("AllowedIPs", net).ok()).collect();
    of_interface(&file.interface, client && everything, &reached, &mut made)?;
    for (number, peer) in (1..).zip(&file.peers) {
        of_peer(peer, number, client.then_some(lines), &mut made)?;
    }
    Ok(made)
}

fn prefix(key: &str, text: &str) -> Result<IpNet, String> {
    let alone = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>()
        .or_else(|_| alone())
        .map_err(|_| format!("{key}: `{text}` is not an address or prefix such as 10.0.0.2/24"))
}

/// Converts the `[Interface]` section. `reached` lists the networks that a client reaches through the tunnel.
fn of_interface(
    interface: &Section,
    everything: bool,
    reached: &[IpNet],
    made: &mut Converted,
) -> Result<(), String> {
    if let Some(mtu) = interface.get("mtu") {
        // WireGuard's headers are smaller, so its usual MTU of 1420 would keep the tunnel from starting.
        let most = mpdccp_tunnel::guessed_mtu(OVERHEAD as u16);
        match mtu.parse::<u16>() {
            Ok(large) if (most + 1..=9_000).contains(&large) => made.lost.push(format!(
                "MTU = {mtu}: a path with an MTU of 1500 carries inner packets of at most {most} bytes; mpdccp finds the size itself"
            )),
            Ok(mtu) if (576..=9_000).contains(&mtu) => made.text += &format!("mtu = {mtu}\n"),
            _ => return Err(format!("MTU = {mtu}: expected 576 to 9000")),
        }
    }
    match interface.get("table").map(str::to_ascii_lowercase).as_deref() {
        None | Some("auto") if everything => made.text += "default_route = true\n",
        None | Some("auto") => {}
        Some("off") => made.text += "routes = false\n",
        Some(table) => made.lost.push(format!("Table = {table}: mpdccp puts routes into the main table; for another table, set routes = false and add the routes in your own script")),
    }
    let (inside, outside): (Vec<&str>, Vec<&str>) = interface
        .all("dns")
        .into_iter()
        .partition(|dns| dns.parse::<IpAddr>().is_ok_and(|ip| reached.iter().any(|net| net.contains(&ip))));
    if !inside.is_empty() {
        made.text += &format!("dns = {}\n", list(&inside));
    }
    if !outside.is_empty() {
        made.lost
            .push(format!("DNS = {}: `dns` takes only name servers within AllowedIPs", outside.join(", ")));
    }
    for (key, name) in
        [("preup", "PreUp"), ("postup", "PostUp"), ("predown", "PreDown"), ("postdown", "PostDown")]
    {
        for entry in interface.entries.iter().filter(|entry| entry.key == key) {
            made.lost.push(format!("line {}: {name} = {}: run this command from a `hook` program at session-up and session-down, or from a systemd drop-in of mpdccp@NAME", entry.line, entry.value));
        }
    }
    if let Some(mark) = interface.get("fwmark") {
        made.lost.push(format!(
            "FwMark = {mark}: with default_route, mpdccp marks the tunnel's own packets with 0x6d70"
        ));
    }
    if interface.get("saveconfig").is_some_and(|value| value == "true") {
        made.lost.push("SaveConfig = true: mpdccp never writes its configuration file".into());
    }
    Ok(())
}

/// Converts a `[Peer]` section. `lines` lists a client's lines; it is `None` on a server.
fn of_peer(
    peer: &Section,
    number: usize,
    lines: Option<&[Line]>,
    made: &mut Converted,
) -> Result<(), String> {
    let place = format!("line {}: [Peer]", peer.line);
    let key = peer.get("publickey").ok_or_else(|| format!("{place} has no PublicKey"))?;
    key.parse::<PublicKey>().map_err(|e| format!("{place}: PublicKey: {e}"))?;
    let fits = |name: &String| !made.names.contains(name) && !name.contains(char::is_control);
    let comment = peer.comment.clone().filter(fits);
    let name = comment.unwrap_or_else(|| format!("peer-{number}"));
    made.names.push(name.clone());
    let endpoint = peer.get("endpoint");
    if let (Some(_), None) = (lines, endpoint) {
        made.lost.push(format!(
            "{place} {name} has no Endpoint: a client needs the Endpoint of each peer; only a server accepts peers without one"
        ));
        return Ok(());
    }
    let allowed: Vec<IpNet> = peer
        .all("allowedips")
        .into_iter()
        .map(|text| prefix("AllowedIPs", text))
        .collect::<Result<_, _>>()?;
    made.text += &format!(
        "\n[[peer]]\nname = {}\npublic_key = \"{key}\"\nallowed_ips = {}\n",
        quoted(&name),
        list(&allowed)
    );
    if let Some(psk) = peer.get("presharedkey") {
        psk.parse::<PresharedKey>().map_err(|e| format!("{place}: PresharedKey: {e}"))?;
        made.text += &format!("preshared_key = \"{psk}\"\n");
    }
    if let Some(seconds) = peer.get("persistentkeepalive").filter(|value| !matches!(*value, "off" | "0")) {
        made.lost.push(format!(
            "PersistentKeepalive = {seconds}: mpdccp always keeps paths open, by default with a packet every 12 s (`keepalive`)"
        ));
    }
    let (Some(lines), Some(endpoint)) = (lines, endpoint) else { return Ok(()) };
    endpoint.to_owned().try_into().map(|_: Remote| ()).map_err(|e| format!("{place}: Endpoint: {e}"))?;
    for Line { name, interface } in lines {
        made.text += &format!(
            "\n[[peer.path]]\nname = {}\ninterface = {}\nremote = {}\n",
            quoted(name),
            quoted(interface),
            quoted(endpoint)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpdccp_tunnel::config::Config;

    fn lines() -> Vec<Line> {
        [("dsl", "eth0"), ("lte", "wwan0")]
            .map(|(name, interface)| Line { name: name.into(), interface: interface.into() })
            .into()
    }

    fn wg(n: u8) -> (String, String) {
        let key = PrivateKey::from_random([n; 32]);
        (key.to_base64().to_string(), key.public().to_string())
    }

    #[test]
    fn a_client_keeps_keys_addresses_and_networks_and_gets_all_lines() {
        let ((own, _), (psk, hub)) = (wg(1), wg(2));
        let text = format!(
            "[Interface]\nPrivateKey = {own}\nAddress = 10.0.0.2/32, fd00::2\nDNS = 1.1.1.1, corp.example\nMTU = 1380\nListenPort = 51820\nPostUp = iptables -A FORWARD -i %i -j ACCEPT\nFwMark = 0x1\n\
             # hub\n[Peer]\nPublicKey = {hub}\nPresharedKey = {psk}\nAllowedIPs = 0.0.0.0/0, ::/0\nEndpoint = vpn.example.org:51820\nPersistentKeepalive = 25\n[Peer]\nPublicKey = {}\nAllowedIPs = 10.0.0.3/32\n",
            wg(3).1
        );
        let made = convert(&wg_quick::parse(&text).unwrap(), &lines()).unwrap();
        let review = Config::review(&made.text, 1);
        assert!(review.errors.is_empty(), "{:?}\n{}", review.errors, made.text);
        let cfg = review.draft.unwrap();
        assert!(cfg.is_client() && cfg.default_route && cfg.peers.len() == 1);
        assert_eq!(cfg.dns, [IpAddr::from([1, 1, 1, 1])]);
        let peer = cfg.peers[0].get_ref();
        assert_eq!(
            (peer.name.as_str(), peer.public_key.as_ref().map(|key| key.0.to_string())),
            ("hub", Some(hub))
        );
        assert!(peer.preshared_key.is_some());
        let paths: Vec<_> = peer
            .paths
            .iter()
            .map(|path| path.get_ref())
            .map(|path| (path.name.as_str(), path.remote.all()[0].port))
            .collect();
        assert_eq!(paths, [("dsl", Some(51_820)), ("lte", Some(51_820))]);
        for words in [
            "DNS = corp.example",
            "line 7: PostUp",
            "ListenPort",
            "FwMark",
            "PersistentKeepalive",
            "no Endpoint",
        ] {
            assert!(made.lost.iter().any(|lost| lost.contains(words)), "{words}: {:?}", made.lost);
        }
        assert_eq!(made.lost.len(), 6);
    }

    #[test]
    fn the_output_is_named_after_the_file() {
        for (file, output) in
            [("/etc/wireguard/wg0.conf", "wg0.toml"), ("site.a.conf", "site.a.toml"), ("wg0", "wg0.toml")]
        {
            assert_eq!(output_of(file.as_ref()), Some(output.into()), "{file}");
        }
        assert_eq!(output_of("/".as_ref()), None);
    }

    #[test]
    fn a_server_listens_on_the_same_port() {
        let ((own, _), (_, client)) = (wg(1), wg(2));
        let text = format!(
            "[Interface]\nPrivateKey = {own}\nAddress = 10.0.0.1/24\nListenPort = 443\nTable = off\n[Peer]\nPublicKey = {client}\nAllowedIPs = 10.0.0.2/32, 192.168.7.0/24\n"
        );
        let made = convert(&wg_quick::parse(&text).unwrap(), &[]).unwrap();
        let review = Config::review(&made.text, 1);
        assert!(review.errors.is_empty(), "{:?}\n{}", review.errors, made.text);
        let cfg = review.draft.unwrap();
        assert!(
            !cfg.is_client() && cfg.routes == mpdccp_tunnel::config::Routes::None && made.lost.is_empty()
        );
        assert_eq!(cfg.listen.0[0].port, Some(443));
    }

    #[test]
    fn peers_with_the_same_comment_get_different_names() {
        let peer = |n| format!("### client\n[Peer]\nPublicKey = {}\nAllowedIPs = 10.0.0.{n}/32\n", wg(n).1);
        let text =
            format!("[Interface]\nPrivateKey = {}\nAddress = 10.0.0.1/24\n{}{}", wg(1).0, peer(2), peer(3));
        let made = convert(&wg_quick::parse(&text).unwrap(), &[]).unwrap();
        assert_eq!(made.names, ["client", "peer-2"]);
        let errors = Config::review(&made.text, 1).errors;
        assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn an_mtu_that_fits_only_wireguards_headers_is_left_out() {
        let (own, hub) = wg(1);
        for (mtu, kept) in [(1_388, true), (1_420, false)] {
            let text = format!(
                "[Interface]\nPrivateKey = {own}\nAddress = 10.0.0.1/24\nMTU = {mtu}\n[Peer]\nPublicKey = {hub}\nAllowedIPs = 10.0.0.2/32\n"
            );
            let made = convert(&wg_quick::parse(&text).unwrap(), &[]).unwrap();
            let lost = made.lost.iter().any(|lost| lost.starts_with("MTU = 1420"));
            assert_eq!((made.text.contains("mtu = "), lost), (kept, !kept), "{}", made.text);
        }
    }

    #[test]
    fn settings_that_cannot_be_converted_are_listed() {
        let (own, hub) = wg(1);
        let peer = format!("[Peer]\nPublicKey = {hub}\nAllowedIPs = 10.0.0.1/32\n");
        for (interface, peer, words) in [
            ("Address = 10.0.0.2/24".into(), peer.clone(), "no PrivateKey"),
            (format!("PrivateKey = {own}"), peer.clone(), "no Address"),
            (format!("PrivateKey = {own}\nAddress = ten"), peer.clone(), "`ten` is not an address"),
            (format!("PrivateKey = {own}\nAddress = 10.0.0.2/24\nMTU = 100"), peer.clone(), "576 to 9000"),
            ("PrivateKey = short\nAddress = 10.0.0.2/24".into(), peer.clone(), "PrivateKey"),
            (format!("PrivateKey = {own}\nAddress = 10.0.0.2/24"), "[Peer]\n".into(), "no PublicKey"),
            (
                format!("PrivateKey = {own}\nAddress = 10.0.0.2/24"),
                format!("{peer}Endpoint = a b\n"),
                "Endpoint",
            ),
        ] {
            let text = format!("[Interface]\n{interface}\n{peer}");
            let why = convert(&wg_quick::parse(&text).unwrap(), &lines()).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
