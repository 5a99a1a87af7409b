//! Uses the Linux kernel's DCCP for the interoperability checks of `tools/linux-peer`. This program runs in a
//! virtual machine whose kernel still supports DCCP.
//!
//! ```text
//! kernel_dccp (send|receive) (listen|connect) ADDRESS [ccid=2] [count=1000] [size=1000] [seconds=0]
//!     [service=perf] [send_coverage=0] [receive_coverage=0] [abort=0]
//! ```
//!
//! The program opens one connection and sends `count` datagrams of `size` bytes, or sends for `seconds`
//! seconds. With `abort=1`, it ends the connection with a Reset. It prints one line about the result.
//! `kernel_dccp echo listen ADDRESS service=echo` runs the service of docs/conformance.md until it is killed.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{env, thread};

/// Time for the queue to drain before the connection is closed, because the kernel drops queued data when a
/// socket is closed.
const DRAIN: Duration = Duration::from_millis(700);

struct Task {
    sends: bool,
    listens: bool,
    address: SocketAddr,
    options: BTreeMap<String, String>,
}

impl Task {
    fn number(&self, name: &str, default: u32) -> u32 {
        self.options.get(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    fn socket(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.address), Type::DCCP, Some(Protocol::DCCP))?;
        let mut service = [0; 4];
        let text = self.options.get("service").map_or("perf", String::as_str).as_bytes();
        service[..text.len().min(4)].copy_from_slice(&text[..text.len().min(4)]);
        socket.set_dccp_service(u32::from_be_bytes(service).to_be())?;
        socket.set_dccp_ccid(self.number("ccid", 2) as u8)?;
        match self.number("send_coverage", 0) {
            0 => {}
            coverage => socket.set_dccp_send_cscov(coverage)?,
        }
        match self.number("receive_coverage", 0) {
            0 => {}
            coverage => socket.set_dccp_recv_cscov(coverage)?,
        }
        Ok(socket)
    }

    fn connection(&self) -> io::Result<Socket> {
        let socket = self.socket()?;
        let address = SockAddr::from(self.address);
        if !self.listens {
            socket.connect(&address)?;
            return Ok(socket);
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address)?;
        socket.listen(5)?;
        Ok(socket.accept()?.0)
    }

    fn send(&self, mut socket: Socket) -> io::Result<String> {
        let seconds = self.number("seconds", 0);
        let count = if seconds > 0 { u32::MAX } else { self.number("count", 1000) };
        let until = Instant::now() + Duration::from_secs(seconds.into());
        let mut message = vec![0; self.number("size", 1000) as usize];
        let mut sent = 0;
        while sent < count && (seconds == 0 || Instant::now() < until) {
            message[..4].copy_from_slice(&sent.to_be_bytes());
            match socket.write(&message) {
                Ok(_) => sent += 1,
                // Even a blocking socket returns this error if its queue is full.
                Err(e) if e.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
                Err(e) => return Ok(format!("sent {sent} datagrams, then {e}")),
            }
        }
        thread::sleep(DRAIN);
        let abort = self.number("abort", 0) == 1;
        socket.set_linger(Some(Duration::from_secs(if abort { 0 } else { 10 })))?;
        Ok(format!("sent {sent} datagrams"))
    }

    /// Serves all clients.
    fn echo(&self) -> io::Result<String> {
        let socket = self.socket()?;
        socket.set_reuse_address(true)?;
        socket.bind(&SockAddr::from(self.address))?;
        socket.listen(128)?;
        loop {
            // Ignore errors: if a connection is reset before it is accepted, the listener has not failed.
            if let Ok((connection, _)) = socket.accept() {
                thread::spawn(move || echo(connection));
            }
        }
    }

    fn receive(&self, mut socket: Socket) -> io::Result<String> {
        let (mut datagrams, mut bytes, mut buffer) = (0u64, 0, [0u8; 2048]);
        let (mut first, mut last) = (None, Instant::now());
        let end = loop {
            match socket.read(&mut buffer) {
                Ok(0) => break "closed".to_string(),
                Ok(n) => {
                    last = Instant::now();
                    first.get_or_insert(last);
                    datagrams += 1;
                    bytes += n;
                }
                Err(e) => break e.to_string(),
            }
        };
        let seconds = first.map_or(0.0, |first| (last - first).as_secs_f64()).max(1e-3);
        let rate = bytes as f64 * 8e-6 / seconds;
        Ok(format!("received {datagrams} datagrams, {bytes} bytes, {rate:.2} Mbit/s; {end}"))
    }
}

/// Echoes datagrams, and executes the commands `close` and `abort`.
fn echo(mut socket: Socket) {
    let mut buffer = [0; 2048];
    while let Ok(length @ 1..) = socket.read(&mut buffer) {
        match &buffer[..length] {
            b"close" => return,
            // With this setting, closing the socket sends a Reset.
            b"abort" => {
                let _ = socket.set_linger(Some(Duration::ZERO));
                return;
            }
            // Even a blocking socket returns this error if its queue is full.
            datagram => loop {
                match socket.write(datagram) {
                    Ok(_) => break,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
                    Err(_) => return,
                }
            },
        }
    }
}

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let [what, how, address, options @ ..] = args.as_slice() else {
        eprintln!("usage: kernel_dccp (send|receive|echo) (listen|connect) ADDRESS [NAME=VALUE]...");
        std::process::exit(2);
    };
    let task = Task {
        sends: what == "send",
        listens: how == "listen",
        address: address.parse().expect("an address with a port"),
        options: options
            .iter()
            .filter_map(|o| o.split_once('='))
            .map(|(n, v)| (n.into(), v.into()))
            .collect(),
    };
    if what == "echo" {
        println!("kernel: {:?}", task.echo());
        return;
    }
    let outcome = task.connection().and_then(|s| if task.sends { task.send(s) } else { task.receive(s) });
    match outcome {
        Ok(text) => println!("kernel: {text}"),
        Err(e) => println!("kernel: failed: {e}"),
    }
}
