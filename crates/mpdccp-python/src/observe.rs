//! State and events of a connection.

use pyo3::prelude::*;

/// Counters and state of a connection. Rates are bits per second, times are seconds.
#[pyclass(frozen, get_all)]
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    sent: u64,
    sent_bytes: u64,
    queued: u64,
    dropped: u64,
    displaced: u64,
    expired: u64,
    lost: u64,
    received: u64,
    received_bytes: u64,
    unread: u64,
    rate: Option<u64>,
    allowed: u64,
    app_limited: bool,
    oldest: Option<f64>,
    paths: Vec<PathStats>,
}

#[pymethods]
impl Stats {
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

impl From<dccp_sockets::Stats> for Stats {
    fn from(s: dccp_sockets::Stats) -> Stats {
        Stats {
            sent: s.sent,
            sent_bytes: s.sent_bytes,
            queued: s.queued,
            dropped: s.dropped,
            displaced: s.displaced,
            expired: s.expired,
            lost: s.lost,
            received: s.received,
            received_bytes: s.received_bytes,
            unread: s.unread,
            rate: s.rate.map(|rate| rate.bps()),
            allowed: s.allowed.bps(),
            app_limited: s.app_limited,
            oldest: s.oldest.map(|time| time.as_secs_f64()),
            paths: s.paths.into_iter().map(PathStats::from).collect(),
        }
    }
}

/// One path of a connection.
#[pyclass(frozen, get_all)]
#[derive(Clone, Debug)]
pub(crate) struct PathStats {
    id: u32,
    peer: (String, u16),
    state: &'static str,
    ccids: Option<(u8, u8)>,
    rtt: Option<f64>,
    window: u64,
    rate: Option<u64>,
    allowed: u64,
    sent: u64,
    lost: u64,
}

#[pymethods]
impl PathStats {
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

impl From<dccp_sockets::PathStats> for PathStats {
    fn from(p: dccp_sockets::PathStats) -> PathStats {
        PathStats {
            id: p.id.0,
            peer: (p.peer.ip().to_string(), p.peer.port()),
            state: p.state.name(),
            ccids: p.ccids,
            rtt: p.rtt.map(|time| time.as_secs_f64()),
            window: p.window,
            rate: p.rate.map(|rate| rate.bps()),
            allowed: p.allowed.bps(),
            sent: p.sent,
            lost: p.lost,
        }
    }
}

/// An event of a connection: `kind` is "path_up", "path_suspect", "path_down", "size", "rate", "path_strays"
/// (packets leave through the interface of `other` instead of the one with its address) or "closed".
#[pyclass(frozen, get_all)]
#[derive(Clone, Debug)]
pub(crate) struct Event {
    kind: &'static str,
    path: Option<u32>,
    size: Option<usize>,
    reason: Option<&'static str>,
    rate: Option<u64>,
    other: Option<u32>,
}

#[pymethods]
impl Event {
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

impl From<dccp_sockets::Event> for Event {
    fn from(event: dccp_sockets::Event) -> Event {
        use dccp_sockets::Event as E;
        let nothing = Event { kind: "other", path: None, size: None, reason: None, rate: None, other: None };
        match event {
            E::PathUp(path) => Event { kind: "path_up", path: Some(path.0), ..nothing },
            E::PathSuspect(path) => Event { kind: "path_suspect", path: Some(path.0), ..nothing },
            E::PathDown(path, why) => {
                Event { kind: "path_down", path: Some(path.0), reason: Some(why.name()), ..nothing }
            }
            E::Size(bytes) => Event { kind: "size", size: Some(bytes), ..nothing },
            E::Rate(rate) => Event { kind: "rate", rate: Some(rate.bps()), ..nothing },
            E::PathStrays(path, other) => {
                Event { kind: "path_strays", path: Some(path.0), other: Some(other.0), ..nothing }
            }
            E::Closed(why) => Event { kind: "closed", reason: Some(why.name()), ..nothing },
            _ => nothing,
        }
    }
}
