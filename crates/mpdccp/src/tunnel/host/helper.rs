//! The connection between the tunnel and its helper process, which keeps the privileges that the tunnel drops
//! after it has started. [`helper_process`](super::helper_process) implements the helper.

use crate::error::Error;
use crate::tunnel::face::{control, events};
use crate::tunnel::host::routes::RouteChange;
use ipnet::IpNet;
use mpdccp_tunnel::config::Config;
use mpdccp_tunnel::{Hook, Keys, StateFile};
use rustix::cmsg_space;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use zeroize::Zeroizing;

/// Size limit of a message, in bytes. A message may contain a file of the state directory.
const LONGEST: usize = 64 << 20;

/// Requests to the helper process. The helper has read the configuration itself, so a request carries only
/// data that is not in the configuration.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Remove what an earlier tunnel has left behind, and prepare for requests.
    Start,
    /// The control socket has been created. Remove it at the end.
    Bound,
    /// Change a route into the interface.
    Route(RouteChange, IpNet),
    /// Change the interface's addresses.
    Addresses { remove: Vec<IpNet>, add: Vec<IpNet> },
    /// Change the interface's MTU.
    Mtu(u16),
    /// Add the policy routing of `default_route`.
    DefaultRoute,
    /// Set the mark and buffer sizes of the socket that accompanies the request.
    Socket,
    /// Set this host's name servers. An empty list restores the previous ones.
    Dns(Vec<IpAddr>),
    /// Run the hook program of the configuration.
    Hook(Hook),
    /// Write a file of the state directory.
    Save(StateFile, String),
    /// Reread the configuration and its keys.
    Reload,
    /// Undo all changes and exit, because the tunnel is shutting down. If `block` is set, the kill switch
    /// keeps blocking. `clean` says whether the tunnel has run and has reset all connections.
    End { block: bool, clean: bool },
}

/// The result of a request.
pub(super) type Done = Result<Option<Reloaded>, String>;

/// The current configuration.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reloaded {
    pub(crate) text: Zeroizing<String>,
    /// This end's private key in base64.
    pub(crate) own: Option<Zeroizing<String>>,
    pub(crate) peers: Vec<Option<(String, Zeroizing<String>)>>,
}

impl Reloaded {
    fn parse(&self, file: &Path) -> Result<(Config, Keys), String> {
        let cfg = control::parse(&self.text).result(file).map_err(|e| e.to_string())?;
        let own = self.own.as_ref().map(|key| key.parse()).transpose();
        let peers = self.peers.iter().map(|keys| {
            keys.as_ref().map(|(key, preshared)| Ok((key.parse()?, preshared.parse()?))).transpose()
        });
        let keys = own.and_then(|own| Ok(Keys { own, peers: peers.collect::<Result<_, _>>()? }));
        Ok((cfg, keys.map_err(|e| e.to_string())?))
    }
}

/// The connection to the helper process. Threads that send requests take turns.
#[derive(Clone)]
pub(crate) struct Helper {
    stream: Arc<Mutex<UnixStream>>,
    file: Arc<Path>,
    /// Held during a reload.
    reloads: Arc<Mutex<()>>,
}

impl Helper {
    fn ask(&self, request: &Request, socket: Option<BorrowedFd<'_>>) -> Done {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let talk = || -> io::Result<Done> {
            send(&stream, &serde_json::to_vec(request)?, socket)?;
            Ok(serde_json::from_slice(&receive(&stream)?.0)?)
        };
        talk().unwrap_or_else(|e| Err(format!("the helper process does not answer: {e}")))
    }

    /// Sends a request to the helper and waits for the result.
    pub(crate) fn tell(&self, request: &Request) -> Result<(), String> {
        self.ask(request, None).map(drop)
    }

    /// Makes the helper call [`dccp_net::grant_socket`] on a socket.
    pub(crate) fn grant(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.ask(&Request::Socket, Some(socket)).map(drop).map_err(io::Error::other)
    }

    /// Reads the current configuration and its keys, and passes them to `apply`. Another reload waits until
    /// `apply` has returned. Otherwise, the older configuration could be applied last, on all shards or on
    /// some.
    pub(crate) fn reload<T>(&self, apply: impl FnOnce(Config, Keys) -> T) -> Result<T, String> {
        let _turn = self.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        let reloaded = self.ask(&Request::Reload, None)?.ok_or("the helper process has no configuration")?;
        let (cfg, keys) = reloaded.parse(&self.file)?;
        Ok(apply(cfg, keys))
    }
}

/// The helper process. Dropping this value waits until the helper has undone its changes and exited.
pub(crate) struct Process {
    pub(crate) helper: Helper,
    child: Child,
    /// The helper's output, which is its log, and the thread that reads it.
    said: Option<ChildStdout>,
    reader: Option<JoinHandle<()>>,
    /// Whether the helper has been asked to end.
    ending: Arc<AtomicBool>,
    /// Whether a kill switch keeps blocking after this tunnel has ended.
    pub(crate) block: bool,
    /// Whether the tunnel has run and has reset all connections that it carried as streams.
    pub(crate) clean: bool,
}

impl Process {
    /// Starts the helper for the tunnel with this configuration file.
    pub(crate) fn start(file: &Path, verbose: bool) -> Result<Process, Error> {
        let (ours, its) = UnixStream::pair()?;
        // Start the same program again, even if its file has been replaced since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("mpdccp").args(["tunnel", "helper"]).arg(file).args(verbose.then_some("--verbose"));
        command.stdin(OwnedFd::from(its)).stdout(Stdio::piped());
        // Put the helper into its own process group, so that Ctrl-C reaches only the tunnel, which then ends
        // the helper.
        let child = command.process_group(0).spawn();
        let mut child = child.map_err(|e| Error::runtime(format!("cannot start the helper process: {e}")))?;
        let stream = Arc::new(Mutex::new(ours));
        let helper = Helper { stream, file: file.into(), reloads: Arc::default() };
        let said = child.stdout.take();
        let (ending, block, clean) = (Arc::default(), false, false);
        let process = Process { helper, child, said, reader: None, ending, block, clean };
        process.helper.tell(&Request::Start).map_err(Error::usage)?;
        Ok(process)
    }

    /// Logs the helper's output from now on. Calls `gone` if the helper dies.
    pub(crate) fn watch(&mut self, gone: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (said, ending) = (self.said.take(), self.ending.clone());
        let read = move || {
            said.into_iter().for_each(relay);
            if !ending.load(Ordering::Relaxed) {
                gone();
            }
        };
        self.reader = Some(std::thread::Builder::new().name("helper".into()).spawn(read)?);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if !std::thread::panicking() {
            // Ignore the error: the helper may already have ended.
            let _ = self.helper.tell(&Request::End { block: self.block, clean: self.clean });
        }
        let _ = self.helper.stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
        self.said.take().into_iter().for_each(relay);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let _ = self.child.wait();
    }
}

/// Logs all lines of the helper until it ends.
fn relay(said: ChildStdout) {
    BufReader::new(said).lines().map_while(Result::ok).for_each(|line| events::relay(&line));
}

/// Sends a message, preceded by its length, along with a descriptor if one is given.
pub(super) fn send(
    mut stream: &UnixStream,
    message: &[u8],
    socket: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?.to_ne_bytes();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if socket.is_some() {
        control.push(SendAncillaryMessage::ScmRights(socket.as_slice()));
    }
    let sent = sendmsg(stream, &[IoSlice::new(&length)], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(&length[sent..])?;
    stream.write_all(message)
}

/// Receives a message and the descriptor that accompanies it, if any.
///
/// # Errors
///
/// `UnexpectedEof` if the other end has closed the connection.
pub(super) fn receive(mut stream: &UnixStream) -> io::Result<(Zeroizing<Vec<u8>>, Option<OwnedFd>)> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::WAITALL | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut length)], &mut control, flags)?.bytes;
    let sockets = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    let socket = sockets.flatten().next();
    stream.read_exact(&mut length[got..])?;
    let length = u32::from_ne_bytes(length) as usize;
    if got == 0 || length > LONGEST {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut message = Zeroizing::new(vec![0; length]);
    stream.read_exact(&mut message)?;
    Ok((message, socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_ends_before_the_next_one_begins() {
        let text = "role = \"server\"\nlisten = \"192.0.2.1\"\naddresses = [\"10.0.0.1/24\"]\n\
                    security = \"none\"\n[[peer]]\nname = \"c\"\nfrom = \"any\"\nallowed_ips = [\"10.0.0.2/32\"]\n";
        let (ours, its) = UnixStream::pair().unwrap();
        let stream = Arc::new(Mutex::new(ours));
        let helper = Helper { stream, file: Path::new("x.toml").into(), reloads: Arc::default() };
        let process = std::thread::spawn(move || {
            receive(&its).unwrap();
            let done: Done =
                Ok(Some(Reloaded { text: text.to_owned().into(), own: None, peers: vec![None] }));
            send(&its, &serde_json::to_vec(&done).unwrap(), None).unwrap();
        });
        let other = helper.clone();
        assert_eq!(helper.reload(|_, _| other.reloads.try_lock().is_err()), Ok(true), "another must wait");
        assert!(helper.reloads.try_lock().is_ok());
        process.join().unwrap();
    }
}
