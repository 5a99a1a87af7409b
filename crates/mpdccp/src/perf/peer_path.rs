//! Parses the value of `--path`: `LOCAL[@REMOTE][,PRIO]`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Resolves an address or a host name with an optional port. Returns at least one address, and only addresses
/// accepted by `fits`.
pub(crate) fn addresses(
    text: &str,
    default_port: u16,
    fits: impl Fn(IpAddr) -> bool,
) -> Result<Vec<SocketAddr>, String> {
    let literal = text.parse().ok().map(|ip| SocketAddr::new(ip, default_port));
    if let Some(addr) = text.parse().ok().or(literal) {
        return Ok(vec![addr]);
    }
    let bare = |host: &str| !host.contains(':') || host.ends_with(']');
    let (host, port) = match text.rsplit_once(':').filter(|(host, _)| bare(host)) {
        Some((host, port)) => {
            (host, port.parse().map_err(|_| "expected a host or an IP address, with or without a port")?)
        }
        // The text has no port: its colons belong to an IPv6 address, such as fe80::1%eth0.
        None if !text.contains(':') || is_ipv6(text) => (text, default_port),
        // Both `-c` and `-p` may have named a port.
        None => return Err("expected a host or an IP address, with at most one port".into()),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = (host, port).to_socket_addrs().map_err(|e| format!("cannot look up host `{host}`: {e}"))?;
    let found: Vec<SocketAddr> = found.filter(|addr| fits(addr.ip())).collect();
    if found.is_empty() {
        return Err(format!("`{host}` has no address of the paths' IP version"));
    }
    Ok(found)
}

fn is_ipv6(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inside.unwrap_or(text).split('%').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok())
}

/// One path of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathArg {
    /// Address on this host to send from.
    pub(crate) local: IpAddr,
    /// Address of the peer for this path; defaults to the address given with `-c`.
    pub(crate) remote: Option<IpAddr>,
    /// Priority of the path (RFC 9897 section 3.2.10); 3 by default.
    pub(crate) prio: u8,
}

impl FromStr for PathArg {
    type Err = String;
    fn from_str(text: &str) -> Result<PathArg, String> {
        let (addresses, prio) = text.split_once(',').unwrap_or((text, "3"));
        let (local, remote) = match addresses.split_once('@') {
            Some((local, remote)) => (local, Some(remote)),
            None => (addresses, None),
        };
        let ip = |text: &str| {
            text.parse::<IpAddr>()
                .map_err(|_| format!("invalid IP address `{text}`, expected LOCAL[@REMOTE][,PRIO]"))
        };
        let prio = prio.parse().ok().filter(|prio| *prio <= 15);
        Ok(PathArg {
            local: ip(local)?,
            remote: remote.map(ip).transpose()?,
            prio: prio.ok_or("invalid priority; expected 0 to 15")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_paths() {
        let path = |local: &str, remote: Option<&str>, prio| PathArg {
            local: local.parse().unwrap(),
            remote: remote.map(|ip| ip.parse().unwrap()),
            prio,
        };
        assert_eq!("10.0.0.1".parse(), Ok(path("10.0.0.1", None, 3)));
        assert_eq!("10.0.0.1,15".parse(), Ok(path("10.0.0.1", None, 15)));
        assert_eq!("fd00::1@fd00::2,0".parse(), Ok(path("fd00::1", Some("fd00::2"), 0)));
        for wrong in ["", "10.0.0", "10.0.0.1,16", "10.0.0.1,", "10.0.0.1@,3", "10.0.0.1:80"] {
            assert!(wrong.parse::<PathArg>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ports_may_be_left_out() {
        let any = |_| true;
        let address = |text: &str| addresses(text, 7, any).map(|all| all[0]);
        assert_eq!(address("10.0.0.1"), Ok(([10, 0, 0, 1], 7).into()));
        assert_eq!(address("10.0.0.1:8"), Ok(([10, 0, 0, 1], 8).into()));
        assert_eq!(address("::1").ok(), "[::1]:7".parse().ok());
        assert_eq!(addresses("localhost:9", 7, |ip| ip.is_ipv4()), Ok(vec![([127, 0, 0, 1], 9).into()]));
        assert!(address("localhost:http").is_err());
        for text in ["localhost:7:8", "10.0.0.1:7:8", "[::1]:7:8"] {
            assert!(address(text).unwrap_err().ends_with("at most one port"), "{text}");
        }
        // The interface of a link-local address can be given by name or by number.
        let link: SocketAddr = "[fe80::1%1]:7".parse().unwrap();
        for text in ["fe80::1%lo", "[fe80::1%lo]", "[fe80::1%lo]:7", "[fe80::1%1]:7"] {
            assert_eq!(address(text), Ok(link), "{text}");
        }
    }
}
