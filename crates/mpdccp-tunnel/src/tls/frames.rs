//! Frames: packets in a byte stream. Each packet is preceded by its length as a two-byte big-endian number.

/// Largest packet in a stream. If the peer speaks HTTP instead, the first two letters of the method read as a
/// larger length, so the mistake is detected.
pub const LARGEST_FRAME: usize = 9_216;

/// Error: the stream carries something other than packets, such as an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAFrame;

/// Extracts packets from a stream.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Position of the first byte that [`next`](Self::next) has not yet returned.
    at: usize,
}

impl Frames {
    /// Adds bytes of the stream. Before calling this again, call [`next`](Self::next) until it returns
    /// `None`.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete packet.
    ///
    /// # Errors
    /// If the stream carries something other than packets.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot return a borrow of itself")]
    pub fn next(&mut self) -> Result<Option<&mut [u8]>, NotAFrame> {
        let Some(length) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        if length == 0 || length > LARGEST_FRAME {
            return Err(NotAFrame);
        }
        let packet = self.at + 2..self.at + 2 + length;
        if packet.end > self.bytes.len() {
            return Ok(None);
        }
        self.at = packet.end;
        Ok(Some(&mut self.bytes[packet]))
    }
}

/// Appends a packet, preceded by its length, to `out`. Returns false if the packet is empty or too large.
pub fn put_frame(packet: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(length) =
        u16::try_from(packet.len()).ok().filter(|n| (1..=LARGEST_FRAME).contains(&(*n).into()))
    else {
        return false;
    };
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(packet);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(frames: &mut Frames) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| frames.next().unwrap().map(|packet| packet.to_vec())).collect()
    }

    #[test]
    fn packets_arrive_whole_however_the_stream_is_cut() {
        let packets: Vec<Vec<u8>> = [1, 40, 1_500, LARGEST_FRAME, 2].map(|n| vec![n as u8; n]).into();
        let mut stream = Vec::new();
        assert!(packets.iter().all(|packet| put_frame(packet, &mut stream)));
        for cut in [1, 2, 3, 1_000, 40_000] {
            let mut frames = Frames::default();
            let arrived: Vec<Vec<u8>> = stream
                .chunks(cut)
                .flat_map(|part| {
                    frames.put(part);
                    all(&mut frames)
                })
                .collect();
            assert_eq!(arrived, packets, "in parts of {cut}");
            assert!(frames.bytes.len() <= LARGEST_FRAME + 2 + cut, "bytes that were read are removed");
        }
    }

    #[test]
    fn requests_of_browsers_and_empty_packets_are_no_packets() {
        for stream in [&b"GET / HTTP/1.1\r\n"[..], b"HEAD", b"POST", b"PRI * HTTP/2.0", b"\0\0", b"\xff\xff"]
        {
            let mut frames = Frames::default();
            frames.put(stream);
            assert_eq!(frames.next(), Err(NotAFrame), "{stream:?}");
        }
        let mut out = Vec::new();
        assert!(!put_frame(&[], &mut out) && !put_frame(&[0; LARGEST_FRAME + 1], &mut out));
        assert!(out.is_empty());
    }
}
