use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Opens or creates a file that only its owner may read, such as a capture.
///
/// # Errors
/// The system's error.
pub fn private_file(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = how.create(true).mode(0o600).open(path)?;
    // A file that existed before has kept its mode. A device such as /dev/null must stay usable by everyone.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_becomes_private() {
        let path = std::env::temp_dir().join(format!("mpdccp-private-{}", std::process::id()));
        // A named pipe stands for a device here, because a failing test must not change a device.
        let mut command = std::process::Command::new("mkfifo");
        assert!(command.args(["-m", "644"]).arg(&path).status().unwrap().success());
        // Without a reader, opening the pipe would block.
        let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let opened = private_file(OpenOptions::new().write(true).truncate(true), &path).map(drop);
        let mode = reader.metadata().unwrap().permissions().mode() & 0o777;
        std::fs::remove_file(&path).unwrap();
        assert!(opened.is_ok());
        assert_eq!(mode, 0o644);
    }
}
