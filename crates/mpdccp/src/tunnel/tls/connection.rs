//! One TLS connection that carries packets.

use dccp_net::Bind;
use mpdccp_tunnel::tls::{Frames, put_frame};
use rustls::Connection as Tls;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

/// Limit on unsent bytes, both in the kernel's buffer and in this connection's own buffer. When a buffer is
/// full, packets are dropped, as on any link.
pub(super) const UNSENT: usize = 16 << 10;
/// Maximum number of bytes read per turn of the loop.
const BUDGET: usize = 256 << 10;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    Closed,
    /// The other end sent data that is not a packet.
    NotFrames,
    Failed(io::Error),
}

impl From<io::Error> for End {
    fn from(e: io::Error) -> End {
        End::Failed(e)
    }
}

/// Starts a TCP connection from a path's address and interface.
pub(super) fn connect(bind: &Bind, mark: Option<u32>, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if mark.is_some() {
        dccp_net::prepare_socket(&socket, mark)?;
    }
    if let Some(name) = &bind.interface {
        socket.bind_device(Some(name.as_bytes()))?;
    }
    if !bind.addr.ip().is_unspecified() && bind.addr.is_ipv4() == to.is_ipv4() {
        socket.bind(&bind.addr.into())?;
    }
    match socket.connect(&to.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
        Err(e) => return Err(e),
    }
    Ok(TcpStream::from(socket))
}

/// Returns whether a TCP connection has this source address, and is bound to the interface that has this name
/// now. If the interface was removed and created again, the kernel reports no name for the old one.
pub(super) fn is_from(stream: &TcpStream, source: IpAddr, interface: Option<&str>) -> bool {
    let bound = socket2::SockRef::from(stream).device().ok().flatten();
    let from = stream.local_addr().map(|addr| addr.ip().to_canonical());
    bound.as_deref() == interface.map(str::as_bytes) && from.is_ok_and(|from| from == source.to_canonical())
}

/// A client's TCP connection, in each of its states.
pub(super) enum Link {
    Idle,
    Connecting(TcpStream),
    /// The CONNECT request has been sent to the proxy. The bytes are the part of its answer received so far.
    Proxy(TcpStream, Vec<u8>),
    Tls(Box<Connection>),
}

impl Link {
    pub(super) fn stream(&self) -> Option<&TcpStream> {
        match self {
            Link::Idle => None,
            Link::Connecting(stream) | Link::Proxy(stream, _) => Some(stream),
            Link::Tls(connection) => Some(&connection.stream),
        }
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) tls: Tls,
    frames: Frames,
    frame: Vec<u8>,
}

impl Connection {
    /// Creates a connection. `stream` is connected and non-blocking. The connection ends if the other end
    /// leaves sent bytes unacknowledged for `unacknowledged`.
    pub(super) fn new(
        stream: TcpStream,
        tls: impl Into<Tls>,
        unacknowledged: Duration,
    ) -> io::Result<Connection> {
        let socket = socket2::SockRef::from(&stream);
        socket.set_tcp_user_timeout(Some(unacknowledged))?;
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_notsent_lowat(UNSENT as u32)?;
        Ok(Connection { stream, tls: tls.into(), frames: Frames::default(), frame: Vec::new() })
    }

    /// Returns whether the handshake is complete.
    pub(super) fn is_ready(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Returns whether data is waiting for room in the kernel's buffer.
    pub(super) fn is_full(&self) -> bool {
        self.tls.wants_write()
    }

    /// Reads the available bytes, up to [`BUDGET`], and continues the handshake. Returns the number of bytes
    /// read.
    pub(super) fn read(&mut self, each: &mut dyn FnMut(&mut [u8])) -> Result<usize, End> {
        let mut total = 0;
        while total < BUDGET {
            match self.tls.read_tls(&mut self.stream) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => total += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.into()),
            }
            if let Err(e) = self.tls.process_new_packets() {
                // Send the TLS alert, which tells the other end the reason.
                let _ = self.write();
                return Err(io::Error::other(e).into());
            }
            self.unwrap(each)?;
        }
        self.write()?;
        Ok(total)
    }

    /// Passes the packets in the decrypted bytes to `each`.
    fn unwrap(&mut self, each: &mut dyn FnMut(&mut [u8])) -> Result<(), End> {
        let mut bytes = [0; 16 << 10];
        loop {
            match self.tls.reader().read(&mut bytes) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => self.frames.put(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            }
            while let Some(packet) = self.frames.next().map_err(|_| End::NotFrames)? {
                each(packet);
            }
        }
    }

    /// Sends packets and returns how many were sent. Packets that do not fit into the buffer are dropped.
    pub(super) fn send<'a>(&mut self, packets: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        let (mut sent, mut waiting) = (0, 0);
        self.write()?;
        for packet in packets {
            if waiting >= UNSENT {
                self.write()?;
                waiting = 0;
            }
            if waiting == 0 && self.is_full() {
                break;
            }
            self.frame.clear();
            if put_frame(packet, &mut self.frame) {
                // Make each packet a separate TLS record, so that the other end can decrypt it as soon as its
                // last byte arrives.
                self.tls.writer().write_all(&self.frame)?;
                waiting += self.frame.len();
            }
            sent += 1;
        }
        self.write()?;
        Ok(sent)
    }

    /// Answers an unknown client as a web server without pages would, then closes the connection.
    pub(super) fn refuse(&mut self) {
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        // If there is no room for the answer, close the connection without it.
        let _ = self.tls.writer().write_all(answer);
        self.tls.send_close_notify();
        let _ = self.write();
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Writes as much as the kernel accepts.
    pub(super) fn write(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
