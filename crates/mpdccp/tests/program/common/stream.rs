//! A stream of numbered datagrams that runs through the tunnel.

use super::{Bed, CLIENT, SERVER, socket, wait_for};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sends numbered datagrams through the tunnel, one per millisecond. A thread counts the arrivals.
pub(crate) struct Stream {
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Stream {
    pub(crate) fn start(bed: &Bed) -> Stream {
        let [sent, received] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let sender = socket(&bed.space[0], &format!("{}:0", CLIENT[0]));
        let receiver = socket(&bed.space[1], &format!("{}:7000", SERVER[0]));
        receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (n, end) = (sent.clone(), stop.clone());
        let send = move || {
            while !end.load(Ordering::Relaxed) {
                let number = n.fetch_add(1, Ordering::Relaxed);
                let mut packet = [0; 1000];
                packet[..8].copy_from_slice(&number.to_be_bytes());
                let _ = sender.send_to(&packet, format!("{}:7000", SERVER[0]));
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let (n, end) = (received.clone(), stop.clone());
        let receive = move || {
            let mut packet = [0; 2000];
            while !end.load(Ordering::Relaxed) {
                if receiver.recv(&mut packet).is_ok() {
                    n.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let threads = vec![std::thread::spawn(send), std::thread::spawn(receive)];
        Stream { sent, received, stop, threads }
    }

    /// Waits until `n` more datagrams have arrived.
    pub(crate) fn more(&self, n: u64) {
        let goal = self.received.load(Ordering::Relaxed) + n;
        wait_for("more datagrams", || self.received.load(Ordering::Relaxed) >= goal);
    }

    /// Stops sending. Returns the numbers of sent and received datagrams.
    pub(crate) fn finish(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }
}
