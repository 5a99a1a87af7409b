use alloc::vec::Vec;
use dccp_wire::feature;

/// Location of a feature (RFC 4340 section 3.3). The `L` options that this end sends refer to the feature at
/// `Local`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At this end.
    Local,
    /// At the peer.
    Remote,
}

/// Rule for reconciling the two ends' preferences (RFC 4340 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The first entry of the server's list that also appears in the client's list wins.
    ServerPriority,
    /// The end at which the feature is located decides.
    NonNegotiable,
}

/// Definition of a feature by the standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// Reconciliation rule.
    pub(crate) rule: Rule,
    /// Number of bytes of one value.
    pub(crate) len: usize,
    /// Range of valid values, which only non-negotiable features have (RFC 4340 section 6.6.8).
    pub(crate) valid: (u64, u64),
    /// Value at the start of a connection.
    pub(crate) initial: u64,
    /// Whether every DCCP implementation must understand the feature.
    pub(crate) required: bool,
}

impl Spec {
    /// Returns the definition of a feature of RFC 4340 section 6.4, RFC 4342 section 8.4 or
    /// RFC 9897 section 3.1, or of Send Timestamps. Returns `None` for any other number.
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
            // RFC 4340 section 7.5.2: the limits Wmin and Wmax.
            feature::SEQUENCE_WINDOW => nn(6, (32, (1 << 46) - 1), 100, true),
            // RFC 4340 section 11.3 gives the ratio zero a meaning, although section 6.6.8 calls zero
            // invalid. Linux sends zero with CCID 3.
            feature::ACK_RATIO => nn(2, (0, 0xffff), 2, false),
            feature::ECN_INCAPABLE
            | feature::SEND_ACK_VECTOR
            | feature::SEND_NDP_COUNT
            | feature::MIN_CHECKSUM_COVERAGE
            | feature::CHECK_DATA_CHECKSUM
            | feature::MULTIPATH_CAPABLE
            // RFC 4342 section 8.4: initially off.
            | feature::SEND_LOSS_EVENT_RATE
            | feature::SEND_TIMESTAMPS => sp(0, false),
            _ => None,
        }
    }
}

/// State of a negotiation (RFC 4340 section 6.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No negotiation is open.
    Stable,
    /// Like `Stable`, but the next packet opens a negotiation.
    Pending,
    /// A Change has not been answered yet.
    Changing,
    /// Like `Changing`, but our preference has changed since the Change was sent, and the new preference has
    /// not been sent yet.
    Unstable,
}

/// A pending answer to a Change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// Whether to refuse with an empty Confirm option.
    pub(super) empty: bool,
    /// Whether the answer has been sent at least once.
    pub(super) sent: bool,
}

/// One feature of one connection.
#[derive(Clone, Debug)]
pub(super) struct Feature {
    pub(super) number: u8,
    pub(super) side: Side,
    pub(super) value: u64,
    /// Our preference list; for a non-negotiable feature located here, the single value that we want.
    pub(super) prefs: Vec<u64>,
    pub(super) progress: Progress,
    /// Whether our Change is sent with Mandatory.
    pub(super) mandatory: bool,
    /// Whether we have opened a negotiation at least once.
    pub(super) asked: bool,
    /// Whether we have opened a further negotiation with different preferences, so that a Confirm of the
    /// earlier Change may still arrive.
    pub(super) asked_anew: bool,
    pub(super) reply: Option<Reply>,
    /// Whether a negotiation has ended with a value.
    pub(super) negotiated: bool,
    /// Whether to send our Change again with the next packet.
    pub(super) resend: bool,
}

/// Error in a feature option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// A Mandatory Change that we cannot accept: Reset code Mandatory Error (RFC 4340 section 6.6.9).
    Mandatory,
    /// An invalid Confirm: Reset code Option Error (RFC 4340 section 6.6.8).
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

    /// Returns the definition of the feature, looking it up each time: a connection has many features and
    /// rarely needs a definition, so not storing it saves memory.
    pub(super) fn spec(&self) -> Spec {
        const NONE: Spec =
            Spec { rule: Rule::NonNegotiable, len: 1, valid: (0, 0), initial: 0, required: false };
        // Features without a definition are never created.
        Spec::of(self.number).unwrap_or(NONE)
    }

    /// Returns the part of a value to compare. For Multipath Capable, this is only the version nibble
    /// (RFC 9897 section 3.1).
    fn key(&self, value: u64) -> u64 {
        if self.number == feature::MULTIPATH_CAPABLE { value & 0xf0 } else { value }
    }

    /// Decodes the values in a Change, or in a Confirm's list. Returns `None` if the length or a value is
    /// invalid.
    fn values(&self, data: &[u8]) -> Option<Vec<u64>> {
        if !data.len().is_multiple_of(self.spec().len) {
            return None;
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b));
        let values: Vec<u64> = data.chunks_exact(self.spec().len).map(number).collect();
        let (low, high) = self.spec().valid;
        values.iter().all(|v| (low..=high).contains(v)).then_some(values)
    }

    /// Returns the agreed value by server priority (RFC 4340 section 6.3.1), if there is one.
    fn reconcile(&self, theirs: &[u64], is_server: bool) -> Option<u64> {
        let has = |list: &[u64], v: u64| list.iter().any(|o| self.key(*o) == self.key(v));
        let (server, client) = if is_server { (&self.prefs[..], theirs) } else { (theirs, &self.prefs[..]) };
        server.iter().copied().find(|v| has(client, *v)).map(|v| self.key(v))
    }

    /// A Change for this feature has arrived in order.
    pub(super) fn on_change(&mut self, data: &[u8], mandatory: bool, is_server: bool) -> Result<(), Error> {
        let theirs = self.values(data).filter(|values| match self.spec().rule {
            Rule::ServerPriority => !values.is_empty(),
            // RFC 4340 section 6.3.2: there must be exactly one value, and only the end at which the feature
            // is located may change it.
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
            // RFC 4340 section 6.6.9: a mandatory Change with no acceptable value is an error.
            None if mandatory => return Err(Error::Mandatory),
            // RFC 9897 section 3.1: if there is no common version, the answer is an empty Confirm. For other
            // features, the Confirm repeats the value in force.
            None if self.number == feature::MULTIPATH_CAPABLE => return self.refuse(mandatory),
            None => {}
        }
        self.reply = Some(Reply { empty: false, sent: false });
        // RFC 4340 section 6.6.6: while our Change is open, the peer's Change answers it.
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

    /// A Confirm for this feature has arrived in order and acknowledges our newest Change.
    pub(super) fn on_confirm(&mut self, data: &[u8], is_server: bool) -> Result<(), Error> {
        if self.progress != Progress::Changing {
            return Ok(());
        }
        if data.is_empty() {
            // RFC 4340 section 6.6.7: the peer must not refuse a required feature, nor a feature that we sent
            // with Mandatory.
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
            // The peer must send its list. If the list is missing, accept any value that is on our list.
            Rule::ServerPriority if list.is_empty() => {
                self.prefs.iter().any(|v| self.key(*v) == self.key(value))
            }
            Rule::ServerPriority => {
                self.key(value) == self.reconcile(list, is_server).unwrap_or(self.key(self.value))
            }
        };
        if !right {
            // RFC 4340 section 6.6.4 assumes that the Acknowledgement Number proves the arrival of our newest
            // Change, but it only proves that a packet at least as new has arrived. With reordering, the
            // answer to an earlier Change can therefore look like the answer to this one. If that is
            // possible, keep repeating the Change until its own answer arrives.
            return if self.asked_anew { Ok(()) } else { Err(Error::Invalid) };
        }
        self.value = self.key(value);
        self.negotiated = true;
        self.progress = Progress::Stable;
        Ok(())
    }

    /// Encodes the value of our Change option.
    pub(super) fn change_value(&self) -> Vec<u8> {
        self.encode(&self.prefs)
    }

    /// Encodes the value of our Confirm option: the value in force and, for server-priority features, our
    /// list.
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
