//! `tunnel health` checks a tunnel on behalf of scripts.

use mpdccp_tunnel::status::{PeerStatus, Status};

/// Returns the problems in words, or an empty list if the tunnel is healthy. On a server, a peer
/// without a path is a problem only if `only` names it. The session of such a peer may still wait for it.
pub(crate) fn wrong(status: &Status, only: Option<&str>, all_paths: bool) -> Vec<String> {
    let asked: Vec<&PeerStatus> =
        status.peers.iter().filter(|peer| only.is_none_or(|name| name == peer.name)).collect();
    if let (Some(name), true) = (only, asked.is_empty()) {
        return vec![format!("no peer `{name}`; `mpdccp tunnel status` shows the peers")];
    }
    let away_is_well = |peer: &PeerStatus| status.role == "server" && only.is_none() && peer.paths.is_empty();
    let mut wrong: Vec<String> = status.no_address.iter().map(|why| format!("no address: {why}")).collect();
    for peer in asked.into_iter().filter(|peer| !away_is_well(peer)) {
        let name = &peer.name;
        if peer.state != "open" {
            wrong.push(format!("peer {name}: no session (state: {})", peer.state));
            continue;
        }
        if peer.paths.is_empty() {
            wrong.push(format!("peer {name}: the session has no path"));
        }
        let down: Vec<String> = peer
            .paths
            .iter()
            .filter(|path| !matches!(&*path.state, "up" | "standby"))
            .map(|path| format!("peer {name}: path {} is {}", path.name, path.state))
            .collect();
        if all_paths || down.len() == peer.paths.len() {
            wrong.extend(down);
        }
    }
    wrong
}

/// Formats the problems as JSON.
pub(crate) fn json(wrong: &[String]) -> serde_json::Value {
    serde_json::json!({ "healthy": wrong.is_empty(), "wrong": wrong })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpdccp_tunnel::status::PathReport;

    #[test]
    fn problems_are_listed_by_session_and_path() {
        let path = |name: &str, state: &str| PathReport {
            name: name.into(),
            state: state.into(),
            ..PathReport::default()
        };
        let peer = |state: &str, paths: Vec<PathReport>| PeerStatus {
            state: state.into(),
            paths,
            ..PeerStatus::idle("hub")
        };
        let status = |role: &str, peer: PeerStatus| Status {
            role: role.into(),
            peers: vec![peer],
            ..Status::default()
        };
        let half = || peer("open", vec![path("dsl", "up"), path("lte", "down")]);
        assert_eq!(wrong(&status("client", half()), None, false), [""; 0]);
        assert_eq!(wrong(&status("client", half()), None, true), ["peer hub: path lte is down"]);
        let none = peer("open", vec![path("dsl", "suspect")]);
        assert_eq!(wrong(&status("client", none), None, false), ["peer hub: path dsl is suspect"]);
        assert_eq!(
            wrong(&status("server", peer("open", vec![])), Some("hub"), false),
            ["peer hub: the session has no path"]
        );
        assert_eq!(wrong(&status("server", peer("open", vec![])), None, false), [""; 0]);
        let away = || peer("none", vec![]);
        assert_eq!(wrong(&status("client", away()), None, false), ["peer hub: no session (state: none)"]);
        assert_eq!(wrong(&status("server", away()), None, false), [""; 0]);
        assert_eq!(
            wrong(&status("server", away()), Some("hub"), false),
            ["peer hub: no session (state: none)"]
        );
        let mut bare = status("client", half());
        bare.no_address = Some("exhausted".into());
        assert_eq!(wrong(&bare, None, false), ["no address: exhausted"]);
        assert_eq!(
            wrong(&status("server", away()), Some("hut"), false),
            ["no peer `hut`; `mpdccp tunnel status` shows the peers"]
        );
    }
}
