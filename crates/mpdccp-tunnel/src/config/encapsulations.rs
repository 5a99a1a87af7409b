//! Determines the encapsulation of each path of a client.

use super::{Config, Encapsulation, PathSpec};

impl Config {
    /// Returns the encapsulation of a client's path.
    pub fn encapsulation_of(&self, path: &PathSpec) -> Encapsulation {
        path.encapsulation.unwrap_or(self.encapsulation)
    }

    /// Copies the file's default encapsulation into each of a client's paths, so that a reload sees which
    /// paths change.
    pub(crate) fn settle_encapsulations(&mut self) {
        if !self.is_client() {
            return;
        }
        let (encapsulation, port) = (self.encapsulation, self.tls_port);
        for path in self.peers.iter_mut().flat_map(|peer| &mut peer.as_mut().paths) {
            let path = path.as_mut();
            path.encapsulation.get_or_insert(encapsulation);
            path.tls_port.get_or_insert(port);
        }
    }
}
