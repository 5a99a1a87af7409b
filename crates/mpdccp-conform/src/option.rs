//! Encodes and parses a packet's options, valid or not, as named fields.

use crate::value::Value;

/// The form of an option: name, type, subtype (only for Multipath options) and fields. Each field has a width
/// in bytes; a width of 0 means the rest of the option.
struct Form {
    name: &'static str,
    kind: u8,
    sub: Option<u8>,
    fields: &'static [(&'static str, usize)],
}

const fn form(name: &'static str, kind: u8, fields: &'static [(&'static str, usize)]) -> Form {
    Form { name, kind, sub: None, fields }
}

const fn mp(name: &'static str, sub: u8, fields: &'static [(&'static str, usize)]) -> Form {
    Form { name, kind: MULTIPATH, sub: Some(sub), fields }
}

const MULTIPATH: u8 = 46;
/// An option whose type is below this number is a single byte (RFC 4340 section 5.8).
const FIRST_LONG: u8 = 32;

/// The options of RFC 4340 table 3, RFC 4342 section 8 and RFC 9897 section 3.2.
const FORMS: &[Form] = &[
    form("padding", 0, &[]),
    form("mandatory", 1, &[]),
    form("slow_receiver", 2, &[]),
    form("change_l", 32, &[("feature", 1), ("value", 0)]),
    form("confirm_l", 33, &[("feature", 1), ("value", 0)]),
    form("change_r", 34, &[("feature", 1), ("value", 0)]),
    form("confirm_r", 35, &[("feature", 1), ("value", 0)]),
    form("init_cookie", 36, &[("cookie", 0)]),
    form("ndp_count", 37, &[("count", 0)]),
    form("ack_vector_0", 38, &[("cells", 0)]),
    form("ack_vector_1", 39, &[("cells", 0)]),
    form("data_dropped", 40, &[("blocks", 0)]),
    form("timestamp", 41, &[("time", 4)]),
    form("timestamp_echo", 42, &[("time", 4), ("elapsed", 0)]),
    form("elapsed_time", 43, &[("elapsed", 0)]),
    form("data_checksum", 44, &[("crc", 4)]),
    mp("mp_confirm", 0, &[("groups", 0)]),
    mp("mp_join", 1, &[("id", 1), ("ci", 4), ("nonce", 4)]),
    mp("mp_fast_close", 2, &[("key", 0)]),
    mp("mp_key", 3, &[("reserved", 1), ("ci", 4), ("type", 1), ("key", 0)]),
    mp("mp_seq", 4, &[("seq", 6)]),
    mp("mp_hmac", 5, &[("hmac", 20)]),
    mp("mp_rtt", 6, &[("type", 1), ("rtt", 4), ("age", 4)]),
    mp("mp_addaddr", 7, &[("id", 1), ("nonce", 4), ("address", 0)]),
    mp("mp_removeaddr", 8, &[("id", 1), ("nonce", 4)]),
    mp("mp_prio", 9, &[("prio", 1)]),
    mp("mp_close", 10, &[("key", 0)]),
    mp("mp_exp", 11, &[("data", 0)]),
    form("loss_event_rate", 192, &[("rate", 4)]),
    form("loss_intervals", 193, &[("intervals", 0)]),
    form("receive_rate", 194, &[("rate", 4)]),
    // Form of all other options and of options with a wrong length. The fields are the type and the data.
    form("opt", 0, &[("kind", 1), ("data", 0)]),
];

/// A parsed option.
#[derive(Clone, Debug)]
pub struct Opt {
    /// The option's name in scripts.
    pub name: &'static str,
    /// The name, the width in bytes and the value of each field. The width 0 means the rest of the option.
    pub fields: Vec<(&'static str, usize, Value)>,
    /// The option's bytes on the wire.
    pub bytes: Vec<u8>,
}

fn find(name: &str) -> Result<&'static Form, String> {
    FORMS.iter().find(|f| f.name == name).ok_or_else(|| {
        let names: Vec<_> = FORMS.iter().map(|f| f.name).collect();
        format!("unknown option `{name}`; expected one of: {}, raw", names.join(", "))
    })
}

/// Checks an option's name and number of arguments, for the script parser.
pub fn check(name: &str, arguments: usize) -> Result<(), String> {
    let most = if name == "raw" { 1 } else { find(name)?.fields.len() };
    if arguments > most { Err(format!("option `{name}` has {most} fields, not {arguments}")) } else { Ok(()) }
}

/// Encodes an option. The option `raw` is its argument, unchanged.
pub fn write(name: &str, arguments: &[Value]) -> Result<Vec<u8>, String> {
    if name == "raw" {
        return arguments.first().map_or(Ok(Vec::new()), |a| a.bytes(0));
    }
    let form = find(name)?;
    let mut data: Vec<u8> = form.sub.into_iter().collect();
    for ((field, width), value) in form.fields.iter().zip(arguments) {
        data.extend(value.bytes(*width).map_err(|e| format!("{name}, {field}: {e}"))?);
    }
    let kind = match (name, data.is_empty()) {
        ("opt", true) => return Err("opt: missing the number of the option, as in `<opt 55 0x01>`".into()),
        ("opt", false) => data.remove(0),
        _ => form.kind,
    };
    if kind < FIRST_LONG {
        return Ok(vec![kind]);
    }
    let length = u8::try_from(data.len() + 2).map_err(|_| format!("{name} is longer than 255 bytes"))?;
    Ok([vec![kind, length], data].concat())
}

/// Returns the Confirm option that accepts a Change option (RFC 4340 section 6.3). It confirms the first
/// value of a list, but for the CCID only the value 2.
pub fn agree(change: &Opt) -> Option<Vec<u8>> {
    let kind = match change.name {
        "change_l" => 35,
        "change_r" => 33,
        _ => return None,
    };
    let (&feature, values) = change.bytes.get(2..)?.split_first()?;
    let answer = match feature {
        // The Confirm of a non-negotiable feature repeats the value from the Change.
        3 | 5 => values.to_vec(),
        1 => values.iter().find(|v| **v == 2).map_or(Vec::new(), |v| vec![*v, *v]),
        2..=9 | 192 => values.first().map_or(Vec::new(), |v| vec![*v, *v]),
        _ => Vec::new(),
    };
    Some([vec![kind, answer.len() as u8 + 3, feature], answer].concat())
}

/// Parses the options of a packet (RFC 4340 section 5.8). Returns an error for options that no implementation
/// may send.
pub fn read(mut area: &[u8]) -> Result<Vec<Opt>, String> {
    let mut found = Vec::new();
    while let Some(&kind) = area.first() {
        let length = match (kind < FIRST_LONG, area.get(1)) {
            (true, _) => 1,
            (false, Some(length)) if usize::from(*length) >= 2 && usize::from(*length) <= area.len() => {
                usize::from(*length)
            }
            _ => return Err(format!("option {kind} has a length byte that exceeds the option area")),
        };
        let (bytes, rest) = area.split_at(length);
        area = rest;
        if kind == 0 {
            continue;
        }
        let fitting = FORMS
            .iter()
            .filter(|f| f.name != "opt" && f.kind == kind)
            .find_map(|f| fields(f, bytes).map(|v| (f.name, v)));
        let (name, fields) = fitting.unwrap_or_else(|| {
            let data = Value::Bytes(bytes.get(2..).unwrap_or_default().to_vec());
            ("opt", vec![("kind", 1, Value::Number(kind.into(), 1)), ("data", 0, data)])
        });
        found.push(Opt { name, fields, bytes: bytes.to_vec() });
    }
    Ok(found)
}

fn fields(form: &Form, bytes: &[u8]) -> Option<Vec<(&'static str, usize, Value)>> {
    let mut data = bytes.get(2..).unwrap_or_default();
    if let Some(sub) = form.sub {
        let (first, rest) = data.split_first()?;
        if *first != sub {
            return None;
        }
        data = rest;
    }
    let mut found = Vec::new();
    for &(name, width) in form.fields {
        let (field, rest) = data.split_at_checked(if width == 0 { data.len() } else { width })?;
        found.push((name, width, Value::Bytes(field.to_vec())));
        data = rest;
    }
    data.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_by_number_needs_the_number() {
        let number = Value::Number(55, 0);
        assert_eq!(write("opt", &[number.clone(), Value::Bytes(vec![1])]), Ok(vec![55, 3, 1]));
        assert_eq!(write("opt", &[number]), Ok(vec![55, 2]));
        assert!(write("opt", &[]).is_err_and(|why| why.contains("missing the number")));
    }
}
