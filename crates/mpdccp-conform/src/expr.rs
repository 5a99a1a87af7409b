//! Parses and evaluates expressions, which consist of variables such as `$name.field`, numbers, bytes such as
//! `0x00`, texts such as `"text"`, the operators `+`, `-` and `++`, and function calls.

use crate::value::Value;
use dccp_wire::checksum::crc32c;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// A parsed expression.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A number, bytes or text.
    Literal(Value),
    /// A variable, written as `$name`, `$packet.field` or `$packet.option.field`.
    Variable(String),
    /// Addition modulo 2^64.
    Add(Box<Expr>, Box<Expr>),
    /// Subtraction modulo 2^64.
    Sub(Box<Expr>, Box<Expr>),
    /// Concatenation of bytes.
    Join(Box<Expr>, Box<Expr>),
    /// A function call, written as `name(arguments)`.
    Call(String, Vec<Expr>),
}

/// Numbers for which scripts use a name: Reset Codes (RFC 4340 section 5.6, RFC 9897) and features
/// (RFC 4340 section 6.4).
const NAMES: &[(&str, u64)] = &[
    ("closed", 1),
    ("aborted", 2),
    ("no_connection", 3),
    ("packet_error", 4),
    ("option_error", 5),
    ("mandatory_error", 6),
    ("refused", 7),
    ("bad_service_code", 8),
    ("too_busy", 9),
    ("bad_init_cookie", 10),
    ("abrupt_mp_termination", 13),
    ("ccid", 1),
    ("short_seqnos", 2),
    ("sequence_window", 3),
    ("ecn_incapable", 4),
    ("ack_ratio", 5),
    ("send_ack_vector", 6),
    ("send_ndp_count", 7),
    ("min_coverage", 8),
    ("check_data_checksum", 9),
    ("multipath_capable", 10),
    ("send_loss_event_rate", 192),
];

const FUNCTIONS: &[(&str, usize)] = &[
    ("hmac", 2),
    ("crc32c", 1),
    ("u8", 1),
    ("u16", 1),
    ("u32", 1),
    ("u48", 1),
    ("rand", 1),
    ("zeros", 1),
    ("len", 1),
];

/// Supplies an expression with random bytes and the values of variables.
pub trait Scope {
    /// Returns the value of a variable.
    fn variable(&self, name: &str) -> Result<Value, String>;
    /// Returns random bytes.
    fn random(&self, bytes: usize) -> Vec<u8>;
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Expr {
    /// Parses a complete expression.
    pub fn parse(text: &str) -> Result<Expr, String> {
        let mut reader = Reader { text, at: 0 };
        let expr = reader.sum()?;
        match reader.rest() {
            "" => Ok(expr),
            rest => Err(format!("unexpected `{rest}` after an expression in `{text}`")),
        }
    }

    /// Evaluates the expression.
    pub fn value(&self, scope: &dyn Scope) -> Result<Value, String> {
        Ok(match self {
            Expr::Literal(value) => value.clone(),
            Expr::Variable(name) => scope.variable(name)?,
            Expr::Add(a, b) => {
                let (a, b) = (a.value(scope)?, b.value(scope)?);
                Value::Number(a.number()?.wrapping_add(b.number()?), width(&a))
            }
            Expr::Sub(a, b) => {
                let (a, b) = (a.value(scope)?, b.value(scope)?);
                Value::Number(a.number()?.wrapping_sub(b.number()?), width(&a))
            }
            Expr::Join(a, b) => Value::Bytes([a.value(scope)?.bytes(0)?, b.value(scope)?.bytes(0)?].concat()),
            Expr::Call(name, arguments) => {
                let values = arguments.iter().map(|a| a.value(scope)).collect::<Result<Vec<_>, _>>()?;
                call(name, &values, scope)?
            }
        })
    }
}

fn width(value: &Value) -> usize {
    match value {
        Value::Number(_, width) => *width,
        Value::Bytes(bytes) => bytes.len(),
    }
}

fn call(name: &str, values: &[Value], scope: &dyn Scope) -> Result<Value, String> {
    let fixed =
        |width: usize| values[0].number().map(|n| Value::Bytes(n.to_be_bytes()[8 - width..].to_vec()));
    match name {
        // The leftmost 160 bits of HMAC-SHA256 (RFC 9897 section 3.2.6).
        "hmac" => {
            let mut mac = Hmac::<Sha256>::new_from_slice(&values[0].bytes(0)?).map_err(|e| e.to_string())?;
            mac.update(&values[1].bytes(0)?);
            Ok(Value::Bytes(mac.finalize().into_bytes()[..20].to_vec()))
        }
        // The least significant byte comes first (RFC 4340 section 9.3).
        "crc32c" => Ok(Value::Bytes(crc32c(&values[0].bytes(0)?).to_le_bytes().to_vec())),
        "u8" => fixed(1),
        "u16" => fixed(2),
        "u32" => fixed(4),
        "u48" => fixed(6),
        "rand" => Ok(Value::Bytes(scope.random(values[0].number()? as usize))),
        "zeros" => Ok(Value::Bytes(vec![0; values[0].number()?.min(65_535) as usize])),
        _ => Ok(Value::Number(values[0].bytes(0)?.len() as u64, 0)),
    }
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn word(&mut self, fits: impl Fn(char) -> bool) -> String {
        let word: String = self.rest().chars().take_while(|c| fits(*c)).collect();
        self.at += word.len();
        word
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.term()?;
        loop {
            let make = if self.take("++") {
                Expr::Join
            } else if self.take("+") {
                Expr::Add
            } else if self.take("-") {
                Expr::Sub
            } else {
                return Ok(left);
            };
            left = make(Box::new(left), Box::new(self.term()?));
        }
    }

    fn term(&mut self) -> Result<Expr, String> {
        if self.take("$") {
            let name = self.word(|c| c.is_alphanumeric() || c == '_' || c == '.');
            return if name.is_empty() {
                Err(format!("missing name after `$` in `{}`", self.text))
            } else {
                Ok(Expr::Variable(name))
            };
        }
        if self.take("\"") {
            let text = self.word(|c| c != '"');
            return if self.take("\"") {
                Ok(Expr::Literal(Value::Bytes(text.into())))
            } else {
                Err("a string has no closing quote".into())
            };
        }
        if self.take("0x") {
            let digits = self.word(|c| c.is_ascii_hexdigit() || c == '_').replace('_', "");
            let pairs = digits.as_bytes().chunks(2).map(|pair| {
                std::str::from_utf8(pair)
                    .ok()
                    .filter(|p| p.len() == 2)
                    .and_then(|p| u8::from_str_radix(p, 16).ok())
            });
            let bytes: Option<Vec<u8>> = pairs.collect();
            return bytes
                .map(|b| Expr::Literal(Value::Bytes(b)))
                .ok_or(format!("0x{digits}: odd number of hexadecimal digits"));
        }
        let word = self.word(|c| c.is_alphanumeric() || c == '_');
        if let Ok(number) = word.replace('_', "").parse() {
            return Ok(Expr::Literal(Value::Number(number, 0)));
        }
        if self.take("(") {
            let mut arguments = Vec::new();
            while !self.take(")") {
                arguments.push(self.sum()?);
                if !self.take(",") && !self.rest().starts_with(')') {
                    return Err(format!("`{}` has no closing `)`", self.text));
                }
            }
            return match FUNCTIONS.iter().find(|(name, _)| *name == word) {
                Some((_, wanted)) if *wanted == arguments.len() => Ok(Expr::Call(word, arguments)),
                Some((_, wanted)) => Err(format!("{word} takes {wanted} arguments, not {}", arguments.len())),
                None => Err(format!("unknown function `{word}`")),
            };
        }
        let named = NAMES.iter().find(|(name, _)| *name == word);
        named
            .map(|(_, n)| Expr::Literal(Value::Number(*n, 0)))
            .ok_or(format!("`{word}` in `{}` is not a value", self.text))
    }
}
