use super::feature::{Error, Rule, Side, Spec};
use super::feature::{Feature, Progress, Reply};
use alloc::vec::Vec;
use dccp_wire::{Opt, OptionBuf, Seq};

/// Maximum number of unknown features to refuse in the next packet. The peer will repeat any Changes left
/// unanswered.
const MAX_UNKNOWN: usize = 16;

/// Whether the Changes of a packet, and whether its Confirms, may be processed (RFC 4340 section 6.6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    change: bool,
    confirm: bool,
}

/// The kind of packet for which options are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A Request, which carries only Changes because it acknowledges nothing.
    Request,
    /// Any other packet of the handshake, which repeats all open Changes and all answers.
    Handshake,
    /// Any later packet, which carries only new options and Changes whose timer has expired.
    Established,
}

/// All features of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Negotiator {
    is_server: bool,
    features: Vec<Feature>,
    /// Unknown features to refuse.
    unknown: Vec<(Side, u8)>,
    /// Greatest sequence number received on a packet with a feature option, or `None` before the first.
    fgsr: Option<Seq>,
    /// Greatest sequence number sent on a packet with a new Change, or `None` before the first.
    fgss: Option<Seq>,
    /// Cached results of [`wants_to_write`](Self::wants_to_write) and [`is_changing`](Self::is_changing),
    /// which are needed for every packet.
    wants_to_write: bool,
    changing: bool,
}

impl Negotiator {
    /// Creates a negotiator without features. The caller must [`add`](Self::add) the features that this end
    /// understands.
    pub(crate) fn new(is_server: bool) -> Negotiator {
        Negotiator { is_server, ..Negotiator::default() }
    }

    /// Adds a feature at `side` with its initial value and our preferences, most preferred first. Preferences
    /// are ignored for non-negotiable features. This has no effect if no standard defines `number`.
    pub(crate) fn add(&mut self, number: u8, side: Side, prefs: &[u64]) {
        if let Some(spec) = Spec::of(number) {
            self.features.push(Feature::new(number, side, spec, prefs));
        }
    }

    /// Frees spare memory. Call it when no more features will be added.
    pub(crate) fn shrink(&mut self) {
        self.features.shrink_to_fit();
    }

    fn find(&self, number: u8, side: Side) -> Option<&Feature> {
        self.features.iter().find(|f| f.number == number && f.side == side)
    }

    fn find_mut(&mut self, number: u8, side: Side) -> Option<&mut Feature> {
        self.features.iter_mut().find(|f| f.number == number && f.side == side)
    }

    /// Returns whether this end understands the feature.
    pub(crate) fn is_known(&self, number: u8, side: Side) -> bool {
        self.find(number, side).is_some()
    }

    /// Returns the value in force, or the feature's initial value if this end does not know the feature.
    pub(crate) fn value(&self, number: u8, side: Side) -> u64 {
        match self.find(number, side) {
            Some(feature) => feature.value,
            None => Spec::of(number).map_or(0, |spec| spec.initial),
        }
    }

    /// Returns the value that we are requesting, if we have a negotiation open.
    pub(crate) fn wanted(&self, number: u8, side: Side) -> Option<u64> {
        let open = self.find(number, side).filter(|f| f.progress != Progress::Stable);
        open.and_then(|f| f.prefs.first().copied())
    }

    /// Returns whether a boolean feature is on.
    pub(crate) fn is_on(&self, number: u8, side: Side) -> bool {
        self.value(number, side) == 1
    }

    /// Returns whether a negotiation of this feature has ended with a value.
    pub(crate) fn is_negotiated(&self, number: u8, side: Side) -> bool {
        self.find(number, side).is_some_and(|f| f.negotiated)
    }

    /// Opens a negotiation with the next packet. `prefs` are our preferences; for a non-negotiable feature,
    /// the single value. This has no effect if the feature is unknown or a value is out of range. For a
    /// non-negotiable feature, it also has no effect if the feature is located at the peer or already has
    /// this value.
    pub(crate) fn change(&mut self, number: u8, side: Side, prefs: &[u64], mandatory: bool) {
        let Some(feature) = self.find_mut(number, side) else { return };
        let (low, high) = feature.spec().valid;
        let wrong = feature.spec().rule == Rule::NonNegotiable && (side == Side::Remote || prefs.len() != 1);
        if wrong || prefs.is_empty() || prefs.iter().any(|v| !(low..=high).contains(v)) {
            return;
        }
        let same = feature.prefs == prefs && feature.mandatory == mandatory;
        let in_force = feature.spec().rule == Rule::NonNegotiable && prefs == [feature.value];
        feature.progress = match feature.progress {
            Progress::Stable | Progress::Pending if in_force => Progress::Stable,
            Progress::Changing if same => return,
            // RFC 4340 section 6.6.5: both ends must agree on the newest preferences.
            Progress::Changing | Progress::Unstable => Progress::Unstable,
            Progress::Stable | Progress::Pending => Progress::Pending,
        };
        feature.asked_anew |= feature.asked && feature.prefs != prefs;
        feature.prefs = prefs.into();
        feature.mandatory = mandatory;
        feature.asked = true;
        self.refresh();
    }

    /// Asks the peer to switch on a boolean feature, unless it is on already or we have asked before. The
    /// peer may refuse.
    pub(crate) fn ask_once(&mut self, number: u8, side: Side) {
        let may = self.find(number, side).is_some_and(|f| f.value == 0 && !f.asked);
        if may {
            self.change(number, side, &[1], false);
        }
    }

    /// From now on, accepts only the value in force, so that the peer cannot change the feature. This has no
    /// effect while we have a negotiation open.
    pub(crate) fn freeze(&mut self, number: u8, side: Side) {
        if let Some(feature) = self.find_mut(number, side).filter(|f| f.progress == Progress::Stable) {
            feature.prefs.clear();
            feature.prefs.push(feature.value);
        }
    }

    /// From now on, accepts no new value. The value in force stays.
    pub(crate) fn retire(&mut self, number: u8) {
        for feature in self.features.iter_mut().filter(|f| f.number == number) {
            feature.prefs.clear();
            feature.progress = Progress::Stable;
        }
        self.refresh();
    }

    /// Determines which feature options of a packet with these numbers may be processed.
    pub(crate) fn order(&self, seq: Seq, ack: Option<Seq>) -> Order {
        let in_order = self.fgsr.is_none_or(|fgsr| seq.after(fgsr));
        let answers = ack.is_some_and(|ack| self.fgss.is_none_or(|fgss| !ack.before(fgss)));
        Order { change: in_order, confirm: in_order && answers }
    }

    /// Processes one feature option of a packet (RFC 4340 section 6.6.2). Call [`note`](Self::note) after the
    /// packet's last option.
    pub(crate) fn handle(&mut self, order: Order, option: &Opt<'_>, mandatory: bool) -> Result<(), Error> {
        // The peer's L options refer to a feature at the peer, its R options to a feature at this end.
        let (side, number, data, is_change) = match *option {
            Opt::ChangeL(number, data) => (Side::Remote, number, data, true),
            Opt::ChangeR(number, data) => (Side::Local, number, data, true),
            Opt::ConfirmL(number, data) => (Side::Remote, number, data, false),
            Opt::ConfirmR(number, data) => (Side::Local, number, data, false),
            _ => return Ok(()),
        };
        let is_server = self.is_server;
        let in_order = if is_change { order.change } else { order.confirm };
        match self.find_mut(number, side) {
            Some(feature) => {
                if !in_order || feature.progress == Progress::Unstable {
                    return Ok(());
                }
                if is_change {
                    feature.on_change(data, mandatory, is_server)?;
                } else {
                    feature.on_confirm(data, is_server)?;
                }
            }
            // RFC 4340 section 6.6.7: refuse a Change of an unknown feature, and ignore a Confirm of one.
            None if is_change && mandatory => return Err(Error::Mandatory),
            None if is_change && in_order => self.refuse_unknown(side, number),
            None => {}
        }
        Ok(())
    }

    fn refuse_unknown(&mut self, side: Side, number: u8) {
        if self.unknown.len() < MAX_UNKNOWN && !self.unknown.contains(&(side, number)) {
            self.unknown.push((side, number));
        }
    }

    /// Call this after processing all options of a packet that has feature options.
    pub(crate) fn note(&mut self, seq: Seq) {
        self.refresh();
        if self.fgsr.is_none_or(|fgsr| seq.after(fgsr)) {
            self.fgsr = Some(seq);
        }
    }

    /// Returns whether something new must be written (see [`Moment::Established`]).
    pub(crate) fn wants_to_write(&self) -> bool {
        self.wants_to_write
    }

    /// Returns whether a Change is unanswered. As long as one is, run a timer, and call
    /// [`resend`](Self::resend) when the timer expires.
    pub(crate) fn is_changing(&self) -> bool {
        self.changing
    }

    fn refresh(&mut self) {
        self.changing = self.features.iter().any(|f| f.progress == Progress::Changing);
        self.wants_to_write = !self.unknown.is_empty()
            || self.features.iter().any(|f| {
                f.reply.is_some_and(|r| !r.sent)
                    || matches!(f.progress, Progress::Pending | Progress::Unstable)
                    || (f.resend && f.progress == Progress::Changing)
            });
    }

    /// Makes the next packet repeat the open Changes.
    pub(crate) fn resend(&mut self) {
        for feature in &mut self.features {
            feature.resend = true;
        }
        self.refresh();
    }

    /// Notes that the handshake is complete. From now on, answers that were sent are not repeated.
    pub(crate) fn establish(&mut self) {
        for feature in &mut self.features {
            if feature.reply.is_some_and(|r| r.sent) {
                feature.reply = None;
            }
        }
        self.refresh();
    }

    /// Writes the feature options for packet `seq`. Options that do not fit wait for the next packet. Returns
    /// true if the packet opens a negotiation; a repeated Change does not count.
    pub(crate) fn write(&mut self, moment: Moment, seq: Seq, out: &mut OptionBuf) -> bool {
        if moment == Moment::Established && !self.wants_to_write {
            return false;
        }
        let before = out.len();
        let mut new_change = false;
        for feature in &mut self.features {
            if let Some(reply) = feature.reply.filter(|_| moment != Moment::Request) {
                let value = if reply.empty { Vec::new() } else { feature.confirm_value() };
                let option = match feature.side {
                    Side::Local => Opt::ConfirmL(feature.number, &value),
                    Side::Remote => Opt::ConfirmR(feature.number, &value),
                };
                if out.push(&option) {
                    // RFC 4340 section 6.6.3: answers are not repeated unless a new Change arrives. During
                    // the handshake they are repeated anyway, because Linux requires them in the Ack that
                    // completes the handshake, and the first such Ack may be lost.
                    feature.reply = (moment == Moment::Handshake).then_some(Reply { sent: true, ..reply });
                }
            }
            let new = match feature.progress {
                Progress::Stable => continue,
                Progress::Pending | Progress::Unstable => true,
                Progress::Changing if moment == Moment::Established && !feature.resend => continue,
                Progress::Changing => false,
            };
            let value = feature.change_value();
            let option = match feature.side {
                Side::Local => Opt::ChangeL(feature.number, &value),
                Side::Remote => Opt::ChangeR(feature.number, &value),
            };
            // RFC 4340 section 5.8.2: Mandatory directly precedes its option, so write both or neither.
            if out.len() + value.len() + 4 > dccp_wire::MAX_OPTIONS {
                continue;
            }
            if feature.mandatory {
                out.push(&Opt::Mandatory);
            }
            out.push(&option);
            feature.progress = Progress::Changing;
            feature.resend = false;
            new_change |= new;
        }
        if moment != Moment::Request {
            self.unknown.retain(|(side, number)| {
                !out.push(&match side {
                    Side::Local => Opt::ConfirmL(*number, &[]),
                    Side::Remote => Opt::ConfirmR(*number, &[]),
                })
            });
        }
        if new_change {
            self.fgss = Some(seq);
        }
        self.refresh();
        if out.len() == before {
            // If nothing fits, wait for the next packet instead of requesting one.
            self.wants_to_write = false;
        }
        new_change
    }
}
