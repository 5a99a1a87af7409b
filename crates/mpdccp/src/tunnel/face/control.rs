//! The control socket. Each request and each answer is one line of JSON. A separate thread serves the socket
//! and passes the requests to the data thread.

use crate::error::{Error, remedy};
use crate::tunnel::face::events::Event;
use crate::tunnel::host::keys;
use mpdccp_tunnel::config::{Config, PathSpec, Review};
use mpdccp_tunnel::status::Status;
use rustix::fs::{Access, FlockOperation, Mode, access, flock};
use rustix::process::{Uid, geteuid, umask};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zeroize::Zeroizing;

/// A request to a running tunnel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub(crate) enum Request {
    Status {
        /// The name of the peer to report; if missing, all peers are reported.
        #[serde(default)]
        peer: Option<String>,
    },
    /// Return the events that follow the event with this number.
    Events {
        after: u64,
    },
    /// Reload the configuration file.
    Reload,
    /// Accept no new clients, and ask connected clients to leave.
    Drain,
    Down,
    PathAdd {
        peer: Option<String>,
        path: NewPath,
    },
    PathDel {
        peer: Option<String>,
        name: String,
    },
    PathPrio {
        peer: Option<String>,
        name: String,
        priority: u8,
    },
}

/// A path from the command line. The tunnel checks it in the same way as a configured path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NewPath {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) local: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interface: Option<String>,
    pub(crate) remote: String,
    pub(crate) priority: u8,
}

impl NewPath {
    /// Converts the path into a configured path.
    pub(crate) fn spec(&self) -> Result<PathSpec, String> {
        let table = toml::Table::try_from(self).map_err(|e| e.to_string())?;
        table.try_into().map_err(|e: toml::de::Error| e.message().to_string())
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Ok,
    Status(Box<Status>),
    Events(Vec<Event>),
    /// The number of clients that are still connected.
    Clients(usize),
    /// A description of the changes.
    Done(String),
    Error(String),
}

/// Size limit of a request line, in bytes.
const MAX_REQUEST: u64 = 65_536;
/// Time limit for a request and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
const DIRECTORY: &str = "/run/mpdccp";

/// Returns the directories for control sockets: the system's directory, and the user's directory, which is
/// used if /run is not writable.
fn directories() -> [PathBuf; 2] {
    let mine = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => PathBuf::from(directory).join("mpdccp"),
        None => std::env::temp_dir().join(format!("mpdccp-{}", geteuid().as_raw())),
    };
    [DIRECTORY.into(), mine]
}

/// Reads and checks a configuration file.
///
/// # Errors
/// The error names the file, the line, the key and the allowed values.
pub(crate) fn load(file: &Path) -> Result<Config, Error> {
    parse(&read(file)?).result(file).map_err(|e| Error::usage(e.to_string()))
}

/// Reads and checks a configuration file and its keys before a tunnel starts. Also returns the file's text.
/// The errors are those of [`load`].
pub(crate) fn load_with_keys(file: &Path) -> Result<(Config, Zeroizing<String>), Error> {
    let text = read(file)?;
    let review = check_text(file, &text)?;
    for warning in &review.warnings {
        tracing::warn!("{}: {warning}", file.display());
    }
    let cfg = review.result(file).map_err(|e| Error::usage(e.to_string()))?;
    Ok((cfg, text))
}

/// Returns all errors and warnings about a configuration file and its keys.
pub(crate) fn check(file: &Path) -> Result<Review, Error> {
    check_text(file, &read(file)?)
}

fn check_text(file: &Path, text: &str) -> Result<Review, Error> {
    let mut review = parse(text);
    let Some(cfg) = &review.draft else { return Ok(review) };
    let wrong = keys::check(cfg).into_iter().chain(check_hook(cfg)).collect::<Vec<_>>();
    let peers = || cfg.peers.iter().map(|peer| peer.get_ref());
    let keys = cfg.private_key.is_some() || peers().any(|peer| peer.preshared_key.is_some());
    let mut paths = peers().flat_map(|peer| &peer.paths);
    let passwords =
        paths.any(|path| path.get_ref().proxy.as_ref().is_some_and(|proxy| proxy.login.is_some()));
    let mode = std::fs::metadata(file)?.mode();
    for (present, secrets) in [(keys, "keys"), (passwords, "passwords")] {
        if present && mode & 0o077 != 0 {
            let (mode, shown) = (mode & 0o777, file.display());
            let what = format!(
                "other users can read the {secrets} in this file (mode {mode:03o}); run: chmod 600 {shown}"
            );
            review.warn("private_key", what);
        }
    }
    for (at, message) in wrong {
        review.add(&at, message);
    }
    Ok(review)
}

/// Checks that the hook exists and is executable.
fn check_hook(cfg: &Config) -> Option<(String, String)> {
    let hook = cfg.hook.as_ref().filter(|hook| hook.is_absolute())?;
    let runs = hook.is_file() && access(hook, Access::EXEC_OK).is_ok();
    let shown = hook.display();
    let what = format!(
        "hook: {shown} is not an executable program; check that the file exists and is executable (chmod +x)"
    );
    (!runs).then(|| ("hook".into(), what))
}

fn read(file: &Path) -> Result<Zeroizing<String>, Error> {
    let cannot = |e: std::io::Error| {
        let what = format!("cannot read configuration {}: {e}{}", file.display(), remedy(&e, file));
        Error::usage(what)
    };
    std::fs::read_to_string(file).map(Zeroizing::new).map_err(cannot)
}

/// Returns all errors and warnings about the text of a configuration file.
pub(crate) fn parse(text: &str) -> Review {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Config::review(text, cores)
}

/// Returns whether `path` is a control socket rather than a configuration file.
pub(crate) fn is_socket(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sock")
        || std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

/// Returns the path of a tunnel's control socket.
pub(crate) fn path(cfg: &Config) -> PathBuf {
    cfg.control.clone().unwrap_or_else(|| default_path(&cfg.interface))
}

/// Returns the default control socket path for an interface.
pub(crate) fn default_path(interface: &str) -> PathBuf {
    let [system, mine] = directories();
    // The directory is private, so other users cannot reach a socket in it, whatever the socket's mode.
    let usable = own_directory(&system).is_ok() && access(&system, Access::WRITE_OK).is_ok();
    if usable { system } else { mine }.join(format!("{interface}.sock"))
}

/// Creates a private directory. If the directory already exists, checks that it belongs to this user and that
/// no other user can write to it.
fn own_directory(path: &Path) -> std::io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    if !is_own(path)? {
        return Err(std::io::Error::other(format!(
            "{} is not a directory of this user, or other users can write to it; remove it",
            path.display()
        )));
    }
    Ok(())
}

/// Returns whether this is a directory of this user to which no other user can write.
fn is_own(path: &Path) -> std::io::Result<bool> {
    let meta = std::fs::symlink_metadata(path)?;
    Ok(meta.is_dir() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o022 == 0)
}

/// Returns an error if another tunnel already serves this control socket.
pub(crate) fn refuse_second(path: &Path) -> Result<(), Error> {
    if UnixStream::connect(path).is_err() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "another mpdccp is running with control socket {}; stop it with `mpdccp tunnel down --config {0}`, \
         or set `control` to another path",
        path.display()
    )))
}

/// A control socket. Its file stays when this value is dropped: the helper process removes it as its last
/// act, so that `tunnel down` and the next start wait until all changes of this host have been undone.
pub(crate) struct ControlSocket {
    listener: UnixListener,
    /// The user who started the tunnel.
    owner: Uid,
}

impl ControlSocket {
    /// Creates the socket. If the file exists but no process is listening on it, it was left behind by a
    /// killed tunnel and is replaced.
    pub(crate) fn bind(path: PathBuf) -> Result<ControlSocket, Error> {
        let fail = |e: std::io::Error| {
            let fix = "set `control` to a short path in a directory of this user";
            Error::usage(format!("cannot create control socket {}: {e}; {fix}", path.display()))
        };
        // Only one tunnel at a time may create its socket. Otherwise, if two tunnels started at the same
        // time, each could take the other's socket for a leftover.
        let mut turn = None;
        if let Some(directory) = path.parent().filter(|d| directories().contains(&d.to_path_buf())) {
            own_directory(directory).map_err(fail)?;
            let opened = File::open(directory).map_err(fail)?;
            flock(&opened, FlockOperation::LockExclusive).map_err(|e| fail(e.into()))?;
            turn = Some(opened);
        }
        refuse_second(&path)?;
        match std::fs::symlink_metadata(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(fail(e)),
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(Error::usage(format!(
                    "control: {} exists and is not a socket; set `control` to another path, or move the file away",
                    path.display()
                )));
            }
            Ok(_) => {}
        }
        // The socket gets its final name only after bind(2) and listen(2), because a program that connected
        // between the two would be refused.
        let new = path.with_extension("new");
        let _ = std::fs::remove_file(&new);
        // Other users must not be able to open the socket, not even for a moment. Changing the umask is safe
        // here, because no other thread is creating files yet.
        let before = umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(&new);
        umask(before);
        let listener = listener.map_err(fail)?;
        std::fs::rename(&new, &path).map_err(fail)?;
        drop(turn);
        Ok(ControlSocket { listener, owner: geteuid() })
    }

    /// Serves requests on a separate thread, which ends with the process.
    pub(crate) fn serve(&self, respond: impl Fn(Request) -> Answer + Send + 'static) -> Result<(), Error> {
        let (listener, owner) = (self.listener.try_clone()?, self.owner);
        std::thread::Builder::new().name("control".into()).spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Without a free descriptor, the connection stays queued, so accept fails again at once.
                    std::thread::sleep(Duration::from_secs(1));
                    continue;
                };
                if let Err(e) = answer(&stream, owner, &respond) {
                    tracing::debug!("control socket: {e}");
                }
            }
        })?;
        Ok(())
    }
}

fn answer(mut stream: &UnixStream, owner: Uid, respond: &impl Fn(Request) -> Answer) -> std::io::Result<()> {
    let who = rustix::net::sockopt::socket_peercred(stream)?.uid;
    if !who.is_root() && who != owner {
        tracing::warn!("control socket: user {} has no permission", who.as_raw());
        return Ok(());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_REQUEST)).read_line(&mut line)?;
    let answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) => respond(request),
        Err(e) => Answer::Error(format!("invalid request: {e}; docs/formats.md lists the requests")),
    };
    stream.write_all((serde_json::to_string(&answer)? + "\n").as_bytes())
}

/// Sends a request to a running tunnel and returns the answer.
pub(crate) fn ask(path: &Path, request: &Request) -> Result<Answer, Error> {
    let none = |e: std::io::Error| {
        let fix = match e.kind() {
            ErrorKind::PermissionDenied => "only root and the tunnel's user have access; use sudo",
            _ => "start a tunnel with `mpdccp tunnel up`",
        };
        // A running tunnel keeps its socket when `interface` or `control` changes in its file.
        let others = match &running()[..] {
            [] => String::new(),
            others => format!(", or choose a running tunnel with --config: {}", list(others)),
        };
        Error::usage(format!("no tunnel answers at {}: {e}; {fix}{others}", path.display()))
    };
    let mut stream = UnixStream::connect(path).map_err(none)?;
    let mut talk = || -> std::io::Result<Answer> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all((serde_json::to_string(request)? + "\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    match talk() {
        Ok(Answer::Error(e)) => Err(Error::usage(e)),
        Ok(answer) => Ok(answer),
        Err(e) if e.kind() == ErrorKind::InvalidData => Err(odd()),
        Err(e) => {
            let why = match e.kind() {
                ErrorKind::WouldBlock => format!("none within {} s", PATIENCE.as_secs()),
                ErrorKind::UnexpectedEof => "it closed the connection".into(),
                _ => e.to_string(),
            };
            let path = path.display();
            Err(Error::runtime(format!("no answer from the tunnel at {path}: {why}; see its log")))
        }
    }
}

/// Returns the status of a running tunnel, with all peers or only one.
pub(crate) fn status(path: &Path, peer: Option<&str>) -> Result<Box<Status>, Error> {
    match ask(path, &Request::Status { peer: peer.map(Into::into) })? {
        Answer::Status(status) => Ok(status),
        _ => Err(odd()),
    }
}

/// Returns the error for an unexpected answer, such as one from a different version of the tunnel.
pub(crate) fn odd() -> Error {
    Error::runtime(
        "unexpected answer from the tunnel; run this command with the version of mpdccp that runs the tunnel",
    )
}

/// Returns the socket of the running tunnel, if there is only one.
pub(crate) fn only_one() -> Result<PathBuf, Error> {
    // Only the owner can list the system's directory of control sockets.
    let hidden = std::fs::read_dir(DIRECTORY).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    match &running()[..] {
        [one] => Ok(one.clone()),
        [] if hidden => Err(Error::usage(format!(
            "no tunnel of this user is running, and only root can read {DIRECTORY}: use sudo, or start a tunnel with \
             `mpdccp tunnel up --config FILE`"
        ))),
        [] => Err(Error::usage("no tunnel is running; start one with `mpdccp tunnel up --config FILE`")),
        several => Err(Error::usage(format!(
            "several tunnels are running; choose one with --config and one of these sockets, or its file: {}",
            list(several)
        ))),
    }
}

fn list(sockets: &[PathBuf]) -> String {
    let named: Vec<String> = sockets.iter().map(|path| path.display().to_string()).collect();
    named.join(", ")
}

/// Returns the sockets of all running tunnels in the usual directories. Skips directories in which another
/// user could have created sockets, because one of the usual directories may be in /tmp.
pub(crate) fn running() -> Vec<PathBuf> {
    sockets_in(&directories())
}

fn sockets_in(directories: &[PathBuf]) -> Vec<PathBuf> {
    directories
        .iter()
        .filter(|directory| is_own(directory).unwrap_or(false))
        .flat_map(std::fs::read_dir)
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .filter(|path| !is_dead(path))
        .collect()
}

/// Returns whether no process is listening on this socket: it does not exist, or a killed tunnel left it
/// behind.
pub(crate) fn is_dead(path: &Path) -> bool {
    let dead = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
    UnixStream::connect(path).is_err_and(|e| dead.contains(&e.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_and_the_socket_are_ones_own() {
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
        let own = directory.path().join("own");
        own_directory(&own).unwrap();
        assert_eq!(mode(&own), 0o700);
        own_directory(&own).unwrap();
        let path = own.join("a.sock");
        let socket = ControlSocket::bind(path.clone()).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(sockets_in(std::slice::from_ref(&own)), std::slice::from_ref(&path));
        drop(socket);
        assert!(path.exists(), "the helper process removes the file");
        // Both a directory that others can write to and a link to a directory are refused.
        let open = directory.path().join("open");
        DirBuilder::new().create(&open).unwrap();
        std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(own_directory(&open).is_err());
        let _other = UnixListener::bind(open.join("b.sock")).unwrap();
        assert!(sockets_in(&[open]).is_empty());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(own_directory(&link).is_err());
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("letter");
        std::fs::write(&path, "dear").unwrap();
        assert!(ControlSocket::bind(path.clone()).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"dear");
    }

    #[test]
    fn the_socket_of_a_killed_tunnel_is_told_from_a_live_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!is_dead(&path));
        // Closing the listener is not enough, because a program started by another test may hold a copy of
        // the descriptor.
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        drop(listener);
        assert!(path.exists() && is_dead(&path));
    }
}
