//! A proxied connection: a kernel socket, the data to be written to it, and the number of bytes that may be
//! read from it.

use crate::receive_buffer::ReceiveBuffer;
use dccp_net::{receive_rtt, set_window_clamp};
use mpdccp_units::Time;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Maximum number of bytes per read.
pub(crate) const CHUNK: usize = 64 << 10;

/// The error of a socket whose host sent FIN before RST.
const FIN_BEFORE_RESET: ErrorKind = ErrorKind::BrokenPipe;

/// An established connection.
pub(crate) struct Connection {
    socket: Socket,
    /// Data that has not been written yet. In the first block, the bytes before `offset` have already been
    /// written.
    waiting: VecDeque<Vec<u8>>,
    offset: usize,
    /// Number of bytes that may be read from the socket.
    credit: u64,
    established: Instant,
    buffer: ReceiveBuffer,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whether no more data follows the waiting blocks.
    finishing: bool,
    read_ended: bool,
    write_ended: bool,
    /// The error that ended the connection. Data that arrived before it can still be read.
    error: Option<ErrorKind>,
}

impl Connection {
    /// Creates a connection whose handshake took `rtt`.
    pub(crate) fn new(socket: Socket, rtt: Duration) -> Connection {
        let connection = Connection {
            socket,
            waiting: VecDeque::new(),
            offset: 0,
            credit: 0,
            established: Instant::now(),
            buffer: ReceiveBuffer::new(Time::ZERO, rtt),
            readable: true,
            writable: true,
            finishing: false,
            read_ended: false,
            write_ended: false,
            error: None,
        };
        connection.limit_buffer();
        connection
    }

    /// Gives the kernel's receive buffer its size. An error leaves the size to the kernel.
    fn limit_buffer(&self) {
        let size = self.buffer.size();
        if set_socket_recv_buffer_size_force(&self.socket, size as usize).is_ok() {
            // The kernel reserves half of the buffer for overhead. The old clamp would keep the window at the
            // initial size of the buffer.
            let _ = set_window_clamp(&self.socket, 2 * size);
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn grant(&mut self, bytes: u64) {
        self.credit += bytes;
    }

    pub(crate) fn push(&mut self, data: Vec<u8>) {
        if !data.is_empty() && !self.finishing && self.error.is_none() {
            self.waiting.push_back(data);
        }
    }

    /// Sends FIN once the waiting blocks are written.
    pub(crate) fn finish(&mut self) {
        self.finishing = true;
    }

    /// Records the socket's error, usually because the host has reset the connection. Reading continues.
    pub(crate) fn fail(&mut self, e: &io::Error) {
        self.error.get_or_insert(e.kind());
        self.waiting.clear();
        self.readable = true;
    }

    /// Writes as many bytes as the kernel accepts, and returns their number.
    pub(crate) fn write(&mut self) -> u64 {
        let mut written = 0;
        while self.writable && !self.waiting.is_empty() {
            let mut parts = [IoSlice::new(&[]); 16];
            let mut count = 0;
            for (i, (part, data)) in parts.iter_mut().zip(&self.waiting).enumerate() {
                *part = IoSlice::new(if i == 0 { &data[self.offset..] } else { data });
                count += 1;
            }
            match (&self.socket).write_vectored(&parts[..count]) {
                Ok(n) => {
                    written += n as u64;
                    self.advance(n);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => self.fail(&e),
            }
        }
        if self.finishing && self.waiting.is_empty() && !self.write_ended && self.error.is_none() {
            self.write_ended = true;
            if let Err(e) = self.socket.shutdown(std::net::Shutdown::Write) {
                let e = self.take_error().unwrap_or(e);
                self.fail(&e);
            }
        }
        written
    }

    fn advance(&mut self, mut n: usize) {
        while let Some(first) = self.waiting.front() {
            let left = first.len() - self.offset;
            if n < left {
                self.offset += n;
                return;
            }
            n -= left;
            self.offset = 0;
            self.waiting.pop_front();
        }
    }

    /// Reads a chunk. Returns `Ok(None)` if the kernel has no data or there is no credit, and an empty chunk
    /// at the end of the host's data.
    pub(crate) fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !self.readable || self.read_ended {
            return Ok(None);
        }
        // After an error, the end can be read without credit.
        let waits = || self.socket.peek(&mut [MaybeUninit::uninit()]).is_ok_and(|n| n > 0);
        if self.credit == 0 && (self.error.is_none() || waits()) {
            return Ok(None);
        }
        let mut chunk = vec![0; CHUNK.min(self.credit.max(1) as usize)];
        loop {
            match (&self.socket).read(&mut chunk) {
                Ok(0) if self.error.is_some_and(|e| e != FIN_BEFORE_RESET) => {
                    return Err(ErrorKind::ConnectionReset.into());
                }
                Ok(n) => {
                    self.read_ended = n == 0;
                    self.credit = self.credit.saturating_sub(n as u64);
                    let now = Time::ZERO + self.established.elapsed();
                    if self.buffer.is_due(now) {
                        self.buffer.on_rtt(receive_rtt(&self.socket).unwrap_or_default());
                    }
                    if self.buffer.on_read(now, n as u64, self.credit == 0) {
                        self.limit_buffer();
                    }
                    chunk.truncate(n);
                    chunk.shrink_to_fit();
                    return Ok(Some(chunk));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(None);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Returns whether both directions have ended with FIN and the host has acknowledged everything. The
    /// kernel then closes the socket, which therefore has no peer any more.
    pub(crate) fn is_over(&self) -> bool {
        self.read_ended && self.write_ended && self.socket.peer_addr().is_err()
    }

    /// Returns whether an error has ended the connection and the host's FIN has been read.
    pub(crate) fn is_broken(&self) -> bool {
        self.read_ended && self.error.is_some()
    }

    /// Returns and removes the socket's error.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.socket.take_error().ok().flatten()
    }

    /// Closes the connection with RST. Data that the far host sent before goes first, as far as the kernel
    /// accepts it.
    pub(crate) fn reset(mut self) {
        self.write();
        reset(self.socket);
    }
}

/// Closes the connection with RST.
pub(crate) fn reset(socket: Socket) {
    // With a linger time of zero, closing the socket sends RST. If the call fails, the connection no longer
    // exists and needs no RST.
    let _ = socket.set_linger(Some(Duration::ZERO));
}

/// Returns whether an error from connect means that the remote host refused the connection.
pub(crate) fn is_refusal(e: &io::Error) -> bool {
    Errno::from_io_error(e) == Some(Errno::CONNREFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_receive_buffer_of_the_kernel_has_the_computed_size() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut host = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::from(listener.accept().unwrap().0);
        socket.set_nonblocking(true).unwrap();
        if let Err(e) = set_socket_recv_buffer_size_force(&socket, 1 << 20) {
            println!("SKIPPED cannot set the size of a receive buffer: {e}");
            return;
        }
        let mut connection = Connection::new(socket, Duration::ZERO);
        for _ in 0..64 {
            host.write_all(&[0; CHUNK / 4]).unwrap();
            connection.grant(CHUNK as u64 / 4);
            while connection.credit > 0 {
                connection.readable = true;
                connection.read().unwrap();
            }
        }
        let size = connection.buffer.size() as usize;
        assert_eq!(connection.socket.recv_buffer_size().unwrap(), 2 * size);
    }
}
