use dccp_wire::{PacketType, Seq};

/// Validity of a received packet's numbers (RFC 4340 section 7.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    Valid,
    BadSeq,
    BadAck,
}

/// The sequence number variables of RFC 4340 section 7.1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// Initial Sequence Number Sent.
    pub(super) iss: Seq,
    /// Greatest Sequence Number Sent, or the number before `iss` if no packet has been sent yet.
    pub(super) gss: Seq,
    /// Initial Sequence Number Received.
    pub(super) isr: Seq,
    /// Greatest Sequence Number Received on an acknowledgeable packet.
    pub(super) gsr: Seq,
    /// Greatest Acknowledgement Number Received on an acknowledgeable packet other than a Sync.
    pub(super) gar: Seq,
    /// First sequence number received in OPEN.
    pub(super) osr: Seq,
    /// Sequence Window feature of this end, which is how far back Acknowledgement Numbers may reach.
    pub(super) local_window: u64,
    /// Sequence Window feature of the peer, which is the width of the window for the peer's Sequence Numbers.
    pub(super) remote_window: u64,
    /// Whether the connection is young, in which case the windows do not reach below the initial numbers
    /// (RFC 4340 section 7.5.1).
    young_seq: bool,
    young_ack: bool,
}

impl Numbers {
    /// Sequence Window of new connections (RFC 4340 section 7.5.2).
    const INITIAL_WINDOW: u64 = 100;
    /// Largest Sequence Window (RFC 4340 section 7.5.2). Because windows may grow, a connection is young
    /// until even this window does not reach below the initial numbers.
    const MAX_WINDOW: u64 = (1 << 46) - 1;

    pub(super) fn new(iss: Seq) -> Numbers {
        Numbers {
            iss,
            gss: iss.sub(1),
            isr: Seq::new(0),
            gsr: Seq::new(0),
            // RFC 4340 section 8.5: S.GAR is initialised to S.ISS.
            gar: iss,
            osr: Seq::new(0),
            local_window: Self::INITIAL_WINDOW,
            remote_window: Self::INITIAL_WINDOW,
            young_seq: true,
            young_ack: true,
        }
    }

    /// Records the first packet of the peer (RFC 4340 section 8.5 steps 3 and 4).
    pub(super) fn set_isr(&mut self, seq: Seq) {
        self.isr = seq;
        self.gsr = seq;
    }

    /// Returns the number for the next packet to send, and advances to it.
    pub(super) fn take(&mut self) -> Seq {
        self.gss = self.gss.next();
        // At the start of a connection, the window does not reach below `iss`. This limit must not apply
        // again when sequence numbers wrap.
        if self.gss.diff(self.iss) as u64 > Self::MAX_WINDOW {
            self.young_ack = false;
        }
        self.gss
    }

    pub(super) fn swl(&self) -> Seq {
        let low = self.gsr.next().sub(self.remote_window / 4);
        if self.young_seq && low.before(self.isr) { self.isr } else { low }
    }

    pub(super) fn swh(&self) -> Seq {
        self.gsr.add(self.remote_window - self.remote_window / 4)
    }

    pub(super) fn awl(&self) -> Seq {
        let low = self.gss.next().sub(self.local_window);
        if self.young_ack && low.before(self.iss) { self.iss } else { low }
    }

    pub(super) fn awh(&self) -> Seq {
        self.gss
    }

    /// Steps 5 and 6 of RFC 4340 section 8.5, without their updates. `active` means that a valid packet
    /// arrived within the last three round-trip times. Syncs are then checked as strictly as other packets
    /// (section 7.5.3).
    pub(super) fn check(&self, ptype: PacketType, seq: Seq, ack: Option<Seq>, active: bool) -> Validity {
        let ends = matches!(ptype, PacketType::CloseReq | PacketType::Close | PacketType::Reset);
        let sync = matches!(ptype, PacketType::Sync | PacketType::SyncAck);
        let (low, ack_low) = if ends { (self.gsr.next(), self.gar) } else { (self.swl(), self.awl()) };
        let seq_ok = !seq.before(low) && ((sync && !active) || !seq.after(self.swh()));
        if !seq_ok {
            return Validity::BadSeq;
        }
        if ack.is_some_and(|ack| !ack.within(ack_low, self.awh())) {
            return Validity::BadAck;
        }
        Validity::Valid
    }

    /// Records the numbers of a valid packet.
    pub(super) fn accept(&mut self, ptype: PacketType, seq: Seq, ack: Option<Seq>) {
        if seq.after(self.gsr) {
            self.gsr = seq;
            if self.gsr.diff(self.isr) as u64 > Self::MAX_WINDOW {
                self.young_seq = false;
            }
        }
        if let Some(ack) = ack.filter(|ack| ptype != PacketType::Sync && ack.after(self.gar)) {
            self.gar = ack;
        }
    }

    /// Extends the short sequence numbers of a packet to full length (RFC 4340 section 7.6).
    pub(super) fn extend(&self, seq: Seq, ack: Option<Seq>) -> (Seq, Option<Seq>) {
        let short = |s: Seq| (s.value() & 0xff_ffff) as u32;
        (Seq::extend(short(seq), self.gsr), ack.map(|ack| Seq::extend(short(ack), self.gss)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PacketType::*;

    /// Returns the variables for a Sequence Window W of 100 at both ends, with all numbers far from the
    /// initial ones.
    fn numbers(gss: u64, gsr: u64) -> Numbers {
        let mut n = Numbers::new(Seq::new(gss).sub(1000));
        n.set_isr(Seq::new(gsr).sub(1000));
        for _ in 0..=1000 {
            n.take();
        }
        n.accept(Data, Seq::new(gsr), None);
        n.accept(Ack, Seq::new(gsr), Some(Seq::new(gss).sub(10)));
        assert_eq!((n.gss, n.gsr), (Seq::new(gss), Seq::new(gsr)));
        n
    }

    #[test]
    fn windows_have_the_widths_of_the_rfc_even_across_the_wrap() {
        for (gss, gsr) in [(5000, 9000), (3, 20), (Seq::MODULUS - 2, Seq::MODULUS - 1), (50, 99)] {
            let n = numbers(gss, gsr);
            assert_eq!(n.swh().diff(n.swl()) + 1, 100);
            assert_eq!(n.gsr.diff(n.swl()), 24);
            assert_eq!(n.swh().diff(n.gsr), 75);
            assert_eq!(n.awh().diff(n.awl()) + 1, 100);
            assert_eq!(n.awh(), n.gss);
        }
    }

    #[test]
    fn each_type_has_its_window() {
        let n = numbers(Seq::MODULUS - 5, 30);
        let seq = |d: i64| if d < 0 { n.gsr.sub(d.unsigned_abs()) } else { n.gsr.add(d as u64) };
        let gss = n.gss;
        // Packet type, lowest and highest valid sequence number relative to GSR, and how far below GSS the
        // lowest valid Acknowledgement Number lies.
        let normal =
            [(Data, None), (Ack, Some(99)), (DataAck, Some(99)), (Request, None), (Response, Some(99))];
        for (ptype, reach) in normal {
            let ack = reach.map(|_| gss);
            assert_eq!(n.check(ptype, seq(-24), ack, true), Validity::Valid);
            assert_eq!(n.check(ptype, seq(75), ack, true), Validity::Valid);
            assert_eq!(n.check(ptype, seq(-25), ack, true), Validity::BadSeq);
            assert_eq!(n.check(ptype, seq(76), ack, true), Validity::BadSeq);
            if let Some(reach) = reach {
                assert_eq!(n.check(ptype, seq(0), Some(gss.sub(reach)), true), Validity::Valid);
                assert_eq!(n.check(ptype, seq(0), Some(gss.sub(reach + 1)), true), Validity::BadAck);
                assert_eq!(n.check(ptype, seq(0), Some(gss.next()), true), Validity::BadAck);
            }
        }
        for ptype in [CloseReq, Close, Reset] {
            assert_eq!(n.check(ptype, seq(1), Some(n.gar), true), Validity::Valid);
            assert_eq!(n.check(ptype, seq(75), Some(gss), true), Validity::Valid);
            assert_eq!(n.check(ptype, seq(0), Some(gss), true), Validity::BadSeq);
            assert_eq!(n.check(ptype, seq(76), Some(gss), true), Validity::BadSeq);
            assert_eq!(n.check(ptype, seq(1), Some(n.gar.sub(1)), true), Validity::BadAck);
            assert_eq!(n.check(ptype, seq(1), Some(gss.next()), true), Validity::BadAck);
        }
        for ptype in [Sync, SyncAck] {
            for (active, far) in [(false, Validity::Valid), (true, Validity::BadSeq)] {
                assert_eq!(n.check(ptype, seq(-24), Some(gss), active), Validity::Valid);
                assert_eq!(n.check(ptype, seq(-25), Some(gss), active), Validity::BadSeq);
                assert_eq!(n.check(ptype, seq(76), Some(gss), active), far);
                assert_eq!(n.check(ptype, seq(0), Some(gss.sub(100)), active), Validity::BadAck);
            }
        }
    }

    /// Compares the code with the table in RFC 4340 section 7.5.3, computed in plain integers. Covers every
    /// type, and all numbers and windows near every edge, including numbers that wrap.
    #[test]
    fn every_case_of_the_table() {
        const M: i128 = Seq::MODULUS as i128;
        let distance = |a: Seq, b: Seq| {
            let d = (i128::from(a.value()) - i128::from(b.value())).rem_euclid(M);
            if d >= M / 2 { d - M } else { d }
        };
        for (gss, gsr) in
            [(5000, 9000), (20, Seq::MODULUS - 20), (Seq::MODULUS - 1, 0), (1 << 47, (1 << 47) - 1)]
        {
            for width in [32u64, 33, 35, 100] {
                let mut n = numbers(gss, gsr);
                (n.local_window, n.remote_window) = (width, width);
                let (w, quarter) = (i128::from(width), i128::from(width / 4));
                for ptype in (0..10).map(PacketType::from_number) {
                    let ends = matches!(ptype, CloseReq | Close | Reset);
                    let sync = matches!(ptype, Sync | SyncAck);
                    for (active, s) in
                        [true, false].into_iter().flat_map(|active| (-130..=130).map(move |s| (active, s)))
                    {
                        let seq = Seq::new((gsr as i128 + s).rem_euclid(M) as u64);
                        let d = distance(seq, n.gsr);
                        let least = if ends { 1 } else { 1 - quarter };
                        let seq_ok = d >= least && (d <= w - quarter || sync && !active);
                        for a in -110i128..=3 {
                            let ack =
                                ptype.has_ack().then(|| Seq::new((gss as i128 + a).rem_euclid(M) as u64));
                            let oldest = if ends { distance(n.gar, n.gss) } else { 1 - w };
                            let ack_ok = ack.is_none() || (oldest..=0).contains(&a);
                            let wanted = match (seq_ok, ack_ok) {
                                (false, _) => Validity::BadSeq,
                                (_, false) => Validity::BadAck,
                                _ => Validity::Valid,
                            };
                            assert_eq!(
                                n.check(ptype, seq, ack, active),
                                wanted,
                                "{ptype:?} {s} {a} {width} {active}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn windows_of_a_young_connection_end_at_the_initial_numbers_but_not_after_a_wrap() {
        let mut n = Numbers::new(Seq::new(7));
        n.set_isr(Seq::new(40));
        n.take();
        assert_eq!((n.swl(), n.awl()), (Seq::new(40), Seq::new(7)));
        for _ in 0..200 {
            n.take();
        }
        n.accept(Data, Seq::new(150), None);
        assert_eq!(n.awl(), n.gss.sub(99));
        assert_eq!(n.swl(), Seq::new(126));
        // Windows that have grown do not reach below the initial numbers either.
        (n.local_window, n.remote_window) = (1000, 1000);
        assert_eq!((n.swl(), n.awl()), (Seq::new(40), Seq::new(7)));
        (n.local_window, n.remote_window) = (100, 100);
        n.gss = n.iss.add(Numbers::MAX_WINDOW);
        n.take();
        n.accept(Data, n.isr.add(1 << 46), None);
        // After the numbers have wrapped, numbers below the initial ones are as valid as others.
        n.gss = Seq::new(3);
        n.gsr = Seq::new(10);
        assert_eq!(n.awl(), Seq::new(3).sub(99));
        assert_eq!(n.swl(), Seq::new(10).sub(24));
    }

    #[test]
    fn a_sync_moves_gsr_but_not_gar() {
        let mut n = numbers(500, 700);
        let gar = n.gar;
        n.accept(Sync, Seq::new(5000), Some(n.gss));
        assert_eq!((n.gsr, n.gar), (Seq::new(5000), gar));
        n.accept(SyncAck, Seq::new(5001), Some(n.gss));
        assert_eq!(n.gar, n.gss);
    }

    #[test]
    fn short_numbers_extend_against_gsr_and_gss() {
        let n = numbers((5 << 24) - 1, (9 << 24) + 2);
        let (seq, ack) = n.extend(Seq::new(0xff_fffe), Some(Seq::new(3)));
        assert_eq!(seq, Seq::new((9 << 24) - 2));
        assert_eq!(ack, Some(Seq::new((5 << 24) + 3)));
    }
}
