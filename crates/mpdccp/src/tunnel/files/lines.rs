//! Finds the lines of this host: its interfaces with a default route.

use crate::error::Error;
use crate::tunnel::doctor::system::{self, Interface, Route};
use std::collections::BTreeSet;

/// A line: its name, and its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) interface: String,
}

/// The kind of a line, derived from the prefix of its interface name.
const KINDS: [(&str, &str); 6] =
    [("wwan", "lte"), ("wwp", "lte"), ("usb", "lte"), ("ppp", "dsl"), ("wl", "wifi"), ("", "")];

fn name_of(interface: &str, taken: &BTreeSet<String>) -> String {
    let kind = KINDS.iter().find(|(begin, _)| interface.starts_with(begin)).map_or("", |(_, kind)| kind);
    let name = if kind.is_empty() { interface } else { kind };
    if taken.contains(name) { interface.to_owned() } else { name.to_owned() }
}

/// Returns the named lines or, if none is named, all of this host's lines that have a default route.
pub(super) fn find(named: &[String], v4: Option<bool>) -> Result<Vec<Line>, Error> {
    if !named.is_empty() {
        return named.iter().map(|text| parse(text)).collect();
    }
    let here = system::interfaces().map_err(Error::usage)?;
    let routes = match v4 {
        Some(v4) => system::default_routes(v4),
        None => [true, false].into_iter().flat_map(system::default_routes).collect(),
    };
    let lines = among(&routes, &here);
    if lines.is_empty() {
        return Err(Error::usage(
            "no interface with a default route is up; connect this host to the Internet, or name each Internet connection with --line dsl=eth0",
        ));
    }
    Ok(lines)
}

fn among(routes: &[Route], here: &[Interface]) -> Vec<Line> {
    let (mut lines, mut taken, mut seen) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for route in routes {
        let up = here.iter().any(|interface| interface.name == route.device && interface.carrier);
        if up && seen.insert(route.device.clone()) {
            let name = name_of(&route.device, &taken);
            taken.insert(name.clone());
            lines.push(Line { name, interface: route.device.clone() });
        }
    }
    // By default, a peer may have at most eight paths (`max_paths`).
    lines.truncate(8);
    lines
}

fn parse(text: &str) -> Result<Line, Error> {
    match text.split_once('=') {
        Some((name, interface)) if !name.is_empty() && !interface.is_empty() => {
            Ok(Line { name: name.into(), interface: interface.into() })
        }
        _ => Err(Error::usage(format!("--line {text}: expected NAME=INTERFACE, such as dsl=eth0"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_default_routes_lead_through() {
        let route = |device: &str| Route { device: device.into(), gateway: None, metric: 0 };
        let interface =
            |name: &str, carrier| Interface { name: name.into(), carrier, ..Interface::default() };
        let here = [
            interface("eth0", true),
            interface("eth1", false),
            interface("wwan0", true),
            interface("wwan1", true),
            interface("wlp3s0", true),
        ];
        let routes = ["eth0", "eth1", "wwan0", "eth0", "wwan1", "wlp3s0"].map(route);
        let lines: Vec<(String, String)> =
            among(&routes, &here).into_iter().map(|line| (line.name, line.interface)).collect();
        let wanted = [("eth0", "eth0"), ("lte", "wwan0"), ("wwan1", "wwan1"), ("wifi", "wlp3s0")];
        assert_eq!(lines, wanted.map(|(name, interface)| (name.to_owned(), interface.to_owned())));
        assert!(parse("dsl").is_err() && parse("=eth0").is_err());
        assert_eq!(parse("dsl=eth0").unwrap().interface, "eth0");
    }
}
