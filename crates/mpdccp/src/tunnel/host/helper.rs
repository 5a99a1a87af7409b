//! The way to the second process, which does for the tunnel what the tunnel itself may not do once it is up; [`serve`](super::serve) is that process.

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

/// Longest message: files of the state directory are in them.
const LONGEST: usize = 64 << 20;

/// What the process does. It knows the configuration itself, so a request says no more than it has to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Clear what an earlier tunnel left, and get ready.
    Start,
    /// The control socket is there, to be removed in the end.
    Bound,
    /// Change a route into the interface.
    Route(RouteChange, IpNet),
    /// Change the interface's addresses.
    Addresses { remove: Vec<IpNet>, add: Vec<IpNet> },
    /// Change the interface's MTU.
    Mtu(u16),
    /// Send everything through the interface.
    DefaultRoute,
    /// Give the socket that comes along its mark and its buffers.
    Socket,
    /// Have this host ask these name servers; none: those from before.
    Dns(Vec<IpAddr>),
    /// Run the owner's program.
    Hook(Hook),
    /// Write a file of the state directory.
    Save(StateFile, String),
    /// Read the configuration and its keys again.
    Reload,
    /// The tunnel ends in good order.
    End,
}

/// Its answer, or why nothing was done.
pub(super) type Done = Result<Option<Reloaded>, String>;

/// The configuration as it is now.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reloaded {
    pub(crate) text: Zeroizing<String>,
    /// In base64.
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

/// The way to the process. Requests of all threads take turns.
#[derive(Clone)]
pub(crate) struct Helper {
    stream: Arc<Mutex<UnixStream>>,
    file: Arc<Path>,
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

    /// Has it do something.
    pub(crate) fn tell(&self, request: &Request) -> Result<(), String> {
        self.ask(request, None).map(drop)
    }

    /// Has it call [`dccp_net::grant_socket`].
    pub(crate) fn grant(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.ask(&Request::Socket, Some(socket)).map(drop).map_err(io::Error::other)
    }

    /// The configuration file as it is now, and the keys.
    pub(crate) fn reload(&self) -> Result<(Config, Keys), String> {
        self.ask(&Request::Reload, None)?.ok_or("the helper process has no configuration")?.parse(&self.file)
    }
}

/// The process. What it changed is undone when this is dropped, and the process has ended then.
pub(crate) struct Process {
    pub(crate) helper: Helper,
    child: Child,
    /// Its log, and who reads that.
    said: Option<ChildStdout>,
    reader: Option<JoinHandle<()>>,
    /// It is to end.
    ending: Arc<AtomicBool>,
}

impl Process {
    /// Starts it for the tunnel of this configuration file.
    pub(crate) fn start(file: &Path, verbose: bool) -> Result<Process, Error> {
        let (ours, its) = UnixStream::pair()?;
        // This program, also if its file has been replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("mpdccp").args(["tunnel", "helper"]).arg(file).args(verbose.then_some("--verbose"));
        command.stdin(OwnedFd::from(its)).stdout(Stdio::piped());
        // Ctrl-C is for the tunnel, which ends in order.
        let child = command.process_group(0).spawn();
        let mut child = child.map_err(|e| Error::runtime(format!("cannot start the helper process: {e}")))?;
        let helper = Helper { stream: Arc::new(Mutex::new(ours)), file: file.into() };
        let said = child.stdout.take();
        let process = Process { helper, child, said, reader: None, ending: Arc::default() };
        process.helper.tell(&Request::Start).map_err(Error::usage)?;
        Ok(process)
    }

    /// Logs its lines from now on, and calls `gone` if it dies.
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
            // If it is gone already, there is nobody to tell.
            let _ = self.helper.tell(&Request::End);
        }
        let _ = self.helper.stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
        self.said.take().into_iter().for_each(relay);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let _ = self.child.wait();
    }
}

/// Logs all lines of the process, until it ends.
fn relay(said: ChildStdout) {
    BufReader::new(said).lines().map_while(Result::ok).for_each(|line| events::relay(&line));
}

/// Sends a message, its length first, with a descriptor.
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

/// A message, and the descriptor that came with it.
///
/// # Errors
/// `UnexpectedEof` if there is nobody at the other end.
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
