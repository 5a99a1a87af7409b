//! The values in scripts, which are numbers or bytes.

use std::fmt;

/// Maximum number of bytes of a value that a report shows. A padded packet can be much longer.
const SHOWN: usize = 64;

/// A number or bytes. The width of a number matters only for its conversion to bytes.
#[derive(Clone, Debug)]
pub enum Value {
    /// A number and its width in bytes, which is 0 if the script does not state one.
    Number(u64, usize),
    /// A byte string.
    Bytes(Vec<u8>),
}

impl Value {
    /// Converts the value to a number. Bytes are in network byte order.
    pub fn number(&self) -> Result<u64, String> {
        match self {
            Value::Number(n, _) => Ok(*n),
            Value::Bytes(bytes) if bytes.len() <= 8 => Ok(read(bytes)),
            Value::Bytes(bytes) => Err(format!("{} bytes do not fit into a number", bytes.len())),
        }
    }

    /// Converts the value to `width` bytes. A width of 0 means any number of bytes.
    pub fn bytes(&self, width: usize) -> Result<Vec<u8>, String> {
        match self {
            Value::Number(_, 0) if width == 0 => {
                Err("a decimal number has no width; write it in hexadecimal or as u8(..), u16(..), u32(..), u48(..)".into())
            }
            Value::Number(n, own) => {
                let width = if width == 0 { *own } else { width };
                let bytes = n.to_be_bytes();
                Ok(match width.checked_sub(8) {
                    Some(more) => [vec![0; more], bytes.to_vec()].concat(),
                    None => bytes[8 - width..].to_vec(),
                })
            }
            Value::Bytes(bytes) if width == 0 || bytes.len() == width => Ok(bytes.clone()),
            Value::Bytes(bytes) => Err(format!("{} bytes; expected {width}", bytes.len())),
        }
    }

    /// Returns whether the two values are equal. A number without a width equals any bytes that encode it.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Number(a, _), Value::Number(b, _)) => a == b,
            (Value::Bytes(a), Value::Number(n, w)) | (Value::Number(n, w), Value::Bytes(a)) => {
                (*w == 0 || *w == a.len()) && a.len() <= 8 && read(a) == *n
            }
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(n, _) => write!(f, "{n}"),
            Value::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().take(SHOWN).try_for_each(|b| write!(f, "{b:02x}"))?;
                if bytes.len() > SHOWN { write!(f, "... ({} bytes)", bytes.len()) } else { Ok(()) }
            }
        }
    }
}

/// Reads up to eight bytes in network byte order.
pub(crate) fn read(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_shortened_in_reports() {
        let text = |len: usize| Value::Bytes(vec![0xab; len]).to_string();
        assert_eq!((text(2), text(SHOWN).len()), ("0xabab".into(), 2 + 2 * SHOWN));
        assert_eq!(text(1400), format!("{}... (1400 bytes)", text(SHOWN)));
    }
}
