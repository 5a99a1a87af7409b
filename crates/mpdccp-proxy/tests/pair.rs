//! Two hosts in separate namespaces, each with a tunnel interface and a proxy. Function calls take the place
//! of the tunnel.

use dccp_net::{Tun, TunConfig};
use mpdccp_proxy::{
    AsPacket, Command, Event, Flow, FlowTable, Limits, Segment, Sockets, SocketsHandle, Verdict,
};
use mpdccp_units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::collections::HashMap;
use std::net::IpAddr;
use std::process::Command as Program;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Maximum number of a flow's bytes in flight.
const WINDOW: u64 = 256 << 10;
const HEADER: usize = 10;

type Job = Box<dyn FnOnce() + Send>;

/// A host in its own namespace, in which a test can run code.
pub(crate) struct Host {
    jobs: Sender<Job>,
}

impl Host {
    fn new(number: u8) -> Option<(Host, Tun)> {
        let (jobs, receiver) = channel::<Job>();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let made = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).map_err(|e| e.to_string());
            let made = made.and_then(|()| {
                let addresses = vec![
                    (IpAddr::from([10, 9, 0, number]), 24),
                    (format!("fd09::{number}").parse().unwrap(), 64),
                ];
                let config = TunConfig { name: "tun0".into(), addresses, mtu: 1400, offload: true };
                Tun::create(&config).map_err(|e| e.to_string())
            });
            let ready = made.is_ok();
            tell.send(made).unwrap();
            if ready {
                assert!(Program::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
                receiver.into_iter().for_each(|job| job());
            }
        });
        match told.recv().unwrap() {
            Ok(tun) => Some((Host { jobs }, tun)),
            Err(e) => {
                println!("SKIPPED no network namespace with a TUN device: {e}");
                None
            }
        }
    }

    /// Runs a job in the namespace of the host.
    pub(crate) fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (tell, told) = channel();
        self.jobs.send(Box::new(move || drop(tell.send(job())))).unwrap();
        told.recv().unwrap()
    }
}

struct End {
    table: Mutex<FlowTable>,
    tun: Tun,
    sockets: Mutex<Option<SocketsHandle>>,
    /// The number of each flow at the other end.
    twin: Mutex<HashMap<Flow, Flow>>,
    /// Number of TCP segments that were not proxied.
    segments: AtomicU64,
}

/// Two hosts and the tunnel between them. The addresses are 10.9.0.1 and 10.9.0.2, or fd09::1 and fd09::2.
pub(crate) struct Pair {
    pub(crate) hosts: [Host; 2],
    ends: [Arc<End>; 2],
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time::from_nanos(since.as_nanos() as u64)
}

impl Pair {
    /// Creates the pair. If this is not possible, prints the reason and returns `None`.
    pub(crate) fn new(wanted: fn(&Segment) -> bool) -> Option<Pair> {
        let (a, tun_a) = Host::new(1)?;
        let (b, tun_b) = Host::new(2)?;
        let end = |tun| {
            Arc::new(End {
                table: Mutex::new(FlowTable::new(Limits::default())),
                tun,
                sockets: Mutex::new(None),
                twin: Mutex::new(HashMap::new()),
                segments: AtomicU64::new(0),
            })
        };
        let ends = [end(tun_a), end(tun_b)];
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for i in 0..2 {
            let (own, other, tell) = (ends[i].clone(), ends[1 - i].clone(), channel());
            threads.push(std::thread::spawn(move || {
                let (me, out) = (own.clone(), own.clone());
                let on_events = move |events| on_events(&me, &other, events);
                let on_packet = move |packet: &[u8]| {
                    let _ = rustix::io::write(&out.tun, packet);
                };
                let (sockets, handle) = Sockets::enter(1400, on_events, on_packet).unwrap();
                *own.sockets.lock().unwrap() = Some(handle);
                tell.0.send(()).unwrap();
                sockets.run().unwrap();
            }));
            tell.1.recv().unwrap();
        }
        for i in 0..2 {
            let (own, other, stop) = (ends[i].clone(), ends[1 - i].clone(), stop.clone());
            threads.push(std::thread::spawn(move || read(&own, &other, wanted, &stop)));
        }
        Some(Pair { hosts: [a, b], ends, stop, threads })
    }

    /// Returns how many TCP segments from both ends travelled as packets.
    pub(crate) fn segments(&self) -> u64 {
        self.ends.iter().map(|end| end.segments.load(Ordering::Relaxed)).sum()
    }

    /// Returns how many flows are open or half-open at each end.
    pub(crate) fn flows(&self) -> [usize; 2] {
        [0, 1].map(|i| self.ends[i].table.lock().unwrap().len())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for end in &self.ends {
            if let Some(handle) = end.sockets.lock().unwrap().take() {
                handle.send([Command::Stop]);
            }
        }
        for thread in self.threads.drain(..) {
            let result = thread.join();
            assert!(result.is_ok() || std::thread::panicking());
        }
    }
}

/// Handles packets from the tunnel's interface as the tunnel does.
fn read(own: &End, other: &End, wanted: fn(&Segment) -> bool, stop: &AtomicBool) {
    let mut buffer = vec![0; HEADER + 65_535];
    while !stop.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(&own.tun, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 }));
        while let Ok(n) = rustix::io::read(own.tun.as_fd(), &mut buffer) {
            let packet = &buffer[HEADER..n];
            let verdict =
                own.table.lock().unwrap().on_packet(now(), packet, |segment| {
                    wanted(segment).then_some(()).ok_or(AsPacket::NotWanted)
                });
            match verdict {
                Verdict::Packet => {
                    if Segment::parse(packet).is_some() {
                        own.segments.fetch_add(1, Ordering::Relaxed);
                    }
                    if other.table.lock().unwrap().on_delivered(packet).is_none() {
                        let _ = rustix::io::write(&other.tun, &buffer[..n]);
                    }
                }
                Verdict::Proxy(_) | Verdict::Aborted(_) | Verdict::Alive(_) => {
                    enter(own, &buffer[..n]);
                    match verdict {
                        Verdict::Aborted(flow) => {
                            tell(own, Command::Reset(flow));
                            end_twin(own, other, flow);
                        }
                        Verdict::Alive(flow) => {
                            tell(own, Command::Probe(flow, false));
                            answer_keepalive(other, own.twin.lock().unwrap()[&flow]);
                        }
                        _ => {}
                    }
                }
                Verdict::Keepalive(flow) => {
                    let far = own.twin.lock().unwrap().get(&flow).copied();
                    match far.filter(|far| other.table.lock().unwrap().ask(*far)) {
                        Some(far) => tell(other, Command::Probe(far, true)),
                        None => answer_keepalive(own, flow),
                    }
                }
                Verdict::Answer(answer) => {
                    let packet = [&[0; HEADER][..], &answer.unwrap()].concat();
                    let _ = rustix::io::write(&own.tun, &packet);
                }
                Verdict::Held(_) => {}
                Verdict::Open(flow, request) => {
                    let far = other.table.lock().unwrap().connect(now(), &request);
                    match far {
                        Ok(far) => {
                            own.twin.lock().unwrap().insert(flow, far);
                            other.twin.lock().unwrap().insert(far, flow);
                            tell(other, Command::Connect { flow: far, request });
                        }
                        Err(why) => drop(own.table.lock().unwrap().refused(now(), flow, why)),
                    }
                }
                Verdict::Withdrawn(flow) => end_twin(own, other, flow),
            }
        }
    }
}

/// Writes a packet, which begins with its virtio header, to the private namespace.
fn enter(end: &End, packet: &[u8]) {
    let handle = end.sockets.lock().unwrap().clone();
    if let Some(handle) = handle {
        let _ = rustix::io::write(handle.tun(), packet);
    }
}

/// Passes the held keepalive to the kernel in the private namespace, which answers it.
fn answer_keepalive(end: &End, flow: Flow) {
    let packet = end.table.lock().unwrap().alive(flow);
    if let Some(packet) = packet {
        enter(end, &[&[0; HEADER][..], &packet].concat());
    }
}

fn end_twin(own: &End, other: &End, flow: Flow) {
    if let Some(far) = own.twin.lock().unwrap().remove(&flow) {
        other.table.lock().unwrap().ended(now(), far);
        tell(other, Command::Reset(far));
    }
}

fn tell(end: &End, command: Command) {
    if let Some(handle) = end.sockets.lock().unwrap().as_ref() {
        handle.send([command]);
    }
}

/// Handles events of the sockets as the tunnel's streams do.
fn on_events(own: &End, other: &End, events: Vec<Event>) {
    let twin = |flow: Flow| own.twin.lock().unwrap().get(&flow).copied();
    for event in events {
        match event {
            Event::Connected(flow) => {
                // The flow's host has reset it in the meantime.
                let Some(far) = twin(flow) else {
                    tell(own, Command::Reset(flow));
                    continue;
                };
                tell(own, Command::Credit(flow, WINDOW));
                let accepted = {
                    own.table.lock().unwrap().connected(flow);
                    other.table.lock().unwrap().accepted(far)
                };
                if let Some((tuple, syn)) = accepted {
                    tell(other, Command::Accept { flow: far, tuple, syn });
                }
            }
            Event::Failed(flow, refused) => {
                let why = own.table.lock().unwrap().failed(now(), flow, refused);
                if let Some(far) = twin(flow) {
                    let answer = other.table.lock().unwrap().refused(now(), far, why);
                    if let Some(packet) = answer {
                        rustix::io::write(&other.tun, &[&[0; HEADER][..], &packet].concat()).unwrap();
                    }
                }
            }
            Event::Data(flow, data) => tell(other, Command::Data(twin(flow).unwrap(), data)),
            Event::Consumed(flow, bytes) => tell(other, Command::Credit(twin(flow).unwrap(), bytes)),
            Event::Finished(flow) => tell(other, Command::Finish(twin(flow).unwrap())),
            Event::Reset(flow) => {
                own.table.lock().unwrap().ended(now(), flow);
                if let Some(far) = twin(flow) {
                    other.table.lock().unwrap().ended(now(), far);
                    tell(other, Command::Reset(far));
                }
            }
            Event::Ended(flow) => own.table.lock().unwrap().ended(now(), flow),
        }
    }
}
