use rustix::process::geteuid;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{ExitCode, Termination};

/// The program's error type: one message that says what is wrong, where, and how to fix it.
#[derive(Debug)]
pub(crate) struct Error {
    message: String,
    /// Exit code.
    pub(crate) code: ExitCode,
}

impl Error {
    /// Creates an error for wrong input or a missing prerequisite, which the user can fix. The exit code is
    /// 2.
    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error { message: message.into(), code: ExitCode::from(2) }
    }

    /// Creates an error for a missing prerequisite. `absent` means that the prerequisite may appear later.
    /// The exit code is then 1, so that a service manager tries again; otherwise it is 2.
    pub(crate) fn missing(absent: bool, message: impl Into<String>) -> Error {
        if absent { Error::runtime(message) } else { Error::usage(message) }
    }

    /// Creates an error for a failure at run time. The exit code is 1.
    pub(crate) fn runtime(message: impl Into<String>) -> Error {
        Error { message: message.into(), code: ExitCode::from(1) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        Error::runtime(e.to_string())
    }
}

/// Prints an error, if there is one, and returns the exit code.
pub(crate) fn finish(result: Result<impl Termination, Error>) -> ExitCode {
    match result {
        Ok(done) => done.report(),
        Err(error) => {
            eprintln!("mpdccp: {error}");
            error.code
        }
    }
}

/// Returns what helps against this error in reading or creating a file, as the end of a message. It is empty
/// if the error says enough.
pub(crate) fn remedy(e: &std::io::Error, file: &Path) -> String {
    match e.kind() {
        // In the packaged unit, root may not read other users' files.
        ErrorKind::PermissionDenied if geteuid().is_root() => {
            format!("; if it belongs to another user, run: chown root {}", file.display())
        }
        ErrorKind::PermissionDenied => "; use sudo".into(),
        ErrorKind::ReadOnlyFilesystem => {
            "; if the tunnel runs under systemd, use a file below /var/lib/mpdccp or /run/mpdccp".into()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_place_names_the_writable_ones() {
        let remedy = |kind: ErrorKind| remedy(&kind.into(), Path::new("/opt/capture.pcap"));
        assert!(remedy(ErrorKind::ReadOnlyFilesystem).contains("below /var/lib/mpdccp"));
        assert_eq!(remedy(ErrorKind::StorageFull), "");
    }
}
