//! MP_PRIO, and the confirmation of options by MP_CONFIRM (RFC 9897 sections 3.2.1 and 3.2.10).

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_wire::{MpOption, Opt, Packet, PacketType, Seq};
use mpdccp_proto::*;
use mpdccp_units::Duration;

#[test]
fn prio_is_confirmed_verbatim_and_once() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.client.set_prio(net.now, id, PathId(1), 7);
    net.run(Duration::from_secs(5));
    let sent: Vec<_> = net.log.iter().filter(|l| l.mp().contains(&MpOption::Prio(7))).collect();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].path, sent[0].packet().header.ptype), (1, PacketType::Data));
    let [MpOption::Seq(seq), MpOption::Prio(7)] = sent[0].mp()[..] else { panic!("{:?}", sent[0].mp()) };
    let group = encode(&[MpOption::Seq(seq), MpOption::Prio(7)]);
    let confirms: Vec<_> =
        net.log.iter().filter(|l| l.from == Server && l.mp().contains(&MpOption::Confirm(&group))).collect();
    assert_eq!(confirms.len(), 1);
    assert!(
        confirms[0].is(Server, PacketType::Ack) && confirms[0].path == 1,
        "the confirmation must leave on the option's path"
    );
}

#[test]
fn several_groups_in_one_confirmation_count_all() {
    // RFC 9897 section 3.2.1: an MP_CONFIRM may confirm several groups of options, the newest group first.
    let (mut net, id) = Net::connected(1, 2, config());
    let mut first: Option<Vec<u8>> = None;
    net.meddler = Some(Box::new(move |from, _, bytes| {
        let packet = Packet::parse(bytes).unwrap();
        let group = packet.options().find_map(|o| match o {
            Ok(Opt::Mp(MpOption::Confirm(group))) if from == Server => Some(group.to_vec()),
            _ => None,
        });
        let Some(newer) = group else { return true };
        let Some(older) = first.take() else {
            first = Some(newer);
            return false;
        };
        let both = encode(&[MpOption::Confirm(&[newer, older].concat())]);
        *bytes = with_options(bytes, &both);
        true
    }));
    for (path, prio) in [(PathId(0), 7), (PathId(1), 9)] {
        net.client.set_prio(net.now, id, path, prio);
    }
    net.run(Duration::from_secs(30));
    let is = |l: &&Logged, prio| l.from == Client && l.mp().contains(&MpOption::Prio(prio));
    let sent = [7, 9].map(|prio| net.log.iter().filter(|l| is(l, prio)).count());
    assert_eq!(sent, [1, 1], "no option may be repeated");
    assert_eq!(counter(&net.status(Client, id), "confirm_unexpected"), 0);
}

#[test]
fn prio_is_repeated_until_confirmed() {
    for lost in [Client, Server] {
        let (mut net, id) = Net::connected(1, 2, config());
        // Either the option or its confirmation is lost twice.
        let mut losses = 0;
        net.meddler = Some(Box::new(move |from, _, bytes| {
            let is_it = |o| {
                let prio = matches!(o, Ok(Opt::Mp(MpOption::Prio(_))));
                if lost == Client { prio } else { matches!(o, Ok(Opt::Mp(MpOption::Confirm(_)))) }
            };
            let drop = losses < 2 && from == lost && Packet::parse(bytes).unwrap().options().any(is_it);
            losses += u32::from(drop);
            !drop
        }));
        net.client.set_prio(net.now, id, PathId(1), 2);
        net.run(Duration::from_secs(20));
        let sid = net.server_id();
        assert_eq!(net.status(Server, sid).paths[1].prio, 2);
        let numbers: Vec<Seq> = net
            .log
            .iter()
            .filter_map(|l| match l.mp()[..] {
                [MpOption::Seq(seq), MpOption::Prio(2)] => Some(seq),
                _ => None,
            })
            .collect();
        assert_eq!(numbers.len(), 3, "{lost:?}");
        assert!(numbers.windows(2).all(|w| w[1].after(w[0])), "each transmission must have a new MP_SEQ");
    }
}

#[test]
fn a_newer_prio_replaces_one_that_is_not_confirmed() {
    let (mut net, id) = Net::connected(1, 2, config());
    // The third option overtakes the first two, which arrive after the third has been confirmed.
    net.wires[1].up = false;
    for prio in [0, 1] {
        net.client.set_prio(net.now, id, PathId(1), prio);
        net.drain();
    }
    let held: Vec<Vec<u8>> = net
        .log
        .iter()
        .filter(|l| l.mp().iter().any(|o| matches!(o, MpOption::Prio(_))))
        .map(|l| l.bytes.clone())
        .collect();
    assert_eq!(held.len(), 2);
    net.wires[1].up = true;
    net.client.set_prio(net.now, id, PathId(1), 5);
    net.run(Duration::from_secs(1));
    let sid = net.server_id();
    assert_eq!(net.status(Server, sid).paths[1].prio, 5, "the server has set no priority of its own");
    let route = net.status(Server, sid).paths[1].route;
    for bytes in &held {
        net.inject(Server, route, dccp_proto::Ecn::NotEct, bytes);
    }
    net.run(Duration::from_secs(1));
    let status = net.status(Server, sid);
    assert_eq!(counter(&status, "outdated_mp_option"), 2);
    assert_eq!(status.paths[1].prio, 5);
    let again = net.log.iter().filter(|l| l.mp().contains(&MpOption::Prio(5))).count();
    assert_eq!(again, 1, "a confirmed option must not be repeated");
    net.server.set_prio(net.now, sid, PathId(1), 4);
    net.drain();
    assert_eq!(net.status(Server, sid).paths[1].prio, 4, "the smaller priority must apply");
}

/// RFC 9897 section 3.2.1: an earlier option had the same contents, but its confirmation must not confirm the
/// pending option.
#[test]
fn a_confirmation_that_comes_late_confirms_nothing_newer() {
    let (mut net, id, sid) = Net::both(1, 2, config());
    let prio = |net: &mut Net, prio, mute, time| {
        net.wires[1].mute = mute;
        net.client.set_prio(net.now, id, PathId(1), prio);
        net.run(Duration::from_millis(time));
    };
    prio(&mut net, 5, Some(Server), 100);
    let late = net.log.iter().find(|l| l.confirms()).unwrap().bytes.clone();
    prio(&mut net, 7, None, 500);
    prio(&mut net, 5, Some(Client), 0);
    assert_eq!(net.status(Server, sid).paths[1].prio, 7);
    let route = net.status(Client, id).paths[1].route;
    net.inject(Client, route, dccp_proto::Ecn::NotEct, &late);
    assert_eq!(counter(&net.status(Client, id), "confirm_unexpected"), 1);
    net.wires[1].mute = None;
    net.run(Duration::from_secs(1));
    assert_eq!(net.status(Server, sid).paths[1].prio, 5, "the option must be retransmitted");
}

/// RFC 9897 section 3.2.1: a confirmation names the MP_SEQ of the option. In this test, two subflows have
/// equal options, and each is sent several times.
#[test]
fn a_confirmation_does_not_confirm_the_same_option_of_another_subflow() {
    let (mut net, id, sid) = Net::both(1, 2, config());
    net.meddler = Some(Box::new(|from, path, bytes| {
        let packet = Packet::parse(bytes).unwrap();
        let mut options = packet.options().flatten();
        match (from, path) {
            (Client, 0) => !options.any(|o| matches!(o, Opt::Mp(MpOption::Prio(_)))),
            (Server, 1) => !options.any(|o| matches!(o, Opt::Mp(MpOption::Confirm(_)))),
            _ => true,
        }
    }));
    for path in [PathId(0), PathId(1)] {
        net.client.set_prio(net.now, id, path, 1);
    }
    net.run(Duration::from_secs(10));
    let told = |net: &Net, path| {
        net.log.iter().filter(|l| l.path == path && l.mp().contains(&MpOption::Prio(1))).count()
    };
    assert!(told(&net, 0) > 1 && told(&net, 1) > 1, "{} {}", told(&net, 0), told(&net, 1));
    let late = net.log.iter().find(|l| l.confirms()).unwrap().bytes.clone();
    net.meddler = None;
    let route = net.status(Client, id).paths[1].route;
    net.inject(Client, route, dccp_proto::Ecn::NotEct, &late);
    let before = told(&net, 1);
    net.run(Duration::from_secs(60));
    assert_eq!(told(&net, 1), before, "the option of path 1 is confirmed");
    assert_eq!(net.status(Server, sid).paths.iter().map(|p| p.prio).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_path_that_is_not_standard_tells_its_priority_when_it_opens() {
    let mut net = Net::new(1, 1, config());
    let id = net.client.connect(net.now, config(), PathConfig { prio: 2, ..path(0) });
    net.run(Duration::from_secs(1));
    let sid = net.server_id();
    assert_eq!(net.status(Server, sid).paths[0].prio, 2);
    assert_eq!(net.status(Client, id).paths[0].prio, 2);
}
