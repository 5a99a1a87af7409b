use crate::queue_selection::QueueSelection;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tun_rs::{DeviceBuilder, SyncDevice};

/// How a TUN device is made.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Interface name, at most 15 bytes.
    pub name: String,
    /// Addresses with prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Largest IP packet.
    pub mtu: u16,
    /// Takes and gives super-packets, for [`Bursts`](crate::Bursts); without, and where the kernel has none, each packet by itself.
    pub offload: bool,
}

/// A TUN device: whole IP packets in and out, gone when it and its clones are dropped.
#[derive(Clone)]
pub struct Tun {
    device: Arc<SyncDevice>,
    /// Of a device with several queues.
    selection: Option<Arc<QueueSelection>>,
}

impl Tun {
    /// Creates the interface, gives it its addresses and brings it up.
    ///
    /// # Errors
    /// What the system says; `PermissionDenied` without CAP_NET_ADMIN, `NotFound` without /dev/net/tun,
    /// `ResourceBusy` if the name is in use.
    pub fn create(cfg: &TunConfig) -> io::Result<Tun> {
        Tun::with(cfg, None)
    }

    /// As [`create`](Self::create), of an interface with several queues, this being the first, for as many threads: see [`queue`](Self::queue).
    /// The kernel puts packets where [`assign_queues`](Self::assign_queues) says; where it does not do so (it wants CAP_BPF), there is one queue.
    ///
    /// # Errors
    /// As of [`create`](Self::create).
    pub fn create_queued(cfg: &TunConfig) -> io::Result<Tun> {
        let without = |e: io::Error| {
            tracing::info!("the kernel refuses queue selection ({e}); one thread reads all queues");
        };
        match QueueSelection::new().map_err(without) {
            Ok(selection) => Tun::with(cfg, Some(selection)),
            Err(()) => Tun::create(cfg),
        }
    }

    fn with(cfg: &TunConfig, selection: Option<QueueSelection>) -> io::Result<Tun> {
        std::fs::metadata("/dev/net/tun")?;
        // A device of that name that somebody else made is not ours to take over.
        // Asked of a socket, since /sys shows the namespace of whoever mounted it.
        let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
        if name_to_index(&socket, &cfg.name).is_ok() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // Twice the default, for the milliseconds in which another process has the CPU. It is not a queue: it is always read.
        let mut builder = DeviceBuilder::new()
            .name(&cfg.name)
            .mtu(cfg.mtu)
            .tx_queue_len(1000)
            .offload(cfg.offload)
            .multi_queue(selection.is_some());
        for (ip, prefix) in &cfg.addresses {
            if let IpAddr::V6(ip) = ip {
                builder = builder.ipv6(*ip, *prefix);
            }
        }
        let device = builder.build_sync()?;
        for (ip, prefix) in &cfg.addresses {
            if let IpAddr::V4(ip) = ip {
                device.add_address_v4(*ip, *prefix)?;
            }
        }
        device.set_nonblocking(true)?;
        if let Some(selection) = &selection {
            selection.attach(&device)?;
        }
        Ok(Tun { device: Arc::new(device), selection: selection.map(Arc::new) })
    }

    /// Whether each thread has a queue of its own.
    pub fn has_queues(&self) -> bool {
        self.selection.is_some()
    }

    /// The next queue of a device that has several, numbered from 0 as they are asked for; of another, one more name for its only one.
    ///
    /// # Errors
    /// What the system says.
    pub fn queue(&self) -> io::Result<Tun> {
        let mut queue = self.clone();
        if self.has_queues() {
            let device = self.device.try_clone()?;
            device.set_nonblocking(true)?;
            queue.device = Arc::new(device);
        }
        Ok(queue)
    }

    /// What is for these prefixes waits in the queues with these numbers, everything else in the first. Without queues this does nothing.
    ///
    /// # Errors
    /// What the system says; the device then selects queues by a part of them.
    pub fn assign_queues(&self, prefixes: impl IntoIterator<Item = (IpAddr, u8, u8)>) -> io::Result<()> {
        self.selection.as_ref().map_or(Ok(()), |selection| selection.set(prefixes))
    }

    /// One prefix more.
    ///
    /// # Errors
    /// What the system says.
    pub fn assign_queue(&self, ip: IpAddr, length: u8, queue: u8) -> io::Result<()> {
        self.selection.as_ref().map_or(Ok(()), |selection| selection.add(ip, length, queue))
    }

    /// Whether super-packets go in and out, each behind a header; [`Bursts`](crate::Bursts) knows what to do with them.
    pub fn offloads(&self) -> bool {
        self.device.tcp_gso()
    }

    pub(crate) fn device(&self) -> &SyncDevice {
        &self.device
    }

    /// Reads one packet, of a device without offload; `None` if there is none.
    ///
    /// # Errors
    /// What the system says, the device being gone among it.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match self.device.recv(buf) {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Hands one packet to the kernel, behind its header if the device has offload.
    ///
    /// # Errors
    /// `InvalidInput` for what the kernel does not take for an IP packet, and what else the system says.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        self.device.send(packet).map(|_| ())
    }

    /// Whether an error of [`read`](Self::read) or [`write`](Self::write) only says that the interface is down.
    pub fn is_down(e: &io::Error) -> bool {
        Errno::from_io_error(e) == Some(Errno::IO)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
