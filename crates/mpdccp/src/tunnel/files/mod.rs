//! Writes configurations: for a new tunnel (`init`), or from a WireGuard configuration (`import`).

pub(crate) mod import;
pub(crate) mod init;
mod lines;
mod wg_quick;

use crate::error::Error;
use mpdccp_tunnel::config::Config;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file to write.
struct NewFile {
    path: PathBuf,
    text: String,
}

/// Formats a string in TOML syntax.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Formats a list of strings in TOML syntax.
fn list<T: ToString>(all: &[T]) -> String {
    let all: Vec<String> = all.iter().map(|one| quoted(&one.to_string())).collect();
    format!("[{}]", all.join(", "))
}

/// Formats a path as a word of a shell command.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    match text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@".contains(c)) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Writes all files, readable only by the owner. Replaces existing files only with `force`, and only once all
/// new files have been written completely.
fn write(files: &[NewFile], force: bool) -> Result<(), Error> {
    for NewFile { path, text } in files {
        let wrong = Config::review(text, 1).errors;
        if let Some(first) = wrong.first() {
            return Err(Error::usage(format!("the generated file {} is not valid: {first}", path.display())));
        }
        if path.exists() && !force {
            let shown = path.display();
            return Err(Error::usage(format!(
                "{shown} exists and may contain the only copy of a key; move the file away, or overwrite it with --force"
            )));
        }
    }
    let mut done = Vec::new();
    let mut all = files.iter().try_for_each(|file| {
        let new = file.path.with_extension("toml.new");
        write_new(&new, &file.text).map_err(|e| cannot(&file.path, &e))?;
        done.push(new);
        Ok(())
    });
    if all.is_ok() {
        all = files
            .iter()
            .zip(&done)
            .try_for_each(|(file, new)| fs::rename(new, &file.path).map_err(|e| cannot(&file.path, &e)));
    }
    if all.is_err() {
        // Remove the new files that have not been renamed. Renamed files are complete, so they stay.
        done.iter().for_each(|new| drop(fs::remove_file(new)));
    }
    all
}

fn cannot(path: &Path, e: &std::io::Error) -> Error {
    Error::usage(format!("cannot write {}: {e}", path.display()))
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const TEXT: &str = "role = \"server\"\nsecurity = \"none\"\nlisten = [\"0.0.0.0\"]\naddresses = [\"10.0.0.1/24\"]\n\
        [[peer]]\nname = \"a\"\nfrom = \"any\"\nallowed_ips = [\"10.0.0.2/32\"]\n";

    #[test]
    fn a_path_is_one_word_of_a_command() {
        for (path, word) in [
            ("./server.toml", "./server.toml"),
            ("my tunnels/a.toml", "'my tunnels/a.toml'"),
            ("it's $HOME.toml", r"'it'\''s $HOME.toml'"),
        ] {
            assert_eq!(shell_word(path.as_ref()), word);
            let echo = std::process::Command::new("sh").args(["-c", &format!("printf %s {word}")]).output();
            assert_eq!(echo.unwrap().stdout, path.as_bytes());
        }
    }

    #[test]
    fn all_files_are_written_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let file = |path: PathBuf| NewFile { path, text: TEXT.into() };
        let [a, b] = ["a.toml", "b.toml"].map(|name| directory.path().join(name));
        let lost = directory.path().join("none/c.toml");
        let count = || fs::read_dir(directory.path()).unwrap().count();
        assert!(write(&[file(a.clone()), file(lost)], false).is_err());
        assert_eq!(count(), 0);
        write(&[file(a.clone()), file(b.clone())], false).unwrap();
        assert_eq!(fs::metadata(&a).unwrap().permissions().mode() & 0o777, 0o600);
        let refused = write(&[file(b.clone())], false).unwrap_err().to_string();
        assert!(refused.contains("b.toml exists"), "{refused}");
        write(&[file(b)], true).unwrap();
        assert_eq!(count(), 2);
        let wrong = NewFile { path: a, text: "role = 1".into() };
        assert!(write(&[wrong], true).unwrap_err().to_string().contains("is not valid"));
    }
}
