use crate::queue_selection::QueueSelection;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Configuration of a TUN device.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Interface name, at most 15 bytes.
    pub name: String,
    /// Addresses, each with its prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Whether to exchange super-packets with the kernel, for [`Bursts`](crate::Bursts). If not, or if the
    /// kernel does not support super-packets, each call passes one packet.
    pub offload: bool,
}

/// A TUN device, which reads and writes whole IP packets. The interface exists until this value and all its
/// clones are dropped.
#[derive(Clone)]
pub struct Tun {
    device: Arc<SyncDevice>,
    /// Selects the queue of a packet. Set only if the device has several queues.
    selection: Option<Arc<QueueSelection>>,
}

impl Tun {
    /// Creates the interface, assigns its addresses and brings it up.
    ///
    /// # Errors
    /// The error of the system; `PermissionDenied` without CAP_NET_ADMIN, `NotFound` without /dev/net/tun,
    /// `ResourceBusy` if the name is in use.
    pub fn create(cfg: &TunConfig) -> io::Result<Tun> {
        Tun::with(cfg, None)
    }

    /// Creates an interface like [`create`](Self::create), but with several queues, one per thread. Returns
    /// the first queue; [`queue`](Self::queue) returns the others. [`assign_queues`](Self::assign_queues)
    /// assigns packets to queues, which needs CAP_BPF. If the kernel refuses this, the device has only one
    /// queue.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
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
        // Do not take over a device with this name that another program has created. Ask through a socket,
        // because /sys shows the network namespace of the process that mounted it.
        let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
        if name_to_index(&socket, &cfg.name).is_ok() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // The queue is twice as long as the default, to bridge a few milliseconds in which another process
        // has the CPU. It causes no lasting delay, because the device is always being read.
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

    /// Returns whether the device has a queue for each thread.
    pub fn has_queues(&self) -> bool {
        self.selection.is_some()
    }

    /// Returns the next queue of a device with several queues. The queues are numbered from 0 in the order of
    /// calls. If the device has one queue, returns a clone of it.
    ///
    /// # Errors
    /// The system's error.
    pub fn queue(&self) -> io::Result<Tun> {
        let mut queue = self.clone();
        if self.has_queues() {
            let device = self.device.try_clone()?;
            device.set_nonblocking(true)?;
            queue.device = Arc::new(device);
        }
        Ok(queue)
    }

    /// Assigns the packets for each prefix to the queue with the given number, and all other packets to the
    /// first queue. Has no effect on a device with one queue.
    ///
    /// # Errors
    /// The error of the system. After an error, only some of the prefixes are in effect.
    pub fn assign_queues(&self, prefixes: impl IntoIterator<Item = (IpAddr, u8, u8)>) -> io::Result<()> {
        self.selection.as_ref().map_or(Ok(()), |selection| selection.set(prefixes))
    }

    /// Assigns the packets for one more prefix to a queue.
    ///
    /// # Errors
    /// The system's error.
    pub fn assign_queue(&self, ip: IpAddr, length: u8, queue: u8) -> io::Result<()> {
        self.selection.as_ref().map_or(Ok(()), |selection| selection.add(ip, length, queue))
    }

    /// Returns whether the device exchanges super-packets with a virtio header, as [`Bursts`](crate::Bursts)
    /// does.
    pub fn offloads(&self) -> bool {
        self.device.tcp_gso()
    }

    pub(crate) fn device(&self) -> &SyncDevice {
        &self.device
    }

    /// Reads one packet from a device without offload. Returns `None` if there is none.
    ///
    /// # Errors
    /// The error of the system, for example if the device is gone.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match self.device.recv(buf) {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Passes one packet to the kernel. If the device has offload, a virtio header precedes the packet.
    ///
    /// # Errors
    /// `InvalidInput` if the kernel does not accept the data as an IP packet, or another error of the system.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        self.device.send(packet).map(|_| ())
    }

    /// Returns whether an error of [`read`](Self::read) or [`write`](Self::write) only means that the
    /// interface is down.
    pub fn is_down(e: &io::Error) -> bool {
        Errno::from_io_error(e) == Some(Errno::IO)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
