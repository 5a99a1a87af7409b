//! Checks assertions such as `assert tcpi_snd_cwnd == 10 and tcpi_ca_state == TCP_CA_Open, "message"`, which
//! are separated by newlines or semicolons and use a small subset of Python.

/// Result of an assertion.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The script contains an error.
    Script(String),
    /// The assertion is false. `values` lists the names in it with their values.
    False { assertion: String, values: String },
}

/// Checks every assertion in `code`. `value` returns the value of a name.
pub(super) fn check(code: &str, value: &dyn Fn(&str) -> Option<i64>) -> Result<(), Failed> {
    for statement in code
        .split(['\n', ';'])
        .map(str::trim)
        .filter(|s| !s.is_empty() && !s.starts_with('#') && !s.starts_with("print("))
    {
        let assertion =
            statement.strip_prefix("assert ").map(|s| s.split(',').next().unwrap_or_default().trim());
        let assertion = assertion
            .ok_or_else(|| Failed::Script(format!("unsupported code `{statement}`; supported: assert")))?;
        let words = words(assertion);
        let mut parser = Parser { words: &words, value };
        let result = parser.any().filter(|_| parser.words.is_empty());
        match result {
            None => {
                return Err(Failed::Script(format!(
                    "cannot evaluate `{assertion}`{}",
                    unknown(&words, value)
                )));
            }
            Some(0) => {
                return Err(Failed::False { assertion: assertion.to_owned(), values: values(&words, value) });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_') && !["and", "or", "not"].contains(&word)
}

fn unknown(words: &[&str], value: &dyn Fn(&str) -> Option<i64>) -> String {
    let name = words.iter().find(|word| is_name(word) && value(word).is_none());
    name.map_or_else(String::new, |name| format!(": the model has no `{name}`"))
}

fn values(words: &[&str], value: &dyn Fn(&str) -> Option<i64>) -> String {
    let variables = words.iter().filter(|word| is_name(word) && !word.starts_with("TCP_"));
    let texts: Vec<String> =
        variables.filter_map(|name| Some(format!("{name} = {}", value(name)?))).collect();
    texts.join(", ")
}

/// Splits an expression into numbers, names and operators.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), text.trim());
    while let Some(first) = rest.chars().next() {
        let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let len = if part_of_name(first) {
            rest.find(|c| !part_of_name(c)).unwrap_or(rest.len())
        } else if ["==", "!=", "<=", ">="].iter().any(|operator| rest.starts_with(operator)) {
            2
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(len);
        words.push(word);
        rest = after.trim_start();
    }
    words
}

/// Parses and evaluates an expression in one pass. The result is `None` for an invalid expression.
struct Parser<'a> {
    words: &'a [&'a str],
    value: &'a dyn Fn(&str) -> Option<i64>,
}

impl<'a> Parser<'a> {
    fn next_of(&mut self, expected: &[&str]) -> Option<&'a str> {
        let (first, rest) = self.words.split_first().filter(|(first, _)| expected.contains(first))?;
        self.words = rest;
        Some(first)
    }

    fn any(&mut self) -> Option<i64> {
        let mut result = self.all()?;
        while self.next_of(&["or"]).is_some() {
            result = i64::from(self.all()? != 0) | i64::from(result != 0);
        }
        Some(result)
    }

    fn all(&mut self) -> Option<i64> {
        let mut result = self.comparison()?;
        while self.next_of(&["and"]).is_some() {
            result = i64::from(self.comparison()? != 0) & i64::from(result != 0);
        }
        Some(result)
    }

    /// Evaluates comparisons, which may be chained as in Python: `1 < x <= 3`.
    fn comparison(&mut self) -> Option<i64> {
        let mut left = self.sum()?;
        let mut holds = None;
        while let Some(operator) = self.next_of(&["==", "!=", "<", "<=", ">", ">="]) {
            let right = self.sum()?;
            let this = match operator {
                "==" => left == right,
                "!=" => left != right,
                "<" => left < right,
                "<=" => left <= right,
                ">" => left > right,
                _ => left >= right,
            };
            holds = Some(holds.unwrap_or(true) && this);
            left = right;
        }
        Some(holds.map_or(left, i64::from))
    }

    fn sum(&mut self) -> Option<i64> {
        let mut result = self.atom()?;
        while let Some(operator) = self.next_of(&["+", "-"]) {
            let right = self.atom()?;
            result = if operator == "+" { result.checked_add(right)? } else { result.checked_sub(right)? };
        }
        Some(result)
    }

    fn atom(&mut self) -> Option<i64> {
        if self.next_of(&["("]).is_some() {
            let result = self.any()?;
            return self.next_of(&[")"]).map(|_| result);
        }
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        first.parse().ok().or_else(|| (self.value)(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(code: &str) -> Result<(), Failed> {
        check(code, &|name| match name {
            "a" => Some(7),
            "TCP_CA_Open" => Some(0),
            _ => None,
        })
    }

    #[test]
    fn assertions() {
        for code in [
            "assert a == 7",
            "assert a == 7, a",
            " assert 6 < a <= 7; assert a != 8 \n print(a)",
            "assert (a - 1 == 6 and a >= 7) or a == 9",
            "assert a > 9 or a - 7 == TCP_CA_Open",
        ] {
            assert_eq!(result(code), Ok(()), "{code}");
        }
        for code in [
            "assert a == 8",
            "assert a < 7 and a > 1",
            "assert 6 < a < 7",
            "assert a - 7",
            "assert a == 7\nassert a < 0",
        ] {
            assert!(matches!(result(code), Err(Failed::False { .. })), "{code}");
        }
        let values = "a = 7".to_owned();
        let assertion = "a + TCP_CA_Open == 8".to_owned();
        assert_eq!(result("assert a + TCP_CA_Open == 8"), Err(Failed::False { assertion, values }));
    }

    #[test]
    fn errors_name_what_is_unknown() {
        let error = |code: &str| match result(code) {
            Err(Failed::Script(why)) => why,
            other => panic!("{code}: {other:?}"),
        };
        assert_eq!(error("assert b == 1"), "cannot evaluate `b == 1`: the model has no `b`");
        assert_eq!(error("assert a =="), "cannot evaluate `a ==`");
        assert_eq!(error("x = 3"), "unsupported code `x = 3`; supported: assert");
        assert_eq!(error("assert (a == 7"), "cannot evaluate `(a == 7`");
    }
}
