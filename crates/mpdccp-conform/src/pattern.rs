//! Patterns for values, such as `*`, `3`, `1..4`, `..4`, `1|2`, `!3` and `0x00*`. The pattern `0x00*` matches
//! bytes that start with 0x00.

use crate::expr::{Expr, Scope};
use crate::value::Value;

/// A parsed pattern.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Matches any value.
    Any,
    /// Matches exactly this value.
    Is(Expr),
    /// Matches bytes with this prefix.
    Begins(Expr),
    /// Matches a range, both ends included. Values wrap at the field's width.
    Range(Option<Expr>, Option<Expr>),
    /// Matches a value if any of these patterns does.
    OneOf(Vec<Pattern>),
    /// Matches a value if this pattern does not.
    Not(Box<Pattern>),
}

impl Pattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let parts = split(text);
        if parts.len() > 1 {
            return Ok(Pattern::OneOf(parts.into_iter().map(Pattern::parse).collect::<Result<_, _>>()?));
        }
        if let Some(rest) = text.strip_prefix('!') {
            return Ok(Pattern::Not(Box::new(Pattern::parse(rest)?)));
        }
        if text == "*" {
            return Ok(Pattern::Any);
        }
        if let Some((from, to)) = text.split_once("..") {
            let end = |text: &str| (!text.is_empty()).then(|| Expr::parse(text)).transpose();
            return Ok(Pattern::Range(end(from)?, end(to)?));
        }
        Ok(match text.strip_suffix('*') {
            Some(start) => Pattern::Begins(Expr::parse(start)?),
            None => Pattern::Is(Expr::parse(text)?),
        })
    }

    /// Returns whether the pattern matches the value of a field of `width` bytes. A width of 0 means any
    /// length.
    pub fn fits(&self, value: &Value, width: usize, scope: &dyn Scope) -> Result<bool, String> {
        let mask = if width == 0 || width >= 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
        Ok(match self {
            Pattern::Any => true,
            Pattern::Is(expr) => match expr.value(scope)? {
                Value::Number(n, _) => Value::Number(n & mask, 0).same(value),
                bytes => bytes.same(value),
            },
            Pattern::Begins(expr) => value.bytes(0)?.starts_with(&expr.value(scope)?.bytes(0)?),
            Pattern::Range(from, to) => {
                let end = |e: &Option<Expr>, or| e.as_ref().map_or(Ok(or), |e| e.value(scope)?.number());
                let (from, to) = (end(from, 0)?, end(to, mask)?);
                value.number()?.wrapping_sub(from) & mask <= to.wrapping_sub(from) & mask
            }
            Pattern::OneOf(all) => {
                for one in all {
                    if one.fits(value, width, scope)? {
                        return Ok(true);
                    }
                }
                false
            }
            Pattern::Not(other) => !other.fits(value, width, scope)?,
        })
    }
}

/// Splits a pattern at each `|` that is not inside quotes.
fn split(text: &str) -> Vec<&str> {
    let mut quoted = false;
    text.split(move |c: char| {
        quoted ^= c == '"';
        c == '|' && !quoted
    })
    .collect()
}
