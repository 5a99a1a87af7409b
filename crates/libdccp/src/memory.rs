//! Reads and writes the caller's memory: texts, buffers, and structures that begin with their own size.

use crate::errno::{Outcome, failure, invalid};
use rustix::io::Errno;
use std::ffi::{CStr, c_char};
use std::slice;

/// A C structure whose first member is its size as a `size_t`, and which is valid if all its bytes are zero.
///
/// # Safety
/// Both properties must hold.
pub(crate) unsafe trait Structure: Copy {
    /// The name of the structure in C.
    const NAME: &'static str;
    /// The size of the structure in the first library version that had it, so that programs built for that
    /// version still work.
    const OLDEST: usize;
}

/// Reads a structure from the caller. Members missing from the caller's version of the structure read as
/// zero. Members unknown to this version must be zero.
///
/// # Safety
/// `from` must be null, or point to as many readable bytes as its first member states.
pub(crate) unsafe fn take<T: Structure>(from: *const T) -> Outcome<T> {
    if from.is_null() {
        return Err(invalid(format!("{} is null", T::NAME)));
    }
    // SAFETY: the caller guarantees at least this member, at any alignment.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    check::<T>(size)?;
    // SAFETY: as above, for `size` bytes.
    let given = unsafe { slice::from_raw_parts(from.cast::<u8>(), size) };
    let (known, rest) = given.split_at(size.min(size_of::<T>()));
    if rest.iter().any(|byte| *byte != 0) {
        return Err(failure(
            Errno::TOOBIG,
            format!(
                "{} sets a member that this version of the library does not have; update the library",
                T::NAME
            ),
        ));
    }
    // SAFETY: `T` is valid with all bytes zero. It is also valid with the bytes of members written by C,
    // which are numbers and pointers.
    let mut taken: T = unsafe { std::mem::zeroed() };
    // SAFETY: `known` is not longer than `T`, and a local variable does not overlap with it.
    unsafe { std::ptr::copy_nonoverlapping(known.as_ptr(), (&raw mut taken).cast(), known.len()) };
    Ok(taken)
}

/// Reads `count` consecutive structures, all of the size stated by the first.
///
/// # Safety
/// `from` must be null, or point to `count` structures.
pub(crate) unsafe fn take_all<T: Structure>(from: *const T, count: usize) -> Outcome<Vec<T>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: there is at least one structure.
    let first = unsafe { take(from) }?;
    // SAFETY: `take` read this member.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    let mut all = vec![first];
    for n in 1..count {
        // SAFETY: there are `count` structures, each `size` bytes after the previous one.
        let next = unsafe { from.byte_add(n * size) };
        // SAFETY: as above.
        if unsafe { next.cast::<usize>().read_unaligned() } != size {
            return Err(invalid(format!(
                "array of {}: element {n} has another size than element 0",
                T::NAME
            )));
        }
        // SAFETY: as above.
        all.push(unsafe { take(next) }?);
    }
    Ok(all)
}

/// Writes a structure, up to the size stated by the caller's structure. Sets the first member to the number
/// of bytes written.
///
/// # Safety
/// `into` must be null, or point to as many writable bytes as its first member states.
pub(crate) unsafe fn give<T: Structure>(into: *mut T, value: &T) -> Outcome<()> {
    if into.is_null() {
        return Err(invalid(format!("{} is null", T::NAME)));
    }
    // SAFETY: the caller guarantees at least this member.
    let size = unsafe { into.cast::<usize>().read_unaligned() };
    check::<T>(size)?;
    let size = size.min(size_of::<T>());
    // SAFETY: both have `size` bytes, and `value` is not in the caller's memory.
    unsafe { std::ptr::copy_nonoverlapping((&raw const *value).cast::<u8>(), into.cast(), size) };
    // SAFETY: as above.
    unsafe { into.cast::<usize>().write_unaligned(size) };
    Ok(())
}

fn check<T: Structure>(size: usize) -> Outcome<()> {
    // No version of a structure will ever be larger than a page, so a larger value means that the caller's
    // memory is uninitialized.
    if (T::OLDEST..=4096).contains(&size) {
        return Ok(());
    }
    Err(invalid(format!(
        "the member `size` of {} is {size}; set it to sizeof, which is {} in this version",
        T::NAME,
        size_of::<T>()
    )))
}

/// Reads a text that may be null.
///
/// # Safety
/// `text` must be null, or point to a string that ends with a null byte.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees this.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map(Some).map_err(|_| invalid(format!("{what} is not UTF-8")))
}

/// Reads a text that must not be null.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn needed_text<'a>(from: *const c_char, what: &str) -> Outcome<&'a str> {
    // SAFETY: the caller guarantees this.
    unsafe { text(from, what) }?.ok_or_else(|| invalid(format!("{what} is null")))
}

/// Returns the caller's bytes, such as those of a datagram.
///
/// # Safety
/// `data` must be null, or point to `len` readable bytes that do not change during the call.
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize) -> Outcome<&'a [u8]> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(invalid("the data is null")),
        (_, len) if isize::try_from(len).is_err() => Err(invalid("the length is negative")),
        // SAFETY: the caller guarantees this.
        _ => Ok(unsafe { slice::from_raw_parts(data, len) }),
    }
}

/// Returns the caller's buffer for a datagram or a text.
///
/// # Safety
/// `room` must be null, or point to `len` initialized bytes that nothing else uses during the call.
pub(crate) unsafe fn room<'a>(room: *mut u8, len: usize) -> Outcome<&'a mut [u8]> {
    match (room.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(invalid("the buffer is null")),
        (_, len) if isize::try_from(len).is_err() => Err(invalid("the length is negative")),
        // SAFETY: the caller guarantees this.
        _ => Ok(unsafe { slice::from_raw_parts_mut(room, len) }),
    }
}

/// Writes a text and a null byte. Returns the length of the text.
///
/// # Safety
/// As for [`room`].
pub(crate) unsafe fn give_text(into: *mut c_char, size: usize, text: &str) -> Outcome<usize> {
    // SAFETY: the caller guarantees this.
    let into = unsafe { room(into.cast(), size) }?;
    if into.len() <= text.len() {
        return Err(failure(
            Errno::RANGE,
            format!("the buffer is too small; expected at least {} bytes", text.len() + 1),
        ));
    }
    into[..text.len()].copy_from_slice(text.as_bytes());
    into[text.len()] = 0;
    Ok(text.len())
}
