//! The control socket: one JSON request a line, one JSON answer a line. A plain thread serves it and asks the data thread.

use crate::fault::Fault;
use crate::tunnel::app::TunnelApp;
use crate::tunnel::config::PathSpec;
use crate::tunnel::status::Status;
use dccp_net::Handle;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What one may ask of a running tunnel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub(crate) enum Request {
    Status,
    Down,
    PathAdd { peer: Option<String>, path: NewPath },
    PathDel { peer: Option<String>, name: String },
    PathPrio { peer: Option<String>, name: String, priority: u8 },
    Scheduler { peer: Option<String>, name: String },
}

/// A path as the command line gives it; the tunnel checks it as it checks its configuration.
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
    /// As in a configuration file.
    pub(crate) fn spec(&self) -> Result<PathSpec, String> {
        let table = toml::Table::try_from(self).map_err(|e| e.to_string())?;
        table.try_into().map_err(|e: toml::de::Error| e.message().to_string())
    }
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Ok,
    Status(Box<Status>),
    Error(String),
}

/// Longest request line.
const MAX_REQUEST: u64 = 65_536;
const DIRECTORY: &str = "/run/mpdccp";

/// Where the socket of an interface is, unless the configuration says otherwise.
pub(crate) fn default_path(interface: &str) -> PathBuf {
    let directory = Path::new(DIRECTORY);
    let file = format!("{interface}.sock");
    // Without permission for /run the temporary directory has to do.
    match std::fs::create_dir_all(directory).and_then(|()| std::fs::metadata(directory)) {
        Ok(meta) if !meta.permissions().readonly() && writable(directory) => directory.join(file),
        _ => std::env::temp_dir().join(format!("mpdccp-{file}")),
    }
}

fn writable(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The socket file; removed when dropped.
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Creates it; a file that nobody answers at is a leftover and replaced.
    pub(crate) fn bind(path: PathBuf) -> Result<ControlSocket, Fault> {
        if UnixStream::connect(&path).is_ok() {
            return Err(Fault::usage(format!(
                "another mpdccp is running with control socket {}; stop it with `mpdccp tunnel down --socket {0}`, \
                 or set `control` to another path",
                path.display()
            )));
        }
        let fail =
            |e: std::io::Error| Fault::usage(format!("cannot create control socket {}: {e}", path.display()));
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(fail)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
        Ok(ControlSocket { listener, path })
    }

    /// Serves requests on a thread of its own, which ends with the process.
    pub(crate) fn serve(&self, handle: Handle<TunnelApp>) -> Result<(), Fault> {
        let listener = self.listener.try_clone()?;
        std::thread::Builder::new().name("control".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(e) = answer(&stream, &handle) {
                    tracing::debug!("control socket: {e}");
                }
            }
        })?;
        Ok(())
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(mut stream: &UnixStream, handle: &Handle<TunnelApp>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_REQUEST)).read_line(&mut line)?;
    let answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) => handle
            .call(move |core, app| app.control(core, request))
            .unwrap_or(Answer::Error("the tunnel is ending".into())),
        Err(e) => Answer::Error(format!("not a request: {e}")),
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    stream.write_all(&text)
}

/// Asks a running tunnel.
pub(crate) fn ask(path: &Path, request: &Request) -> Result<Answer, Fault> {
    let none = |e: std::io::Error| {
        Fault::usage(format!(
            "no tunnel answers at {}: {e}; start one with `mpdccp tunnel up`",
            path.display()
        ))
    };
    let mut stream = UnixStream::connect(path).map_err(none)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut text = serde_json::to_vec(request).map_err(std::io::Error::from)?;
    text.push(b'\n');
    stream.write_all(&text)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    match serde_json::from_str(&line) {
        Ok(Answer::Error(e)) => Err(Fault::usage(e)),
        Ok(answer) => Ok(answer),
        Err(_) => Err(Fault::runtime(format!("no answer from the tunnel at {}", path.display()))),
    }
}

/// The socket of the one tunnel that runs here.
pub(crate) fn only_one() -> Result<PathBuf, Fault> {
    let temp = std::env::temp_dir();
    let found: Vec<PathBuf> = [Path::new(DIRECTORY), &temp]
        .iter()
        .flat_map(std::fs::read_dir)
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".sock") && (path.starts_with(DIRECTORY) || name.starts_with("mpdccp-"))
        })
        .filter(|path| !is_leftover(path))
        .collect();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(Fault::usage("no tunnel is running here; start one with `mpdccp tunnel up --config FILE`")),
        _ => Err(Fault::usage("several tunnels are running; say which with --config FILE or --socket PATH")),
    }
}

/// Nobody listens: the tunnel was killed.
fn is_leftover(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_of_a_killed_tunnel_is_told_from_a_live_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!is_leftover(&path));
        drop(listener);
        assert!(path.exists() && is_leftover(&path));
    }
}
