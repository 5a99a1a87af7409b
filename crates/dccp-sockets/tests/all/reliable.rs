//! Reliable channels over lossy paths: no privilege needed.

use dccp_sockets::reliable::{Channel, ChannelError};
use dccp_sockets::{Connection, Event, Listener, Named, Options, Path, SchedulerKind};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const EVERY: usize = 25;

/// A path to `server` that drops one datagram of 25 in each direction, for as long as it lives.
struct Lossy {
    addr: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Lossy {
    fn new(server: SocketAddr) -> Lossy {
        let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let addr = near.local_addr().unwrap();
        far.connect(server).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let wait = Some(std::time::Duration::from_millis(50));
        near.set_read_timeout(wait).unwrap();
        far.set_read_timeout(wait).unwrap();
        let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let client = Arc::new(std::sync::Mutex::new(None));
        let (known, up, down) = (client.clone(), over.clone(), over.clone());
        std::thread::spawn(move || {
            let (mut buf, mut n) = ([0; 2000], 0);
            while !up.load(Ordering::Relaxed) {
                let Ok((len, from)) = near.recv_from(&mut buf) else { continue };
                *known.lock().unwrap() = Some(from);
                n += 1;
                if n % EVERY != 0 {
                    let _ = far.send(&buf[..len]);
                }
            }
        });
        std::thread::spawn(move || {
            let (mut buf, mut n) = ([0; 2000], 0);
            while !down.load(Ordering::Relaxed) {
                let Ok(len) = far_too.recv(&mut buf) else { continue };
                let Some(to) = *client.lock().unwrap() else { continue };
                n += 1;
                if n % EVERY != 0 {
                    let _ = near_too.send_to(&buf[..len], to);
                }
            }
        });
        Lossy { addr, over }
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn pair() -> (Listener, Channel, Channel) {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let here = Connection::connect(listener.local_addr(), Options::default()).unwrap();
    let there = listener.accept().unwrap();
    (listener, Channel::new(here), Channel::new(there))
}

fn noise(length: usize) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

#[test]
fn a_file_arrives_intact_over_two_lossy_paths() {
    let listener = Listener::bind("127.0.0.1:0", Options::ccid(5)).unwrap();
    let (one, other) = (Lossy::new(listener.local_addr()), Lossy::new(listener.local_addr()));
    let local = |last: u8| IpAddr::from([127, 0, 0, last]);
    let options = Options::ccid(5).scheduler(SchedulerKind::named("rr").unwrap());
    let options = options.path(Path::from(local(2)).to(one.addr)).path(Path::from(local(3)).to(other.addr));
    let here = Connection::connect(one.addr, options).unwrap();
    let there = Channel::new(listener.accept().unwrap());
    let both_up = |_: &Event| {
        let paths = here.stats().paths;
        paths.len() == 2 && paths.iter().all(|path| path.state.is_up())
    };
    assert!(here.events().any(|event| both_up(&event)));
    let file = noise(3_000_000);
    let sum = Sha256::digest(&file);
    let sender = std::thread::spawn(move || {
        let channel = Channel::with_window(here, 1 << 18);
        (&channel).write_all(&file).unwrap();
        let paths = channel.connection().stats().paths;
        channel.finish().unwrap();
        (channel.resent(), paths.iter().filter(|path| path.sent > 0).count())
    });
    let mut copy = Vec::new();
    (&there).read_to_end(&mut copy).unwrap();
    assert_eq!(Sha256::digest(&copy), sum);
    drop(there);
    let (resent, paths) = sender.join().unwrap();
    assert!(paths == 2 && resent < 3_000, "{resent} frames retransmitted over {paths} paths");
}

#[test]
fn messages_come_whole_and_in_order_both_ways() {
    let (_listener, here, there) = pair();
    let messages: Vec<Vec<u8>> = [0, 1, 5, 100_000, 3, 2_000].map(noise).into();
    let echo = std::thread::spawn(move || {
        while let Some(message) = there.recv().unwrap() {
            there.send(&message).unwrap();
        }
        there.finish()
    });
    messages.iter().for_each(|message| here.send(message).unwrap());
    for message in &messages {
        assert_eq!(here.recv().unwrap().as_ref(), Some(message));
    }
    here.end();
    assert_eq!(here.send(b"more"), Err(ChannelError::Ended));
    assert_eq!(here.recv(), Ok(None));
    here.finish().unwrap();
    assert_eq!(echo.join().unwrap(), Ok(()));
}

#[test]
fn what_breaks_is_said() {
    let (_listener, here, there) = pair();
    let long = vec![0; Channel::MAX_MESSAGE + 1];
    assert_eq!(here.send(&long), Err(ChannelError::TooLong(long.len() as u64)));
    there.send(b"whole").unwrap();
    assert_eq!(here.recv(), Ok(Some(b"whole".to_vec())));
    there.connection().abort();
    assert!(matches!(here.recv(), Err(ChannelError::Broken(_))));
    assert!(matches!(here.finish(), Ok(()) | Err(ChannelError::Broken(_))));
    assert!(matches!(here.send(b"x"), Err(ChannelError::Broken(_))));
}
