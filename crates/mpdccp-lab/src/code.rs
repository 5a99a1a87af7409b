//! Identifies the program that produced a result.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

/// The commit this program was built from, or `None` if it was built outside a git checkout.
pub const COMMIT: Option<&str> = option_env!("MPDCCP_COMMIT");

/// Returns whether the sources differed from [`COMMIT`] at build time, or `None` outside a git checkout.
pub fn dirty() -> Option<bool> {
    COMMIT.map(|_| option_env!("MPDCCP_DIRTY") != Some("false"))
}

/// Returns text that identifies this build. It consists of the commit and, if the sources had uncommitted
/// changes, a hash of the executable, because two builds of one commit can contain different changes.
pub fn id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| match (COMMIT, dirty()) {
        (Some(commit), Some(false)) => commit.to_owned(),
        (Some(commit), _) => format!("{commit}-dirty-{}", program()),
        (None, _) => format!("{}-{}", env!("CARGO_PKG_VERSION"), program()),
    })
}

/// Returns the commit in the form that reports show.
pub(crate) fn words() -> String {
    match (COMMIT, dirty()) {
        (None, _) => "commit unknown".to_owned(),
        (Some(commit), Some(false)) => format!("commit {commit}"),
        (Some(commit), _) => format!("commit {commit} with changes"),
    }
}

/// Returns the hash of a file.
pub(crate) fn hash_of_file(path: &Path) -> io::Result<String> {
    let mut file = BufReader::new(File::open(path)?);
    let (mut hash, mut part) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&part[..n]),
        }
    }
}

/// Returns a hash of the running program's executable. If the file cannot be read, returns a value that no
/// other run has.
fn program() -> String {
    std::env::current_exe().and_then(|path| hash_of_file(&path)).unwrap_or_else(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        format!("unread{}", now.as_nanos())
    })
}

/// Returns the first 16 hexadecimal digits of a hash, which are enough to avoid collisions.
fn hex(hash: &[u8]) -> String {
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hash of a text.
pub(crate) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text))
}
