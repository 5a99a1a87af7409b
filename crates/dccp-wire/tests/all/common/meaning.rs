//! The fields that tshark must show for a packet, derived from the values that were written instead of from
//! the bytes.

use dccp_wire::{Header, MpOption, Opt, Options, Reset, ResetCode, RttType};

/// Names of the fields to read: our name, tshark's name in native packets, and tshark's name in UDP. An empty
/// name means that tshark does not show the field.
pub(crate) const FIELDS: &[(&str, &str, &str)] = &[
    ("srcport", "dccp.srcport", "dccpudp.srcport"),
    ("dstport", "dccp.dstport", "dccpudp.dstport"),
    ("data_offset", "dccp.data_offset", "dccpudp.data_offset"),
    ("ccval", "dccp.ccval", "dccpudp.ccval"),
    ("cscov", "dccp.cscov", "dccpudp.cscov"),
    ("type", "dccp.type", "dccpudp.type"),
    ("x", "dccp.x", "dccpudp.x"),
    ("seq", "dccp.seq_raw", "dccpudp.seq"),
    ("ack", "dccp.ack_raw", "dccpudp.ack"),
    ("service_code", "dccp.service_code", "dccpudp.service_code"),
    ("reset_code", "dccp.reset_code", "dccpudp.reset_code"),
    ("reset_data", "", "dccpudp.reset_data"),
    ("reset_data1", "dccp.data1", ""),
    ("reset_data2", "dccp.data2", ""),
    ("reset_data3", "dccp.data3", ""),
    ("option_type", "dccp.option_type", "dccpudp.option_type"),
    ("feature", "dccp.feature_number", "dccpudp.feature_number"),
    ("feature_value", "", "dccpudp.feature_value"),
    ("init_cookie", "dccp.init_cookie", "dccpudp.init_cookie"),
    ("ndp_count", "dccp.ndp_count", "dccpudp.ndp_count"),
    ("ack_vector", "", "dccpudp.ack_vector"),
    ("ack_vector_0", "dccp.ack_vector.nonce_0", ""),
    ("ack_vector_1", "dccp.ack_vector.nonce_1", ""),
    ("data_dropped", "dccp.data_dropped", "dccpudp.data_dropped"),
    ("timestamp", "dccp.timestamp", "dccpudp.timestamp"),
    ("timestamp_echo", "dccp.timestamp_echo", "dccpudp.timestamp_echo"),
    ("elapsed_time", "dccp.elapsed_time", "dccpudp.elapsed_time"),
    ("data_checksum", "dccp.checksum_data", "dccpudp.checksum_data"),
    ("option_data", "", "dccpudp.option_data"),
    ("data", "data.data", "dccpudp.data"),
    ("mp_length", "mpdccp.length", "mpdccp.length"),
    ("mp_subtype", "mpdccp.subtype", "mpdccp.subtype"),
    ("mp_confirm", "mpdccp.confirm", "mpdccp.confirm"),
    ("mp_join_addr_id", "mpdccp.join.addr_id", "mpdccp.join.addr_id"),
    ("mp_join_ci", "mpdccp.join.ci", "mpdccp.join.ci"),
    ("mp_join_nonce", "mpdccp.join.nonce", "mpdccp.join.nonce"),
    ("mp_fast_close", "mpdccp.fast_close.key", "mpdccp.fast_close.key"),
    ("mp_key_reserved", "mpdccp.key.reserved", "mpdccp.key.reserved"),
    ("mp_key_ci", "mpdccp.key.ci", "mpdccp.key.ci"),
    ("mp_key_type", "mpdccp.key.type", "mpdccp.key.type"),
    ("mp_key_data", "mpdccp.key.data", "mpdccp.key.data"),
    ("mp_seq", "mpdccp.seq", "mpdccp.seq"),
    ("mp_hmac", "mpdccp.hmac", "mpdccp.hmac"),
    ("mp_rtt_type", "mpdccp.rtt.type", "mpdccp.rtt.type"),
    ("mp_rtt", "mpdccp.rtt.rtt", "mpdccp.rtt.rtt"),
    ("mp_rtt_age", "mpdccp.rtt.age", "mpdccp.rtt.age"),
    ("mp_add_id", "mpdccp.addaddr.addr_id", "mpdccp.addaddr.addr_id"),
    ("mp_add_nonce", "mpdccp.addaddr.nonce", "mpdccp.addaddr.nonce"),
    ("mp_add_ipv4", "mpdccp.addaddr.ipv4", "mpdccp.addaddr.ipv4"),
    ("mp_add_ipv6", "mpdccp.addaddr.ipv6", "mpdccp.addaddr.ipv6"),
    ("mp_add_port", "mpdccp.addaddr.port", "mpdccp.addaddr.port"),
    ("mp_remove_id", "mpdccp.removeaddr.addr_id", "mpdccp.removeaddr.addr_id"),
    ("mp_remove_nonce", "mpdccp.removeaddr.nonce", "mpdccp.removeaddr.nonce"),
    ("mp_prio", "mpdccp.prio", "mpdccp.prio"),
    ("mp_close", "mpdccp.close.key", "mpdccp.close.key"),
    ("mp_exp", "mpdccp.exp", "mpdccp.exp"),
    ("mp_unknown", "mpdccp.unknown", "mpdccp.unknown"),
    ("mp_capable", "mpdccp.capable", "mpdccp.capable"),
    ("mp_version", "mpdccp.capable.version", "mpdccp.capable.version"),
    ("mp_reset_code", "mpdccp.reset_code", "mpdccp.reset_code"),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Pairs of our field name and its value, in packet order.
#[derive(Default)]
pub(crate) struct Meaning(pub(crate) Vec<(&'static str, String)>);

impl Meaning {
    fn is(&mut self, field: &'static str, value: impl ToString) {
        self.0.push((field, value.to_string()));
    }

    /// Adds a bytes field. tshark shows no item for an empty value.
    pub(crate) fn bytes(&mut self, field: &'static str, value: &[u8]) {
        if !value.is_empty() {
            self.is(field, hex(value));
        }
    }

    pub(crate) fn header(&mut self, header: &Header, options: usize) {
        self.is("srcport", header.src_port);
        self.is("dstport", header.dst_port);
        self.is("data_offset", header.packet_len(options, 0) / 4);
        self.is("ccval", header.ccval);
        self.is("cscov", header.cscov);
        self.is("type", header.ptype.number());
        self.is("x", u8::from(!header.short));
        self.is("seq", header.seq.value());
        header.ack.iter().for_each(|ack| self.is("ack", ack.value()));
        header.service_code.iter().for_each(|code| self.is("service_code", code));
        if let Some(Reset { code, data }) = header.reset {
            self.is("reset_code", code.number());
            self.bytes("reset_data", &data);
            self.is("reset_data1", data[0]);
            self.is("reset_data2", data[1]);
            self.is("reset_data3", data[2]);
            if code == ResetCode::AbruptMpTermination {
                self.is("mp_reset_code", 13);
            }
        }
    }

    fn feature(&mut self, kind: u8, feature: u8, value: &[u8]) {
        self.is("option_type", kind);
        self.is("feature", feature);
        self.bytes("feature_value", value);
        if feature == dccp_wire::feature::MULTIPATH_CAPABLE {
            self.is("mp_capable", kind);
            value.iter().for_each(|version| self.is("mp_version", version >> 4));
        }
    }

    pub(crate) fn option(&mut self, option: &Opt<'_>) {
        match *option {
            Opt::Mandatory => self.is("option_type", 1),
            Opt::SlowReceiver => self.is("option_type", 2),
            Opt::ChangeL(feature, value) => self.feature(32, feature, value),
            Opt::ConfirmL(feature, value) => self.feature(33, feature, value),
            Opt::ChangeR(feature, value) => self.feature(34, feature, value),
            Opt::ConfirmR(feature, value) => self.feature(35, feature, value),
            Opt::InitCookie(cookie) => {
                self.is("option_type", 36);
                self.bytes("init_cookie", cookie);
            }
            Opt::NdpCount(count) => {
                self.is("option_type", 37);
                self.is("ndp_count", count);
            }
            Opt::AckVector(nonce, cells) => {
                self.is("option_type", 38 + u8::from(nonce));
                self.bytes("ack_vector", cells);
                self.bytes(if nonce { "ack_vector_1" } else { "ack_vector_0" }, cells);
            }
            Opt::DataDropped(blocks) => {
                self.is("option_type", 40);
                self.bytes("data_dropped", blocks);
            }
            Opt::Timestamp(time) => {
                self.is("option_type", 41);
                self.is("timestamp", time);
            }
            Opt::TimestampEcho(echo, elapsed) => {
                self.is("option_type", 42);
                self.is("timestamp_echo", echo);
                if elapsed != 0 {
                    self.is("elapsed_time", elapsed);
                }
            }
            Opt::ElapsedTime(elapsed) => {
                self.is("option_type", 43);
                self.is("elapsed_time", elapsed);
            }
            Opt::DataChecksum(crc) => {
                self.is("option_type", 44);
                // tshark shows the bytes in network order, but the low byte of the CRC comes first, as in
                // SCTP.
                self.is("data_checksum", crc.swap_bytes());
            }
            Opt::Mp(ref mp) => {
                self.is("option_type", 46);
                self.mp(mp);
            }
            Opt::Ccid(kind, data) | Opt::Unknown(kind, data) | Opt::Invalid(kind, data) => {
                self.is("option_type", kind);
                self.bytes("option_data", data);
            }
        }
    }

    fn mp(&mut self, mp: &MpOption<'_>) {
        // Lengths: RFC 9897 section 3.2.
        let (subtype, len) = match *mp {
            MpOption::Confirm(groups) => (0, 3 + groups.len()),
            MpOption::Join { .. } => (1, 12),
            MpOption::FastClose(key) => (2, 3 + key.len()),
            MpOption::Key { keys, .. } => (3, 8 + keys.len()),
            MpOption::Seq(_) => (4, 9),
            MpOption::Hmac(_) => (5, 23),
            MpOption::Rtt { .. } => (6, 12),
            MpOption::AddAddr { addr, port, .. } => {
                (7, if addr.is_ipv4() { 12 } else { 24 } + if port.is_some() { 2 } else { 0 })
            }
            MpOption::RemoveAddr { .. } => (8, 8),
            MpOption::Prio(_) => (9, 4),
            MpOption::Close(key) => (10, 3 + key.len()),
            MpOption::Exp(data) => (11, 3 + data.len()),
            MpOption::Unknown(subtype, data) => (subtype, 3 + data.len()),
        };
        self.is("mp_length", len);
        self.is("mp_subtype", subtype);
        match *mp {
            MpOption::Confirm(groups) => {
                self.bytes("mp_confirm", groups);
                for option in Options::new(groups) {
                    match option {
                        Ok(Opt::Mp(mp)) => self.mp(&mp),
                        other => panic!("{other:?} in a confirmation"),
                    }
                }
            }
            MpOption::Join { addr_id, ci, nonce } => {
                self.is("mp_join_addr_id", addr_id);
                self.is("mp_join_ci", ci);
                self.is("mp_join_nonce", nonce);
            }
            MpOption::FastClose(key) => self.bytes("mp_fast_close", key),
            MpOption::Key { ci, keys } => {
                self.is("mp_key_reserved", 0);
                self.is("mp_key_ci", ci);
                for (kind, key) in MpOption::keys(keys) {
                    self.is("mp_key_type", kind.number());
                    self.bytes("mp_key_data", key);
                }
            }
            MpOption::Seq(seq) => self.is("mp_seq", seq.value()),
            MpOption::Hmac(hmac) => self.bytes("mp_hmac", hmac),
            MpOption::Rtt { kind, rtt_ms, age_ms } => {
                let kinds = [RttType::Raw, RttType::Min, RttType::Max, RttType::Smooth];
                self.is("mp_rtt_type", kinds.iter().position(|&k| k == kind).unwrap());
                self.is("mp_rtt", rtt_ms);
                self.is("mp_rtt_age", age_ms);
            }
            MpOption::AddAddr { addr_id, nonce, addr, port } => {
                self.is("mp_add_id", addr_id);
                self.is("mp_add_nonce", nonce);
                self.is(if addr.is_ipv4() { "mp_add_ipv4" } else { "mp_add_ipv6" }, addr);
                port.iter().for_each(|port| self.is("mp_add_port", port));
            }
            MpOption::RemoveAddr { addr_id, nonce } => {
                self.is("mp_remove_id", addr_id);
                self.is("mp_remove_nonce", nonce);
            }
            MpOption::Prio(prio) => self.is("mp_prio", prio),
            MpOption::Close(key) => self.bytes("mp_close", key),
            MpOption::Exp(data) => self.bytes("mp_exp", data),
            MpOption::Unknown(_, data) => self.bytes("mp_unknown", data),
        }
    }
}
