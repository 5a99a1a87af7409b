//! Assigns packets to the queues of a TUN device by the prefix of their destination. By default, the kernel
//! selects the queue by a hash of the flow. If an answer is written to another queue, the kernel moves the
//! flow there at once, although packets of the flow are still waiting in the first queue. With this
//! assignment, a flow stays in one queue, because it has only one destination.
#![expect(unsafe_code, reason = "no crate offers a safe bpf(2)")]

use nix::libc;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Maximum number of prefixes. The map allocates memory only for the prefixes that it has.
const MOST_PREFIXES: u32 = 1 << 20;

// Constants from <linux/bpf.h>.
const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const PROGRAM_LOAD: i32 = 5;
const LPM_TRIE: u32 = 11;
const NO_PREALLOCATION: u32 = 1;
const SOCKET_FILTER: u32 = 1;
const LOOK_UP: i32 = 1;
const LOAD_BYTES: i32 = 26;

#[repr(C)]
struct NewMap {
    kind: u32,
    key_size: u32,
    value_size: u32,
    most: u32,
    flags: u32,
}

#[repr(C)]
struct Element {
    map: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct NewProgram {
    kind: u32,
    instructions: u32,
    first: u64,
    license: u64,
}

/// A prefix in the format of the kernel's trie: its length in bits and an IPv6 address. An IPv4 address is
/// IPv4-mapped.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    length: u32,
    address: [u8; 16],
}

impl Key {
    fn of(ip: IpAddr, length: u8) -> Key {
        match ip {
            IpAddr::V4(ip) => Key { length: 96 + u32::from(length), address: ip.to_ipv6_mapped().octets() },
            IpAddr::V6(ip) => Key { length: length.into(), address: ip.octets() },
        }
    }
}

/// An eBPF instruction as in <linux/bpf.h>.
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

fn op(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    Instruction { code, registers, offset, value }
}

/// Returns the program, which returns the queue of the longest prefix that contains the packet's destination,
/// or 0 if no prefix does. On its stack, it has a [`Key`] at -20 and a byte at -24.
fn program(map: i32) -> Vec<Instruction> {
    const V4: usize = 25;
    const LOOKUP: usize = 32;
    const NONE: usize = 38;
    const FOUND: usize = 40;
    let copy = |to, from| op(0xbf, to, from, 0, 0);
    let add = |to, value| op(0x07, to, 0, 0, value);
    let set = |to, value| op(0xb7, to, 0, 0, value);
    let store = |at, value| op(0x62, 10, 0, at, value);
    let call = |function| op(0x85, 0, 0, 0, function);
    let load =
        |from, at, len| [copy(1, 6), set(2, from), copy(3, 10), add(3, at), set(4, len), call(LOAD_BYTES)];
    let go = |code: &mut Vec<Instruction>, jump: u8, register: u8, value: i32, place: usize| {
        code.push(op(jump, register, 0, (place - code.len() - 1) as i16, value));
    };
    const ALWAYS: u8 = 0x05;
    const IF: u8 = 0x15;
    const UNLESS: u8 = 0x55;
    let mapped = i32::from_ne_bytes([0, 0, 0xff, 0xff]);
    let mut code =
        vec![copy(6, 1), store(-20, 128), store(-16, 0), store(-12, 0), store(-8, mapped), store(-4, 0)];
    code.extend(load(0, -24, 1));
    go(&mut code, UNLESS, 0, 0, NONE);
    code.extend([op(0x71, 1, 10, -24, 0), op(0x77, 1, 0, 0, 4)]);
    go(&mut code, IF, 1, 4, V4);
    go(&mut code, UNLESS, 1, 6, NONE);
    code.extend(load(24, -16, 16));
    go(&mut code, UNLESS, 0, 0, NONE);
    go(&mut code, ALWAYS, 0, 0, LOOKUP);
    debug_assert_eq!(code.len(), V4);
    code.extend(load(16, -4, 4));
    go(&mut code, UNLESS, 0, 0, NONE);
    debug_assert_eq!(code.len(), LOOKUP);
    code.extend([op(0x18, 1, 1, 0, map), op(0, 0, 0, 0, 0), copy(2, 10), add(2, -20), call(LOOK_UP)]);
    go(&mut code, UNLESS, 0, 0, FOUND);
    debug_assert_eq!(code.len(), NONE);
    code.extend([set(0, 0), op(0x95, 0, 0, 0, 0)]);
    debug_assert_eq!(code.len(), FOUND);
    code.extend([op(0x61, 0, 0, 0, 0), op(0x95, 0, 0, 0, 0)]);
    code
}

/// The eBPF program that selects queues, and its prefixes.
pub(crate) struct QueueSelection {
    map: OwnedFd,
    program: OwnedFd,
    known: Mutex<BTreeMap<Key, u32>>,
}

impl QueueSelection {
    /// Loads a program without prefixes, which selects queue 0 for all packets.
    ///
    /// # Errors
    /// The error of the system, for example `PermissionDenied` without CAP_BPF.
    pub(crate) fn new() -> io::Result<QueueSelection> {
        let key_size = size_of::<Key>() as u32;
        let map =
            NewMap { kind: LPM_TRIE, key_size, value_size: 4, most: MOST_PREFIXES, flags: NO_PREALLOCATION };
        let map = descriptor(MAP_CREATE, &map)?;
        let code = program(map.as_raw_fd());
        let (first, license) = (code.as_ptr() as u64, c"MIT".as_ptr() as u64);
        let program = NewProgram { kind: SOCKET_FILTER, instructions: code.len() as u32, first, license };
        let program = descriptor(PROGRAM_LOAD, &program)?;
        Ok(QueueSelection { map, program, known: Mutex::default() })
    }

    /// Attaches the program to a device.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn attach(&self, device: impl AsFd) -> io::Result<()> {
        let program: libc::c_int = self.program.as_raw_fd();
        // SAFETY: the call reads an int from the pointer, and both descriptors are open.
        let done =
            unsafe { libc::ioctl(device.as_fd().as_raw_fd(), libc::TUNSETSTEERINGEBPF, &raw const program) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Assigns the packets for a prefix to a queue.
    ///
    /// # Errors
    /// The error of the system, for example if there are too many prefixes.
    pub(crate) fn add(&self, ip: IpAddr, length: u8, queue: u8) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, queue) = (Key::of(ip, length), u32::from(queue));
        self.change(MAP_UPDATE, &key, &queue)?;
        known.insert(key, queue);
        Ok(())
    }

    /// Replaces all prefixes, without rewriting entries that stay the same.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub(crate) fn set(&self, prefixes: impl IntoIterator<Item = (IpAddr, u8, u8)>) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = prefixes.into_iter().map(|(ip, length, queue)| (Key::of(ip, length), u32::from(queue)));
        let wanted: BTreeMap<Key, u32> = wanted.collect();
        for (key, queue) in wanted.iter().filter(|(key, queue)| known.get(key) != Some(queue)) {
            self.change(MAP_UPDATE, key, queue)?;
        }
        for key in known.keys().filter(|key| !wanted.contains_key(key)) {
            self.change(MAP_DELETE, key, &0)?;
        }
        *known = wanted;
        Ok(())
    }

    fn change(&self, command: i32, key: &Key, queue: &u32) -> io::Result<()> {
        let (key, value) = (std::ptr::from_ref(key) as u64, std::ptr::from_ref(queue) as u64);
        let value = if command == MAP_UPDATE { value } else { 0 };
        bpf(command, &Element { map: self.map.as_raw_fd() as u32, key, value, flags: 0 }).map(|_| ())
    }
}

fn descriptor<T>(command: i32, arguments: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, arguments)?;
    // SAFETY: these commands return a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf<T>(command: i32, arguments: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads the given number of bytes. The memory to which pointers in them
    // point lives until the call returns, and the kernel does not write to it.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(arguments), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
