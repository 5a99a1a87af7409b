//! The Python classes for the state and the events of a connection.

use pyo3::prelude::*;

/// Returns the type and the attributes of an object in the form that `repr` shows.
pub(crate) fn described(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let mut attributes = Vec::new();
    for name in object.dir()? {
        let name: String = name.extract()?;
        if !name.starts_with('_') {
            attributes.push(format!("{name}={}", object.getattr(&*name)?.repr()?));
        }
    }
    Ok(format!("{}({})", object.get_type().name()?, attributes.join(", ")))
}

/// Counters and state of a connection. Rates are in bits per second, times in seconds.
#[pyclass(module = "mpdccp", frozen, get_all)]
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    /// Number of datagrams that `send` accepted.
    sent: u64,
    /// Total size of the datagrams counted by `sent`, bytes.
    sent_bytes: u64,
    /// How many of `sent` are still waiting in the queue.
    queued: u64,
    /// How many of `sent` were dropped because no path could carry their size any more, because the peer's
    /// application no longer listens, or because the connection failed.
    dropped: u64,
    /// How many of `sent` were dropped because the queue was full (option `send_policy`).
    displaced: u64,
    /// How many of `sent` were dropped because they waited too long (`expires`, option `queue_time`).
    expired: u64,
    /// Data packets that congestion control considers lost. With several paths, some may have been
    /// retransmitted. CCID 3 and 4 count loss events: all losses within a round-trip time are one event.
    lost: u64,
    /// Number of datagrams that arrived.
    received: u64,
    /// Total size of the datagrams counted by `received`, bytes.
    received_bytes: u64,
    /// How many of `received` were dropped because the program did not fetch them (option `receive_queue`).
    unread: u64,
    /// Measured rate of all paths together, bit/s. None while `app_limited`, because the capacity is then
    /// unknown.
    rate: Option<u64>,
    /// Rate that congestion control currently allows, bit/s.
    allowed: u64,
    /// Whether the program is sending less than congestion control allows.
    app_limited: bool,
    /// Age of the oldest datagram in the queue, seconds; None while the queue is empty.
    oldest: Option<f64>,
    /// The paths.
    paths: Vec<PathStats>,
}

#[pymethods]
impl Stats {
    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        described(this)
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

/// A path of a connection.
#[pyclass(module = "mpdccp", frozen, get_all)]
#[derive(Clone, Debug)]
pub(crate) struct PathStats {
    /// Number of the path, for `remove_path` and `set_priority`.
    id: u32,
    /// Current address of the peer: (host, port).
    peer: (String, u16),
    /// "connecting", "up", "suspect" (silent, or its link is down), "down" or "standby".
    state: &'static str,
    /// CCIDs as a pair, for sent data and for received data; None until they are negotiated.
    ccids: Option<(u8, u8)>,
    /// Smoothed round-trip time, seconds.
    rtt: Option<f64>,
    /// Congestion window, bytes.
    window: u64,
    /// Largest IP packet that the path is known to carry, bytes.
    path_mtu: u16,
    /// Measured rate, bit/s; None while the program sends less on this path than congestion control allows.
    rate: Option<u64>,
    /// Rate that congestion control allows on this path now, bit/s.
    allowed: u64,
    /// Number of data packets sent.
    sent: u64,
    /// Data packets that congestion control considers lost. For CCID 3 and 4 see Stats.lost.
    lost: u64,
}

#[pymethods]
impl PathStats {
    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        described(this)
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
            path_mtu: p.path_mtu,
            rate: p.rate.map(|rate| rate.bps()),
            allowed: p.allowed.bps(),
            sent: p.sent,
            lost: p.lost,
        }
    }
}

/// An event of a connection. `kind` is "path_up", "path_suspect", "path_down", "size", "rate", "path_strays"
/// (packets leave through the interface of the path `other`, not through the one that has their source
/// address) or "closed".
#[pyclass(module = "mpdccp", frozen, get_all)]
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// One of the kinds above, or "other" for a kind introduced in a later version.
    kind: &'static str,
    /// Number of the path, for the kinds "path_...".
    path: Option<u32>,
    /// The new `max_datagram`, bytes, for "size".
    size: Option<usize>,
    /// For "path_down" and "closed": why the path or the connection ended.
    reason: Option<&'static str>,
    /// For "rate" (option `tell_rate`): the rate that congestion control currently allows, bit/s.
    rate: Option<u64>,
    /// For "path_strays": the number of the path whose interface the packets use.
    other: Option<u32>,
}

#[pymethods]
impl Event {
    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        described(this)
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
