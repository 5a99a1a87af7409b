//! Converts keyword arguments to options.

use dccp_sockets::{
    Encapsulation, Named, Options, PresharedKey, PublicKey, ReorderKind, SchedulerKind, SendPolicy,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyString};
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// A path of a multipath connection. Instead of a Path, a string may be given: a local address or an
/// interface name.
#[pyclass(module = "mpdccp", frozen, get_all, from_py_object)]
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Local address.
    local: Option<String>,
    /// Network interface through which packets are sent.
    interface: Option<String>,
    /// Address and port of the peer.
    remote: Option<(String, u16)>,
    /// Priority: 0 never, 1 standby, 2 overflow, 3 to 15 primary.
    priority: u8,
}

#[pymethods]
impl Path {
    #[new]
    #[pyo3(signature = (local=None, interface=None, remote=None, priority=3))]
    fn new(
        local: Option<String>,
        interface: Option<String>,
        remote: Option<(String, u16)>,
        priority: u8,
    ) -> PyResult<Path> {
        if local.is_none() && interface.is_none() {
            return Err(PyValueError::new_err("a path needs a local address or an interface"));
        }
        Ok(Path { local, interface, remote, priority: self::priority(priority)? })
    }

    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        crate::observe::described(this)
    }
}

/// Checks the priority of a path.
pub(crate) fn priority(number: u8) -> PyResult<u8> {
    if number > 15 {
        return Err(PyValueError::new_err(format!("invalid priority {number}; expected 0 to 15")));
    }
    Ok(number)
}

/// A path in one of the types that Python code may pass.
#[derive(FromPyObject)]
pub(crate) enum PathLike {
    Path(Path),
    Name(String),
}

impl PathLike {
    pub(crate) fn path(self) -> PyResult<dccp_sockets::Path> {
        let given = match self {
            PathLike::Path(path) => path,
            PathLike::Name(name) => {
                return Ok(match name.parse::<IpAddr>() {
                    Ok(local) => dccp_sockets::Path::from(local),
                    Err(_) => dccp_sockets::Path::on(&name),
                });
            }
        };
        let path = match (&given.local, &given.interface) {
            (Some(local), None) => dccp_sockets::Path::from(parse(local, "local address")?),
            (Some(local), Some(name)) => {
                dccp_sockets::Path::from(parse(local, "local address")?).interface(name)
            }
            (None, name) => dccp_sockets::Path::on(name.as_deref().unwrap_or_default()),
        };
        let path = match &given.remote {
            Some((host, port)) => path.to(SocketAddr::new(parse(host, "remote address")?, *port)),
            None => path,
        };
        Ok(path.priority(given.priority))
    }
}

fn parse<T: FromStr<Err: Display>>(text: &str, what: &str) -> PyResult<T> {
    text.parse().map_err(|e| PyValueError::new_err(format!("{what} {text:?}: {e}")))
}

/// Parses a secret. The error does not contain the text.
fn secret<T: FromStr<Err: Display>>(text: &str, what: &str) -> PyResult<T> {
    text.parse().map_err(|e| PyValueError::new_err(format!("{what}: {e}")))
}

/// Parses the public key of a peer.
pub(crate) fn public_key(text: &str) -> PyResult<PublicKey> {
    parse(text, "public key")
}

/// Parses a preshared key. `None` gives the key that means "no preshared key".
pub(crate) fn preshared_key(text: Option<&str>) -> PyResult<PresharedKey> {
    text.map_or_else(|| Ok(PresharedKey::default()), |text| secret(text, "preshared key"))
}

/// A peer, passed by Python code as its public key, or as a pair of public key and preshared key.
#[derive(FromPyObject)]
enum Peer {
    Key(String),
    Both(String, Option<String>),
}

/// An address, passed by Python code as "host:port", or as a pair as for Python's own sockets.
#[derive(FromPyObject)]
pub(crate) enum Address {
    Text(String),
    Pair(String, u16),
}

impl Address {
    /// Resolves the name. Other Python threads run in the meantime, because this may take a while.
    pub(crate) fn resolve(self, py: Python<'_>) -> PyResult<Vec<SocketAddr>> {
        let (shown, found) = py.detach(|| match self {
            Address::Text(text) => (text.clone(), text.to_socket_addrs().map(|a| a.collect())),
            Address::Pair(host, port) => {
                (format!("{host}:{port}"), (host.as_str(), port).to_socket_addrs().map(|a| a.collect()))
            }
        });
        found.map_err(|e| {
            // The text does not have the form of an address.
            if e.kind() == ErrorKind::InvalidInput {
                return PyValueError::new_err(format!(
                    "address {shown:?}: expected HOST:PORT, such as example.org:6511 or [::1]:6511"
                ));
            }
            let error = dccp_sockets::ConnectError::from(e);
            crate::error::os(error.errno(), format!("address {shown}: {error}"))
        })
    }
}

/// Converts keyword arguments to options.
pub(crate) fn options(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let ccid = given
        .and_then(|given| given.get_item("ccid").transpose())
        .transpose()?
        .filter(|ccid| !ccid.is_none());
    let mut options = match ccid {
        Some(ccid) => Options::ccid(ccid.extract().map_err(|e| of_option(&ccid, "ccid", e))?),
        None => Options::default(),
    };
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        if value.is_none() {
            continue;
        }
        options = option(options, &name, &value).map_err(|e| of_option(&value, &name, e))?;
    }
    Ok(options)
}

/// Adds the name of the option to an error about its value. If the value is out of range for its type, the
/// error becomes a `ValueError`.
fn of_option(value: &Bound<'_, PyAny>, name: &str, error: PyErr) -> PyErr {
    let py = value.py();
    let text = format!("option {name}: {}", error.value(py));
    if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(text)
    } else if error.is_instance_of::<PyOverflowError>(py) {
        let value = value.repr().map_or_else(|_| String::new(), |value| value.to_string());
        PyValueError::new_err(format!("option {name}: {value} is out of range"))
    } else if error.is_instance_of::<PyValueError>(py) {
        PyValueError::new_err(text)
    } else {
        error
    }
}

/// Iterates over a list. A string is an error, because Python would iterate over its characters.
fn members<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    match value.is_instance_of::<PyString>() {
        true => Err(PyTypeError::new_err("expected a list of strings, not a string")),
        false => value.try_iter(),
    }
}

fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = value.extract()?;
    Duration::try_from_secs_f64(seconds).map_err(|e| PyValueError::new_err(format!("{seconds} seconds: {e}")))
}

fn option(options: Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Options> {
    let unknown = |e: String| PyValueError::new_err(e);
    Ok(match name {
        "ccid" => options,
        "service" => {
            let services: Vec<String> = match value.extract::<String>() {
                Ok(one) => vec![one],
                Err(_) => value.extract()?,
            };
            let mut services = services.into_iter();
            let first = services.next().unwrap_or_default();
            services.fold(options.service(&first), |options, also| options.also_service(&also))
        }
        "paths" => {
            let mut options = options;
            for path in members(value)? {
                options = options.path(path?.extract::<PathLike>()?.path()?);
            }
            options
        }
        "peers" => {
            let mut options = options;
            for peer in members(value)? {
                let (public, preshared) = match peer?.extract()? {
                    Peer::Key(public) => (public, None),
                    Peer::Both(public, preshared) => (public, preshared),
                };
                options = options.peer_with(public_key(&public)?, preshared_key(preshared.as_deref())?);
            }
            options
        }
        "any_peer" => options.any_peer(value.extract()?),
        "dscp" => options.dscp(value.extract()?),
        "tell_rate" => options.tell_rate(value.extract()?),
        "private_key" => options.key(secret(&value.extract::<String>()?, "private key")?),
        "streams" => options.streams(value.extract()?),
        "multipath" => options.multipath(value.extract()?),
        "raw" if value.extract()? => options.encapsulation(Encapsulation::Raw),
        "raw" => options,
        "interface" => options.interface(&value.extract::<String>()?),
        "mark" => options.mark(value.extract()?),
        "scheduler" => options.scheduler(SchedulerKind::named(&value.extract::<String>()?).map_err(unknown)?),
        "reordering" => {
            options.reordering(ReorderKind::named(&value.extract::<String>()?).map_err(unknown)?.into())
        }
        "queue" => options.queue(value.extract()?),
        "queue_time" => options.queue_time(seconds(value)?),
        "send_policy" => options.send_policy(match value.extract::<String>()?.as_str() {
            "wait" => SendPolicy::Wait,
            "drop_oldest" => SendPolicy::DropOldest,
            "drop_newest" => SendPolicy::DropNewest,
            "priority" => SendPolicy::Priority,
            other => {
                return Err(PyValueError::new_err(format!(
                    "unknown send policy {other:?}, expected one of: wait, drop_oldest, drop_newest, priority"
                )));
            }
        }),
        "receive_queue" => options.receive_queue(value.extract()?),
        "receive_memory" => options.receive_memory(value.extract()?),
        "backlog" => options.backlog(value.extract()?),
        "max_connections" => options.max_connections(value.extract()?),
        "max_connections_per_source" => options.max_connections_per_source(value.extract()?),
        "mtu" => options.mtu(value.extract()?),
        "mtu_probing" => options.mtu_probing(value.extract()?),
        "connect_timeout" => options.connect_timeout(seconds(value)?),
        "keepalive" => options.keepalive(seconds(value)?),
        "survive" => options.survive(seconds(value)?),
        "early_data" => options.early_data(&value.extract::<Vec<u8>>()?),
        "take_early_data" => options.take_early_data(value.extract()?),
        "source_ports" => {
            let (udp, dccp) = value.extract()?;
            options.source_ports(udp, dccp)
        }
        "dccp_port" => options.dccp_port(value.extract()?),
        "qlog" => options.qlog(value.extract::<std::path::PathBuf>()?),
        _ => return Err(PyTypeError::new_err("unknown option")),
    })
}
