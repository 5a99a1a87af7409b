//! Network namespaces that `ip netns` created.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// An open handle to a network namespace.
#[derive(Debug)]
pub struct Entrance(fs::File);

impl Entrance {
    /// Opens the namespace that `ip netns` knows by this name.
    ///
    /// # Errors
    /// Fails with `NotFound` if there is no such namespace.
    pub fn open(name: &str) -> io::Result<Entrance> {
        fs::File::open(format!("/run/netns/{name}")).map(Entrance)
    }

    /// Runs `what` on a thread inside the namespace.
    ///
    /// # Errors
    /// Fails if the system does not allow a thread to enter the namespace.
    pub fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.enter().map(|()| what()));
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread in a namespace panicked")))
        })
    }

    /// Moves the calling thread into the namespace.
    ///
    /// # Errors
    /// Fails if the system does not allow the thread to enter the namespace.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}
