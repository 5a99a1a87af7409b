//! Determines to which direction link keys apply, and how events change them.

use super::LinkKeys;

/// Returns a phrase for each difference between a link's state and its earlier state `before`.
pub(super) fn words_after(now: &LinkKeys, before: &LinkKeys) -> Vec<&'static str> {
    let (old, new) = (before.mean_rate(), now.mean_rate());
    let phrases = [
        (new < old, "the drop"),
        (new > old, "the rise"),
        (now.is_up() && !before.is_up(), "the return"),
        (!now.is_up() && before.is_up(), "the outage"),
        (now.owd != before.owd, "the change of delay"),
        ((now.loss, now.burst_loss) != (before.loss, before.burst_loss), "the change of loss"),
    ];
    phrases.into_iter().filter(|(so, _)| *so).map(|(_, phrase)| phrase).collect()
}

/// Returns the keys of both directions after changes: `both` changes both directions, `forward` only client
/// to server, and `reverse` only server to client.
pub(super) fn ways(
    base: &[LinkKeys; 2],
    both: &LinkKeys,
    forward: Option<&LinkKeys>,
    reverse: Option<&LinkKeys>,
) -> [LinkKeys; 2] {
    let single = |own: Option<&LinkKeys>, both: LinkKeys| own.map_or(both.clone(), |own| own.over(&both));
    [single(forward, both.over(&base[0])), single(reverse, both.behind().over(&base[1]))]
}
