//! Sends packets on the event loop's thread, or on another thread if there is a backlog.

use super::Net;
use crate::batch::Run;
use crate::capture::Form;
use crate::channels::{address, is_channel};
use crate::sending::{self, Parcel};
use crate::{Burst, SendError};
use dccp_proto::Ecn;
use mpdccp_units::Time;
use std::io::Write;

/// Handing over fewer bytes than this costs about as much as sending them.
const WORTH: usize = 16_000;

impl Net {
    /// Sends the batch and the channels' own messages.
    pub(crate) fn flush(&mut self, now: Time) {
        self.settle(now);
        let backlog = self.batch.len() >= WORTH && self.may_hand_over();
        let mut runs = self.batch.take();
        for run in runs.drain(..) {
            self.send(now, run, backlog);
        }
        self.batch.put_list(runs);
        self.ask(now);
        self.send_messages(now);
        self.write_keys();
    }

    /// Whether a separate thread may send. Starts the thread if necessary. It starts only now, so that it has no more
    /// privileges than the running loop.
    fn may_hand_over(&mut self) -> bool {
        // A capture must contain the packets as they are sent, so this thread sends them.
        let Some(alarm) = self.alarm.as_ref().filter(|_| self.capture.is_none()) else { return false };
        if self.sending.is_none() {
            match sending::start(alarm.clone()) {
                Ok(worker) => self.sending = Some(worker),
                Err(e) => {
                    tracing::warn!("cannot start the sending thread: {e}; the event loop sends instead");
                    self.alarm = None;
                    return false;
                }
            }
        }
        true
    }

    /// Sends a run. The sending thread sends it if there is a `backlog`, or if earlier runs wait for that thread.
    fn send(&mut self, now: Time, mut run: Run, backlog: bool) {
        let Net { sockets, links, routes, batch, capture, marking, parts, refused, qlog, sending, .. } = self;
        run.parts(marking.as_deref(), parts);
        let route = *run.route();
        let plaintext = self.capture_plaintext && is_channel(route.socket);
        if let Some(qlog) = qlog {
            run.packets().for_each(|packet| qlog.packet(now, true, packet, run.ecn()));
        }
        let (to, sealing) = if is_channel(route.socket) {
            let Some(routes) = routes else { return batch.put(run) };
            // If the capture contains plaintext, capture before sealing.
            let Some(to) = routes.resolve(route.socket) else { return batch.put(run) };
            let under = sockets.get(to.socket as usize).and_then(Option::as_deref);
            if let (true, Some(capture), Some(encapsulation)) = (plaintext, capture.as_mut(), under) {
                for part in &*parts {
                    let packets = run.packets().take(part.packets.end).skip(part.packets.start);
                    let burst = run.burst_to(part, to.local, to.remote);
                    capture.sent(to.socket, encapsulation, &burst, packets, Form::Dccp);
                }
            }
            let Some((to, sealing)) = routes.reserve(now, route.socket, run.records()) else {
                return batch.put(run);
            };
            (to, Some(sealing))
        } else {
            (address(&route), None)
        };
        let Some(Some(encapsulation)) = sockets.get_mut(to.socket as usize) else { return batch.put(run) };
        if let Some(sending) = sending.as_mut().filter(|sending| backlog || !sending.is_idle())
            && let Some(outlet) = encapsulation.outlet()
        {
            let parts = std::mem::take(parts);
            let (down, refused) = (None, Vec::new());
            let parcel = Parcel { run, parts, to, sealing, outlet, down, refused };
            // Ignore the error: if the thread died, the alarm ends the loop.
            return sending.put(parcel).unwrap_or_else(|parcel| batch.put(parcel.run));
        }
        if let Some(sealing) = sealing {
            let (records, segment) = run.records_mut();
            sealing.seal(records, segment);
        }
        for part in &*parts {
            let burst = run.burst_to(part, to.local, to.remote);
            if let (Some(capture), false) = (capture.as_mut(), plaintext) {
                let packets = burst.bytes.chunks(burst.segment.max(1));
                let form = if is_channel(route.socket) { Form::Sealed } else { Form::Dccp };
                capture.sent(to.socket, &**encapsulation, &burst, packets, form);
            }
            // Other errors are counted, and congestion control detects the loss. A successful send does not prove that
            // a broken link works.
            if let Err(SendError::LinkDown(e)) = encapsulation.send(&burst) {
                links.mark(now, route.socket, route.remote, e.to_string());
            }
            refused.extend(encapsulation.refused().into_iter().map(|remote| (to.socket, remote)));
        }
        batch.put(run);
    }

    /// Takes back the runs that the sending thread has sent.
    fn settle(&mut self, now: Time) {
        while let Some(parcel) = self.sending.as_mut().and_then(|sending| sending.poll()) {
            self.take_back(now, parcel);
        }
    }

    /// Waits until the sending thread has sent all runs.
    pub(crate) fn finish(&mut self, now: Time) {
        while let Some(parcel) = self.sending.as_mut().and_then(|sending| sending.wait()) {
            self.take_back(now, parcel);
        }
    }

    fn take_back(&mut self, now: Time, parcel: Parcel) {
        let route = *parcel.run.route();
        if let Some(e) = parcel.down {
            self.links.mark(now, route.socket, route.remote, e.to_string());
        }
        self.refused.extend(parcel.refused.into_iter().map(|remote| (parcel.to.socket, remote)));
        self.parts = parcel.parts;
        self.batch.put(parcel.run);
    }

    /// Sends the handshakes and cookies of channels.
    fn send_messages(&mut self, now: Time) {
        let mut first = true;
        while let Some((to, message)) =
            self.routes.as_mut().and_then(|routes| routes.channels.poll_transmit())
        {
            if std::mem::take(&mut first) {
                // These messages must not overtake records.
                self.finish(now);
            }
            let Some(Some(encapsulation)) = self.sockets.get_mut(to.socket as usize) else { continue };
            let burst = Burst {
                local: to.local,
                remote: to.remote,
                dscp: 0,
                ecn: Ecn::NotEct,
                segment: message.len(),
                bytes: &message,
            };
            if let Some(capture) = self.capture.as_mut().filter(|_| !self.capture_plaintext) {
                let message = std::iter::once(&*message);
                capture.sent(to.socket, &**encapsulation, &burst, message, Form::Sealed);
            }
            // Ignore the error: a message that is not sent is retransmitted later.
            let _ = encapsulation.send(&burst);
            self.refused.extend(encapsulation.refused().into_iter().map(|remote| (to.socket, remote)));
        }
    }

    fn write_keys(&mut self) {
        let (Some(file), Some(routes)) = (&mut self.keylog, &mut self.routes) else { return };
        while let Some(mut line) = routes.channels.poll_key() {
            // Each line is one write, because several shards share the file. As with captures, a full disk must not
            // stop the traffic.
            line.push('\n');
            let _ = file.write_all(line.as_bytes());
        }
    }
}

#[cfg(test)]
#[path = "flush_tests.rs"]
mod tests;
