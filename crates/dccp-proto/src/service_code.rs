use core::fmt;
use core::str::FromStr;

/// Identifies the application that a client wants to reach (RFC 4340 section 8.1.2). Its text form is `SC:`
/// followed by one to four characters, `SC=` followed by a decimal number, or `SC=x` followed by a
/// hexadecimal number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceCode(pub u32);

impl ServiceCode {
    /// The code that stands for no specific service.
    pub const NONE: ServiceCode = ServiceCode(0);
    /// The code that is never valid and that servers refuse.
    pub(crate) const INVALID: ServiceCode = ServiceCode(u32::MAX);
}

/// Error for a text that is not a Service Code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadServiceCode;

impl fmt::Display for BadServiceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected SC: and one to four letters, digits or -_+.*/?@, or SC= and a number up to 4294967294, such as SC:chat or SC=7",
        )
    }
}

impl core::error::Error for BadServiceCode {}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_+.*/?@".contains(&byte)
}

impl FromStr for ServiceCode {
    type Err = BadServiceCode;

    fn from_str(text: &str) -> Result<ServiceCode, BadServiceCode> {
        if let Some(name) = text.strip_prefix("SC:") {
            let bytes = name.as_bytes();
            if bytes.is_empty() || bytes.len() > 4 || !bytes.iter().copied().all(is_plain) {
                return Err(BadServiceCode);
            }
            let mut code = [b' '; 4];
            code[..bytes.len()].copy_from_slice(bytes);
            return Ok(ServiceCode(u32::from_be_bytes(code)));
        }
        let number = text.strip_prefix("SC=").ok_or(BadServiceCode)?;
        let (digits, radix) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16),
            None => (number, 10),
        };
        // Check the digits, because the number parser would also accept a sign.
        if !digits.chars().all(|c| c.is_digit(radix)) {
            return Err(BadServiceCode);
        }
        let code = u32::from_str_radix(digits, radix).map_err(|_| BadServiceCode)?;
        Some(ServiceCode(code)).filter(|code| *code != ServiceCode::INVALID).ok_or(BadServiceCode)
    }
}

impl fmt::Display for ServiceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.to_be_bytes();
        match core::str::from_utf8(&bytes).map(|text| text.trim_end_matches(' ')) {
            Ok(name) if !name.is_empty() && name.bytes().all(is_plain) => write!(f, "SC:{name}"),
            _ => write!(f, "SC={}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// The text forms of RFC 4340 section 8.1.2.
    #[test]
    fn text_forms() {
        for text in ["SC:fdpz", "SC=1717858426", "SC=x6664707A", "SC=X6664707a"] {
            assert_eq!(text.parse(), Ok(ServiceCode(1_717_858_426)), "{text}");
        }
        assert_eq!(ServiceCode(1_717_858_426).to_string(), "SC:fdpz");
        // Short codes are padded on the right with spaces.
        assert_eq!("SC:a?".parse(), Ok(ServiceCode(0x613f_2020)));
        assert_eq!(ServiceCode(0x613f_2020).to_string(), "SC:a?");
        assert_eq!(ServiceCode(7).to_string(), "SC=7");
        assert_eq!(ServiceCode::NONE.to_string(), "SC=0");
        assert_eq!("SC=4294967294".parse(), Ok(ServiceCode(u32::MAX - 1)));
        for text in [
            "",
            "chat",
            "SC:",
            "SC:12345",
            "SC:a b",
            "SC:a!",
            "SC=",
            "SC=x",
            "SC=-1",
            "SC=+1",
            "SC=4294967295",
        ] {
            assert_eq!(text.parse::<ServiceCode>(), Err(BadServiceCode), "{text}");
        }
    }
}
