//! `mpdccp genkey`, `pubkey` and `genpsk` print keys in the format of WireGuard's tools.

use crate::error::{Error, remedy};
use dccp_secure::{PresharedKey, PrivateKey};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::io::{ErrorKind, IsTerminal, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zeroize::Zeroizing;

pub(crate) const EXAMPLES: &str = "Examples:
  (umask 077; mpdccp genkey > /etc/mpdccp/private.key)
  mpdccp pubkey < /etc/mpdccp/private.key
  (umask 077; mpdccp genkey | tee private.key | mpdccp pubkey)";

/// Prints a new private key.
pub(crate) fn genkey() -> Result<(), Error> {
    println!("{}", *PrivateKey::from_random(random()?).to_base64());
    Ok(())
}

/// Prints a new preshared key.
pub(crate) fn genpsk() -> Result<(), Error> {
    println!("{}", *PresharedKey::from_random(random()?).to_base64());
    Ok(())
}

/// Reads a private key from standard input and prints its public key.
pub(crate) fn pubkey() -> Result<(), Error> {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        return Err(Error::usage("pubkey reads a private key from standard input: mpdccp pubkey < FILE"));
    }
    let mut text = Zeroizing::new(String::new());
    input.read_to_string(&mut text).map_err(|e| Error::usage(format!("cannot read standard input: {e}")))?;
    let key: PrivateKey = text.parse().map_err(|e| Error::usage(format!("standard input: {e}")))?;
    println!("{}", key.public());
    Ok(())
}

/// Protects the keys in memory: prevents core dumps, and access by other processes of the same user (ptrace,
/// /proc).
pub(crate) fn guard_memory() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let guarded = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // If the kernel pipes core dumps to a program, the limit has no effect, and only the `dumpable` flag
    // prevents them.
    if let Err(e) = guarded.and_then(|()| setrlimit(Resource::Core, none)) {
        tracing::warn!("cannot disable core dumps, which may contain keys: {e}");
    }
}

/// Reads a secret from a file that only its owner may read, and guards the memory of this process. `name` is
/// the key or flag that refers to the file.
pub(crate) fn read_secret(name: &str, path: &Path) -> Result<Zeroizing<String>, Error> {
    guard_memory();
    let shown = path.display();
    let cannot =
        |e: std::io::Error| Error::usage(format!("{name}: cannot read {shown}: {e}{}", remedy(&e, path)));
    let mut file = std::fs::File::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if metadata.is_dir() {
        return Err(cannot(ErrorKind::IsADirectory.into()));
    }
    let mode = metadata.mode();
    if mode & 0o077 != 0 {
        return Err(Error::usage(format!(
            "{name}: other users can read {shown} (mode {:03o}); run: chmod 600 {shown}",
            mode & 0o777
        )));
    }
    let mut text = Zeroizing::new(String::new());
    file.read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

pub(crate) fn random() -> Result<[u8; 32], Error> {
    dccp_net::random_seed()
        .map_err(|e| Error::runtime(format!("cannot get random bytes from the system: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_read_a_secret_leaves_no_core() {
        let file = tempfile::NamedTempFile::new().unwrap();
        read_secret("key", file.path()).unwrap();
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(rustix::process::getrlimit(Resource::Core).maximum, Some(0));
    }
}
