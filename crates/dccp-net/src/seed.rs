use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Returns a random seed from the system.
///
/// # Errors
/// The system's error.
pub fn random_seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    // The system always answers a request of this size completely.
    match getrandom(&mut seed, GetRandomFlags::empty())? {
        32 => Ok(seed),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
