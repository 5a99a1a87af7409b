use alloc::vec::Vec;
use dccp_wire::feature;

/// Where a feature is located (RFC 4340 section 3.3): `F/Local` is what this end's `L` options speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At this end.
    Local,
    /// At the peer.
    Remote,
}

/// How two preferences become one value (RFC 4340 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// First entry of the server's list that is also in the client's.
    ServerPriority,
    /// The feature location decides.
    NonNegotiable,
}

/// What the standards say about one feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// Reconciliation rule.
    pub(crate) rule: Rule,
    /// Bytes of one value.
    pub(crate) len: usize,
    /// Valid values; of non-negotiable features only (RFC 4340 section 6.6.8).
    pub(crate) valid: (u64, u64),
    /// Value of a new connection.
    pub(crate) initial: u64,
    /// Every DCCP must understand it.
    pub(crate) required: bool,
}

impl Spec {
    /// The features of RFC 4340 section 6.4, RFC 4342 section 8.4 and RFC 9897 section 3.1, `None` for any other.
    pub(crate) fn of(number: u8) -> Option<Spec> {
        const fn sp(initial: u64, required: bool) -> Option<Spec> {
            Some(Spec { rule: Rule::ServerPriority, len: 1, valid: (0, 255), initial, required })
        }
        const fn nn(len: usize, valid: (u64, u64), initial: u64, required: bool) -> Option<Spec> {
            Some(Spec { rule: Rule::NonNegotiable, len, valid, initial, required })
        }
        match number {
            feature::CCID => sp(2, true),
            feature::ALLOW_SHORT_SEQNOS => sp(0, true),
            // RFC 4340 section 7.5.2: Wmin and Wmax.
            feature::SEQUENCE_WINDOW => nn(6, (32, (1 << 46) - 1), 100, true),
            // RFC 4340 section 11.3 gives zero a meaning though section 6.6.8 calls it invalid; Linux sends it for CCID 3.
            feature::ACK_RATIO => nn(2, (0, 0xffff), 2, false),
            feature::ECN_INCAPABLE
            | feature::SEND_ACK_VECTOR
            | feature::SEND_NDP_COUNT
            | feature::MIN_CHECKSUM_COVERAGE
            | feature::CHECK_DATA_CHECKSUM
            | feature::MULTIPATH_CAPABLE
            // RFC 4342 section 8.4.
            | feature::SEND_LOSS_EVENT_RATE => sp(0, false),
            _ => None,
        }
    }
}

/// Where a negotiation stands (RFC 4340 section 6.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Both ends are thought to agree.
    Stable,
    /// Stable, but the next packet opens a negotiation.
    Pending,
    /// A Change is out, no answer yet.
    Changing,
    /// As `Changing`, but our preference has changed since, and that has not been sent.
    Unstable,
}

/// An answer we owe to a Change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// Refuse: Confirm without a value.
    pub(super) empty: bool,
    /// It has left at least once.
    pub(super) sent: bool,
}

/// One feature of one connection.
#[derive(Clone, Debug)]
pub(super) struct Feature {
    pub(super) number: u8,
    pub(super) side: Side,
    pub(super) value: u64,
    /// Our preference list; of a local non-negotiable feature the one value we want.
    pub(super) prefs: Vec<u64>,
    pub(super) progress: Progress,
    /// Our Change goes with Mandatory.
    pub(super) mandatory: bool,
    /// We opened a negotiation at some time.
    pub(super) asked: bool,
    /// And then another one with other preferences, so that a Confirm of an earlier Change may still be under way.
    pub(super) asked_anew: bool,
    pub(super) reply: Option<Reply>,
    /// A negotiation has ended with a value.
    pub(super) negotiated: bool,
    /// Send our Change again with the next packet.
    pub(super) resend: bool,
}

/// Why a feature option is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// A Mandatory Change we cannot follow: Reset code Mandatory Error (RFC 4340 section 6.6.9).
    Mandatory,
    /// A Confirm that cannot be right: Reset code Option Error (RFC 4340 section 6.6.8).
    Invalid,
}

impl Feature {
    pub(super) fn new(number: u8, side: Side, spec: Spec, prefs: &[u64]) -> Feature {
        Feature {
            number,
            side,
            value: spec.initial,
            prefs: prefs.into(),
            progress: Progress::Stable,
            mandatory: false,
            asked: false,
            asked_anew: false,
            reply: None,
            negotiated: false,
            resend: false,
        }
    }

    /// Looked up, for a connection has many features and few uses of this.
    pub(super) fn spec(&self) -> Spec {
        const NONE: Spec =
            Spec { rule: Rule::NonNegotiable, len: 1, valid: (0, 0), initial: 0, required: false };
        // Only features with one are made.
        Spec::of(self.number).unwrap_or(NONE)
    }

    /// What counts of a value when lists are compared. RFC 9897 section 3.1: only the version nibble.
    fn key(&self, value: u64) -> u64 {
        if self.number == feature::MULTIPATH_CAPABLE { value & 0xf0 } else { value }
    }

    /// The values in a Change or the list of a Confirm; `None` if the length or a value is invalid.
    fn values(&self, data: &[u8]) -> Option<Vec<u64>> {
        if !data.len().is_multiple_of(self.spec().len) {
            return None;
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b));
        let values: Vec<u64> = data.chunks_exact(self.spec().len).map(number).collect();
        let (low, high) = self.spec().valid;
        values.iter().all(|v| (low..=high).contains(v)).then_some(values)
    }

    /// Server-priority (RFC 4340 section 6.3.1).
    fn reconcile(&self, theirs: &[u64], is_server: bool) -> Option<u64> {
        let has = |list: &[u64], v: u64| list.iter().any(|o| self.key(*o) == self.key(v));
        let (server, client) = if is_server { (&self.prefs[..], theirs) } else { (theirs, &self.prefs[..]) };
        server.iter().copied().find(|v| has(client, *v)).map(|v| self.key(v))
    }

    /// A Change for this feature arrived, in order.
    pub(super) fn on_change(&mut self, data: &[u8], mandatory: bool, is_server: bool) -> Result<(), Error> {
        let theirs = self.values(data).filter(|values| match self.spec().rule {
            Rule::ServerPriority => !values.is_empty(),
            // RFC 4340 section 6.3.2: one value, and only the location may change it.
            Rule::NonNegotiable => values.len() == 1 && self.side == Side::Remote,
        });
        let Some(theirs) = theirs else {
            return self.refuse(mandatory);
        };
        let value = match self.spec().rule {
            Rule::ServerPriority => self.reconcile(&theirs, is_server),
            Rule::NonNegotiable => theirs.first().copied(),
        };
        match value {
            Some(value) => {
                self.value = value;
                self.negotiated = true;
            }
            // RFC 4340 section 6.6.9.
            None if mandatory => return Err(Error::Mandatory),
            // RFC 9897 section 3.1: no common version is an empty Confirm; else the old value is confirmed.
            None if self.number == feature::MULTIPATH_CAPABLE => return self.refuse(mandatory),
            None => {}
        }
        self.reply = Some(Reply { empty: false, sent: false });
        // RFC 4340 section 6.6.6: their Change answers ours.
        self.progress = Progress::Stable;
        Ok(())
    }

    fn refuse(&mut self, mandatory: bool) -> Result<(), Error> {
        if mandatory {
            return Err(Error::Mandatory);
        }
        self.reply = Some(Reply { empty: true, sent: false });
        Ok(())
    }

    /// A Confirm for this feature arrived, in order and acknowledging our newest Change.
    pub(super) fn on_confirm(&mut self, data: &[u8], is_server: bool) -> Result<(), Error> {
        if self.progress != Progress::Changing {
            return Ok(());
        }
        if data.is_empty() {
            // RFC 4340 section 6.6.7; what we said is mandatory cannot be done without either.
            if self.spec().required || self.mandatory {
                return Err(Error::Invalid);
            }
            self.progress = Progress::Stable;
            return Ok(());
        }
        let values = self.values(data).ok_or(Error::Invalid)?;
        let (&value, list) = values.split_first().ok_or(Error::Invalid)?;
        let right = match self.spec().rule {
            Rule::NonNegotiable => list.is_empty() && self.prefs.first() == Some(&value),
            // Without the peer's list (it must send one) take any value of ours.
            Rule::ServerPriority if list.is_empty() => {
                self.prefs.iter().any(|v| self.key(*v) == self.key(value))
            }
            Rule::ServerPriority => {
                self.key(value) == self.reconcile(list, is_server).unwrap_or(self.key(self.value))
            }
        };
        if !right {
            // An Acknowledgement Number says that the peer has a packet as new as our newest Change, not that it has the Change
            // (RFC 4340 section 6.6.4 takes it for that): with reordering the answer to an earlier one passes for the answer to
            // this one. The Change is repeated until it has its own.
            return if self.asked_anew { Ok(()) } else { Err(Error::Invalid) };
        }
        self.value = self.key(value);
        self.negotiated = true;
        self.progress = Progress::Stable;
        Ok(())
    }

    /// The value area of our Change.
    pub(super) fn change_value(&self) -> Vec<u8> {
        self.encode(&self.prefs)
    }

    /// The value area of our Confirm: value, and for server-priority our list.
    pub(super) fn confirm_value(&self) -> Vec<u8> {
        let mut out = self.encode(&[self.value]);
        if self.spec().rule == Rule::ServerPriority {
            out.extend(self.encode(&self.prefs));
        }
        out
    }

    fn encode(&self, values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_be_bytes().into_iter().skip(8 - self.spec().len)).collect()
    }
}
