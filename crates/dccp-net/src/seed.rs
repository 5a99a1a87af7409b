use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// A seed from the system's randomness.
///
/// # Errors
/// The system's error.
pub fn random_seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    // Requests this small always return in full.
    match getrandom(&mut seed, GetRandomFlags::empty())? {
        32 => Ok(seed),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
