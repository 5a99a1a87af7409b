//! Named network namespaces, a directory for their files, and tunnel ends in them. Dropping the value removes
//! everything.

use super::host::{able, run, wait_for, write_private};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Spaces {
    id: String,
    names: &'static [&'static str],
    directory: tempfile::TempDir,
    pub(crate) ends: Vec<Child>,
}

impl Spaces {
    /// Creates the namespaces. `id` identifies the test, and the names of the namespaces begin with it. If a
    /// test that needs these programs cannot run here, prints the reason and returns `None`.
    pub(crate) fn new(id: &str, names: &'static [&'static str], programs: &[&str]) -> Option<Spaces> {
        if !able(programs) {
            return None;
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{id}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let spaces = Spaces { id, names, directory: tempfile::tempdir().unwrap(), ends: Vec::new() };
        for name in names {
            assert!(run("ip", &format!("netns add {}", spaces.space(name))).status.success());
            spaces.sh(name, "ip link set lo up");
        }
        Some(spaces)
    }

    pub(crate) fn space(&self, name: &str) -> String {
        format!("{}{name}", self.id)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Joins an interface in one namespace to an interface in another.
    pub(crate) fn link(&self, (a, at): (&str, &str), (b, bt): (&str, &str)) {
        let [a, b] = [a, b].map(|name| self.space(name));
        let made = run("ip", &format!("link add {at} netns {a} type veth peer name {bt} netns {b}"));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// Returns a command that runs a program in a namespace. `ip` replaces itself with the program (exec), so
    /// the started process becomes the program.
    pub(crate) fn command(&self, name: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(name), program]);
        command
    }

    /// Runs shell commands in a namespace.
    pub(crate) fn sh(&self, name: &str, commands: &str) {
        let output = self.command(name, "sh").args(["-ec", commands]).output().unwrap();
        assert!(output.status.success(), "{commands}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns a command that runs mpdccp with these arguments in a namespace.
    pub(crate) fn mpdccp(&self, name: &str, args: &str) -> Command {
        let mut command = self.command(name, env!("CARGO_BIN_EXE_mpdccp"));
        command.args(args.split_whitespace()).stdout(Stdio::null());
        command
    }

    /// Writes the configuration of a tunnel end.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let (file, control) = (self.path(&format!("{name}.toml")), self.path(&format!("{name}.sock")));
        write_private(&file, &format!("control = {control:?}\n{text}"));
    }

    /// Replaces a file in /etc for programs in a namespace.
    pub(crate) fn etc(&self, name: &str, file: &str, text: &str) {
        let directory = format!("/etc/netns/{}", self.space(name));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(format!("{directory}/{file}"), text).unwrap();
    }

    /// Starts a tunnel end whose configuration exists.
    pub(crate) fn start(&mut self, name: &str) {
        let log = std::fs::File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut command = self.mpdccp(name, "tunnel up --config");
        command.arg(self.path(&format!("{name}.toml")));
        self.ends.push(command.stderr(log).spawn().unwrap());
        let control = self.path(&format!("{name}.sock"));
        wait_for("control socket", || control.exists());
    }

    /// Starts a tunnel end with this configuration.
    pub(crate) fn up(&mut self, name: &str, text: &str) {
        self.write(name, text);
        self.start(name);
    }

    /// Returns whether all paths of a tunnel end are up.
    pub(crate) fn is_healthy(&self, name: &str) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        command.args(["tunnel", "health", "--all-paths", "--config"]).arg(self.path(&format!("{name}.sock")));
        command.output().unwrap().status.success()
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        command.args(["tunnel", "status", "--json", "--config"]).arg(self.path(&format!("{name}.sock")));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for child in &mut self.ends {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in self.names {
            let log = self.path(&format!("{name}.log"));
            if std::thread::panicking() && log.exists() {
                println!("--- {name}\n{}", std::fs::read_to_string(log).unwrap());
            }
            run("ip", &format!("netns del {}", self.space(name)));
            let _ = std::fs::remove_dir_all(format!("/etc/netns/{}", self.space(name)));
        }
    }
}
