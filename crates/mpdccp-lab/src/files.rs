//! Writes files.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::LabError;

/// Writes a file and, if needed, creates its directory. If this fails, for example because the disk is full,
/// an earlier file of the same name stays.
pub(crate) fn write(file: &Path, content: impl AsRef<[u8]>) -> Result<(), LabError> {
    fs::create_dir_all(directory(file))
        .and_then(|()| whole(file, content.as_ref()))
        .map_err(|e| LabError::failed(format!("cannot write {}", file.display()), e))
}

/// Writes a file under another name and then renames it, so that an existing file is always complete. The
/// name is a new one, because another process or thread may write the same file at the same time: two points
/// of a sweep over another variant's settings are the same run. After an error, nothing is left.
pub(crate) fn whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    // Replace the file to which a symbolic link leads, not the link.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    // The umask reduces these permissions.
    let permissions = Permissions::from_mode(0o666);
    let mut part = tempfile::Builder::new().permissions(permissions).tempfile_in(directory(file))?;
    part.write_all(bytes)?;
    part.persist(file)?;
    Ok(())
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let (inner, file) = (dir.path().join("a"), dir.path().join("a/b.csv"));
        for content in ["1", "2"] {
            write(&file, content).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "3").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "3");
        // A file cannot replace a directory.
        let error = write(&inner, "3").unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot write {}: ", inner.display())), "{error}");
        assert_eq!([dir.path(), &inner].map(|dir| fs::read_dir(dir).unwrap().count()), [2, 1]);
    }
}
