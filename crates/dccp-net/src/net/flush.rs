//! Sends the packets of a turn.

use super::Net;
use crate::batch::Run;
use crate::capture::Form;
use crate::channels::{address, is_channel};
use crate::{Burst, SendError};
use mpdccp_units::Time;
use std::fs::File;
use std::io::Write;

impl Net {
    /// Sends the batch and the channels' own messages.
    pub(crate) fn flush(&mut self, now: Time) {
        let mut runs = self.batch.take();
        for run in runs.drain(..) {
            self.send(now, run);
        }
        self.batch.put_list(runs);
        self.ask(now);
        self.send_messages(now);
        self.write_keys();
    }

    fn send(&mut self, now: Time, mut run: Run) {
        let Net { sockets, links, routes, batch, capture, marking, parts, refused, qlog, .. } = self;
        run.parts(marking.as_deref(), parts);
        let route = *run.route();
        if let Some(qlog) = qlog {
            run.packets().for_each(|packet| qlog.packet(now, true, packet, run.ecn()));
        }
        let to = if is_channel(route.socket) {
            let Some(routes) = routes else { return batch.put(run) };
            let Some(to) = routes.seal(now, route.socket, run.records_mut()) else { return batch.put(run) };
            to
        } else {
            address(&route)
        };
        let Some(encapsulation) = sockets.get_mut(&to.socket) else { return batch.put(run) };
        for part in &*parts {
            let burst = run.burst_to(part, to.local, to.remote);
            if let Some(capture) = capture {
                let form = if is_channel(route.socket) { Form::Sealed } else { Form::Dccp };
                capture.sent(to.socket, &**encapsulation, &burst, form);
            }
            // Only count other errors, because congestion control detects the loss. A successful send does
            // not prove that a broken link works again.
            if let Err(SendError::LinkDown(e)) = encapsulation.send(&burst) {
                links.mark(now, route.socket, route.remote, e.to_string());
            }
            refused.extend(encapsulation.refused().into_iter().map(|remote| (to.socket, remote)));
        }
        batch.put(run);
    }

    /// Sends the handshakes and cookies of channels.
    fn send_messages(&mut self, now: Time) {
        let Net { sockets, links, routes: Some(routes), capture, refused, .. } = self else { return };
        while let Some((to, message)) = routes.channels.poll_transmit() {
            let Some(encapsulation) = sockets.get_mut(&to.socket) else { continue };
            let burst = Burst::of_one(to.local, to.remote, &message);
            if let Some(capture) = capture {
                capture.sent(to.socket, &**encapsulation, &burst, Form::Sealed);
            }
            // The message is retransmitted later. Until there is a key, the channel sends nothing else that
            // could show that a firewall on this host refuses its packets.
            if let Err(SendError::LinkDown(e)) = encapsulation.send(&burst) {
                for channel in routes.toward(to.socket, to.remote) {
                    links.mark(now, channel, to.remote, e.to_string());
                }
            }
            refused.extend(encapsulation.refused().into_iter().map(|remote| (to.socket, remote)));
        }
    }

    fn write_keys(&mut self) {
        let (Some(file), Some(routes)) = (&mut self.keylog, &mut self.routes) else { return };
        while let Some(mut line) = routes.channels.poll_key() {
            // Write each line with a single call, because several shards share the file. As with captures, a
            // full disk must not stop the traffic.
            line.push('\n');
            append(file, &line);
        }
    }
}

/// Appends a line to a file. If the disk is full, removes the part that was written, because the next line
/// would be appended to it.
fn append(file: &mut File, line: &str) {
    let before = file.metadata().map(|file| file.len());
    if let (Err(_), Ok(before)) = (file.write_all(line.as_bytes()), before) {
        // Ignore the error: only a regular file can be truncated.
        let _ = file.set_len(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    #[test]
    fn a_line_that_does_not_fit_leaves_nothing_behind() {
        let mut file = File::from(memfd_create("keys", MemfdFlags::CLOEXEC).unwrap());
        // The file can grow by ten bytes until it has the largest possible size.
        let almost = i64::MAX as u64 - 10;
        file.set_len(almost).unwrap();
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND).unwrap();
        append(&mut file, "a line of keys\n");
        assert_eq!(file.metadata().unwrap().len(), almost);
    }
}
