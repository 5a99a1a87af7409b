//! The Linux kernel's own DCCP, for the interoperability check of `tools/linux-peer`: runs inside a guest whose kernel still has it.
//!
//! Serves port 5001 (receives) and 5002 (sends), and as a client sends to port 5003 and receives from 5004 of the peer.
//! Every transfer is `MESSAGES` datagrams of `SIZE` bytes; prints one line a transfer.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use std::{env, thread};

const SERVICE: u32 = 0x7065_7266; // "perf", as the perf command
const MESSAGES: u32 = 1000;
const SIZE: usize = 1000;

fn socket(ccid: u8) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DCCP, Some(Protocol::DCCP))?;
    socket.set_dccp_service(SERVICE.to_be())?;
    socket.set_dccp_ccid(ccid)?;
    Ok(socket)
}

fn listen(ccid: u8, port: u16) -> io::Result<Socket> {
    let listener = socket(ccid)?;
    listener.set_reuse_address(true)?;
    listener.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
    listener.listen(5)?;
    Ok(listener)
}

fn connect(ccid: u8, peer: Ipv4Addr, port: u16) -> io::Result<Socket> {
    let address = SockAddr::from(SocketAddrV4::new(peer, port));
    let mut tries = 0;
    loop {
        let socket = socket(ccid)?;
        match socket.connect(&address) {
            Ok(()) => return Ok(socket),
            Err(e) if tries == 30 => return Err(e),
            Err(_) => tries += 1,
        }
        thread::sleep(Duration::from_millis(500));
    }
}

fn send(mut socket: Socket) -> io::Result<String> {
    // Without it, closing drops what is still in the socket's queue.
    socket.set_linger(Some(Duration::from_secs(10)))?;
    let mut message = [0u8; SIZE];
    for n in 0..MESSAGES {
        message[..4].copy_from_slice(&n.to_be_bytes());
        while let Err(e) = socket.write(&message) {
            // A full queue says EAGAIN even to a blocking socket.
            if e.kind() != io::ErrorKind::WouldBlock {
                return Err(e);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(format!("sent {MESSAGES} datagrams, {} bytes", MESSAGES as usize * SIZE))
}

fn receive(mut socket: Socket) -> io::Result<String> {
    let (mut datagrams, mut bytes, mut buffer) = (0, 0, [0u8; 2048]);
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(format!("received {datagrams} datagrams, {bytes} bytes")),
            Ok(n) => {
                datagrams += 1;
                bytes += n;
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
                return Ok(format!("received {datagrams} datagrams, {bytes} bytes, then a reset"));
            }
            Err(e) => return Err(e),
        }
    }
}

fn report(port: u16, outcome: io::Result<String>) {
    match outcome {
        Ok(text) => println!("kernel: port {port}: {text}"),
        Err(e) => println!("kernel: port {port}: failed: {e}"),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = env::args().skip(1);
    let (Some(peer), Some(ccid)) = (args.next(), args.next()) else {
        return Err("usage: kernel_dccp PEER CCID".into());
    };
    let (peer, ccid) = (peer.parse()?, ccid.parse()?);
    let servers = [(5001, receive as fn(Socket) -> _), (5002, send)].map(|(port, transfer)| {
        thread::spawn(move || report(port, listen(ccid, port).and_then(|l| transfer(l.accept()?.0))))
    });
    println!("kernel: ready");
    report(5003, connect(ccid, peer, 5003).and_then(send));
    report(5004, connect(ccid, peer, 5004).and_then(receive));
    for server in servers {
        let _ = server.join();
    }
    println!("kernel: done");
    Ok(())
}
