//! Carries packets between two TUN devices through the link emulator, in real time. The lab's paths and
//! `mpdccp link` use it.

use core::time::Duration;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use dccp_net::{Clock, Tun};
use mpdccp_linkem::{ConfigError, Link, LinkConfig, Meta, Verdict};
use mpdccp_proto::{FlowKey, PktInfo};
use mpdccp_units::{Ecn, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Maximum number of packets that are read from one device before the other device is served.
const BURST: usize = 64;
/// Longest time that [`Cable::turn`] waits.
const NAP: Duration = Duration::from_millis(50);
/// Largest IP packet.
const MAX_PACKET: usize = 65_535;

/// Observes every packet of one direction.
pub trait Recorder {
    /// Data handed back to the recorder when the packet comes out of the link.
    type Mark: Clone;
    /// A packet is about to enter the link. The returned data is handed back when this packet comes out.
    fn on_packet(&mut self, now: Time, packet: &[u8]) -> Self::Mark;
    /// Returns the packet's delay in addition to the link's delay.
    fn detour(&self, _packet: &[u8]) -> Duration {
        Duration::ZERO
    }
    /// The packet last passed to [`on_packet`](Self::on_packet) was read late, because the thread had to wait
    /// this long for a CPU.
    fn on_taken_late(&mut self, _waited: Duration) {}
    /// The link's verdict on the packet last passed to [`on_packet`](Self::on_packet), and the number of
    /// bytes now in the link's queue.
    fn on_verdict(&mut self, _verdict: Verdict, _queued: u64) {}
    /// A packet was written to the device at the other end.
    fn on_delivered(&mut self, delivered: Delivered<Self::Mark>);
    /// A packet was lost on the wire, or the link held it when it went down or ended.
    fn on_lost(&mut self, _mark: Self::Mark) {}
    /// The device at the other end refused a packet, because it is down or a buffer is full.
    fn on_refused(&mut self, _mark: Self::Mark) {}
}

/// A packet that came out of a link.
#[derive(Clone, Copy, Debug)]
pub struct Delivered<M> {
    /// The recorder's return value for the packet when it entered.
    pub mark: M,
    /// Time at which the packet should have come out of the link.
    pub due: Time,
    /// Time at which the packet came out of the link.
    pub now: Time,
    /// Whether the link marked the packet.
    pub ce: bool,
}

/// One direction of the cable, from `device` through the emulator to the other direction's device.
struct Direction<R: Recorder> {
    device: Tun,
    link: Link<(R::Mark, Vec<u8>)>,
    recorder: R,
}

impl<R: Recorder> Direction<R> {
    /// Reads up to [`BURST`] packets from the device.
    fn read(&mut self, buf: &mut [u8], waited: Option<Duration>) -> io::Result<()> {
        for _ in 0..BURST {
            let Some(n) = self.device.read(buf)? else { break };
            let packet = &buf[..n];
            let now = Clock.now();
            let info = PktInfo::of_ip(packet, FlowKey::default());
            let meta = Meta { bytes: n as u32, ecn: info.ecn, flow: info.flow };
            let mark = self.recorder.on_packet(now, packet);
            waited.into_iter().for_each(|waited| self.recorder.on_taken_late(waited));
            let detour = self.recorder.detour(packet);
            let verdict = self.link.push_farther(now, meta, detour, (mark, packet.to_vec()));
            self.recorder.on_verdict(verdict, self.link.queue_len().bytes);
        }
        Ok(())
    }

    /// Writes the packets that are due to `to`, which is the other direction's device.
    fn write(&mut self, to: &Tun) {
        while let Some(out) = self.link.pop(Clock.now()) {
            let (mark, mut packet) = out.packet;
            let ce = out.meta.ecn == Ecn::Ce && mark_ce(&mut packet);
            match to.write(&packet) {
                Ok(()) => {
                    self.recorder.on_delivered(Delivered { mark, due: out.at, now: Clock.now(), ce });
                }
                Err(_) => self.recorder.on_refused(mark),
            }
        }
        while let Some((mark, _)) = self.link.pop_lost() {
            self.recorder.on_lost(mark);
        }
    }
}

/// Measures how long the calling thread was ready to run but was not running, as counted by the kernel.
#[derive(Default)]
struct Waiting {
    /// The kernel's file with the calling thread's scheduling statistics. `None` before the first attempt to
    /// open it, and `Some(None)` if the kernel does not provide it.
    file: Option<Option<File>>,
    before: Duration,
}

impl Waiting {
    fn since_last(&mut self) -> Option<Duration> {
        let file =
            self.file.get_or_insert_with(|| File::open("/proc/thread-self/schedstat").ok()).as_ref()?;
        let mut text = [0; 64];
        let n = file.read_at(&mut text, 0).ok()?;
        // The file holds three numbers: time on a CPU and time waiting for a CPU, both in nanoseconds, and
        // the number of time slices.
        let total = core::str::from_utf8(&text[..n]).ok()?.split_whitespace().nth(1)?.parse().ok()?;
        let total = Duration::from_nanos(total);
        Some(total.saturating_sub(core::mem::replace(&mut self.before, total)))
    }
}

/// Two devices and the link between them, in both directions. Packets move only during [`turn`](Cable::turn).
pub struct Cable<R: Recorder> {
    /// The direction from the first device to the second, then the opposite direction.
    directions: [Direction<R>; 2],
    buf: Vec<u8>,
    waiting: Waiting,
}

/// One direction of a cable to be created: source device, link configuration, recorder.
pub struct Strand<R> {
    /// The device that this direction's packets come from.
    pub device: Tun,
    /// Configuration of the link.
    pub config: LinkConfig,
    /// Seed of the link's random choices.
    pub seed: u64,
    /// The recorder.
    pub recorder: R,
}

impl<R: Recorder> Cable<R> {
    /// Connects the devices of the two strands.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn new(strands: [Strand<R>; 2]) -> Result<Cable<R>, ConfigError> {
        let now = Clock.now();
        let make = |s: Strand<R>| {
            let link = Link::new(s.config, s.seed, now)?;
            Ok(Direction { device: s.device, link, recorder: s.recorder })
        };
        let [forward, backward] = strands.map(make);
        Ok(Cable { directions: [forward?, backward?], buf: vec![0; MAX_PACKET], waiting: Waiting::default() })
    }

    /// Waits until a packet arrives or is due, until the time `until`, or for a short time, whichever comes
    /// first. Then moves the packets.
    ///
    /// # Errors
    /// Fails if a device is gone.
    pub fn turn(&mut self, until: Option<Time>) -> io::Result<()> {
        let ready = self.wait(until)?;
        let waited = self.waiting.since_last();
        for (direction, _) in self.directions.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            direction.read(&mut self.buf, waited)?;
        }
        let [forward, backward] = &mut self.directions;
        forward.write(&backward.device);
        backward.write(&forward.device);
        Ok(())
    }

    /// Returns which devices are readable, or an error.
    fn wait(&self, until: Option<Time>) -> io::Result<[bool; 2]> {
        let due = self.directions.iter().filter_map(|d| d.link.next_event()).chain(until).min();
        let now = Clock.now();
        let nap = due.map_or(NAP, |due| due.since(now).min(NAP));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()) };
        let mut fds = self.directions.each_ref().map(|d| PollFd::new(&d.device, PollFlags::IN));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => Ok(fds.map(|fd| !fd.revents().is_empty())),
            Err(rustix::io::Errno::INTR) => Ok([false; 2]),
            Err(e) => Err(e.into()),
        }
    }

    /// Returns the links of the forward and the reverse direction, to read their statistics or change them.
    pub fn links(&mut self) -> [&mut Link<(R::Mark, Vec<u8>)>; 2] {
        self.directions.each_mut().map(|d| &mut d.link)
    }

    /// Returns the recorders, in the same order as the links.
    pub fn recorders(&mut self) -> [&mut R; 2] {
        self.directions.each_mut().map(|d| &mut d.recorder)
    }

    /// Ends the links, drops the devices and returns the recorders.
    pub fn into_recorders(self) -> [R; 2] {
        self.directions.map(|Direction { link, mut recorder, .. }| {
            link.end().into_iter().for_each(|(mark, _)| recorder.on_lost(mark));
            recorder
        })
    }
}

/// Sets the ECN field of an IP packet to CE. Returns true if this changed the packet.
fn mark_ce(packet: &mut [u8]) -> bool {
    if PktInfo::of_ip(packet, FlowKey::default()).ecn == Ecn::Ce {
        return false;
    }
    match packet {
        [first, tos, ..] if *first >> 4 == 4 => {
            let before = u16::from_be_bytes([*first, *tos]);
            *tos |= Ecn::Ce.bits();
            let after = u16::from_be_bytes([*first, *tos]);
            // RFC 1624 section 3: HC' = ~(~HC + ~m + m').
            if let Some(field) = packet.get_mut(10..12) {
                let sum = u32::from(!u16::from_be_bytes([field[0], field[1]]))
                    + u32::from(!before)
                    + u32::from(after);
                let folded = (sum & 0xffff) + (sum >> 16);
                let folded = (folded & 0xffff) + (folded >> 16);
                field.copy_from_slice(&(!(folded as u16)).to_be_bytes());
            }
        }
        [first, second, ..] if *first >> 4 == 6 => *second |= Ecn::Ce.bits() << 4,
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        let mut v4 = [0x45, 0, 0, 40, 1, 2, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        for tos in [0x01, 0x02, 0xba] {
            v4[1] = tos;
            v4[10..12].fill(0);
            let sum = !sum(&v4);
            v4[10..12].copy_from_slice(&sum.to_be_bytes());
            assert!(mark_ce(&mut v4));
            assert_eq!((v4[1], self::sum(&v4)), (tos | 3, 0xffff));
            assert!(!mark_ce(&mut v4), "the packet was marked already");
        }
    }

    fn sum(header: &[u8]) -> u16 {
        let mut sum: u32 =
            header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn a_mark_goes_into_the_traffic_class() {
        let mut v6 = [0; 40];
        v6[..2].copy_from_slice(&[0x60, 0x2f]);
        assert!(mark_ce(&mut v6));
        assert_eq!(v6[..2], [0x60, 0x3f]);
        assert!(!mark_ce(&mut [0x10, 0]) && !mark_ce(&mut []));
    }
}
