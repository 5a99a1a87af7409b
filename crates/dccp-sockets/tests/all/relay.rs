//! A middlebox between one client and a listener. It can drop packets in a fixed pattern, drop large packets,
//! or drop all packets for a while.

use crate::PATIENT;
use dccp_sockets::{Connection, Listener, Options};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

pub(crate) struct Relay {
    /// The address that the client connects to.
    pub(crate) addr: SocketAddr,
    /// Whether all packets are dropped.
    pub(crate) cut: Arc<AtomicBool>,
    /// Size of the largest IP packet that is not dropped, in bytes.
    pub(crate) carries: Arc<AtomicUsize>,
    /// Number of packets from the client.
    pub(crate) of_client: Arc<AtomicU32>,
    over: Arc<AtomicBool>,
    /// How often the relay has waited in vain for a packet from the server.
    quiet: Arc<AtomicU32>,
}

/// Opens a connection through a relay. Returns the listener, the relay, and both ends of the connection.
pub(crate) fn through_a_relay(server: Options, client: Options) -> (Listener, Relay, Connection, Connection) {
    let listener = Listener::bind("127.0.0.1:0", server).unwrap();
    let relay = Relay::new(listener.local_addr(), 0);
    let here = Connection::connect(relay.addr, client).unwrap();
    let there = listener.accept_timeout(PATIENT).unwrap();
    (listener, relay, here, there)
}

/// Size of the IPv4 and UDP headers.
const OVERHEAD: usize = 28;

impl Relay {
    /// Creates a relay that drops one in `loss` packets in each direction, or none if `loss` is 0.
    pub(crate) fn new(server: SocketAddr, loss: u32) -> Relay {
        let (front, back) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        back.connect(server).unwrap();
        let addr = front.local_addr().unwrap();
        let (cut, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let carries = Arc::new(AtomicUsize::new(usize::MAX));
        let (quiet, of_client) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        }
        // The client's first packet tells the relay the client's address.
        let client = Arc::new(std::sync::Mutex::new(None));
        for up in [true, false] {
            let (front, back) = (front.try_clone().unwrap(), back.try_clone().unwrap());
            let (cut, over, client, quiet) = (cut.clone(), over.clone(), client.clone(), quiet.clone());
            let (of_client, carries) = (of_client.clone(), carries.clone());
            std::thread::spawn(move || {
                let (mut buffer, mut number) = ([0; 2048], 0u32);
                while !over.load(Relaxed) {
                    let from = if up { &front } else { &back };
                    let (len, sender) = match from.recv_from(&mut buffer) {
                        Ok(received) => received,
                        // The wait timed out, or the packet was refused because there is no listening socket.
                        Err(e) => {
                            if !up && e.kind() == ErrorKind::WouldBlock {
                                quiet.fetch_add(1, Relaxed);
                            }
                            continue;
                        }
                    };
                    if up {
                        *client.lock().unwrap() = Some(sender);
                        of_client.fetch_add(1, Relaxed);
                    }
                    number += 1;
                    let passes = !cut.load(Relaxed) && len + OVERHEAD <= carries.load(Relaxed);
                    if !passes || loss > 0 && number.is_multiple_of(loss) {
                        continue;
                    }
                    let to = *client.lock().unwrap();
                    let _ = match (up, to) {
                        (true, _) => back.send(&buffer[..len]),
                        (false, Some(client)) => front.send_to(&buffer[..len], client),
                        (false, None) => continue,
                    };
                }
            });
        }
        Relay { addr, cut, carries, of_client, over, quiet }
    }

    /// Lets packets pass again, after discarding the packets of a server that has ended.
    pub(crate) fn restore(&self) {
        // Wait for two timeouts, because the first may have started before the server's last packet.
        let enough = self.quiet.load(Relaxed) + 2;
        while self.quiet.load(Relaxed) < enough {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.cut.store(false, Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}
