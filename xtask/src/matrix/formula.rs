//! Values that scale with the host: `{ram * 0.25}`, `{min(cpus, 16)}`.
//!
//! Numbers, `ram` (bytes), `cpus`, `+ - * /`, parentheses, `min(a, b)`, `max(a, b)`. A formula is
//! checked wherever the file is read; its value is computed on the host that runs the server.

use crate::matrix::model::{Engine, ServerValue};

/// What a formula may ask of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Bytes of main memory that the server may use.
    pub ram: u64,
    /// Cores that the server may use.
    pub cpus: u64,
}

/// The text of a formula if a value is one: all of it in braces.
pub fn formula(text: &str) -> Option<&str> {
    text.strip_prefix('{')?.strip_suffix('}')
}

/// Checks a formula without a host.
///
/// # Errors
/// What is expected where, as a byte offset in the formula.
pub fn check(formula: &str) -> Result<(), (String, usize)> {
    // With any host that has memory and cores, so only `/ 0` in the text itself is refused.
    evaluate(formula, Host { ram: 1 << 33, cpus: 8 }).map(|_| ())
}

/// A server variable's value on this host, as its configuration file has it.
///
/// A formula gives a whole number: for MySQL and MariaDB as it is (bytes where it uses `ram`), for
/// Postgres as `NNNMB` (of 1024 x 1024 bytes) where it uses `ram`, because a plain number counts
/// blocks or kilobytes there, as the variable has it. Always rounded down.
///
/// # Errors
/// When the formula is wrong or its value is negative or too large.
pub fn render(value: &ServerValue, engine: Engine, host: Host) -> Result<String, String> {
    let formula = match value {
        ServerValue::Text(text) => return Ok(text.clone()),
        ServerValue::Formula(formula) => formula,
    };
    let (number, uses_ram) =
        evaluate(formula, host).map_err(|(message, _)| format!("`{{{formula}}}`: {message}"))?;
    // 2^53: above it an f64 no longer counts one by one.
    if !(0.0..=9_007_199_254_740_992.0).contains(&number) {
        return Err(format!("`{{{formula}}}` is {number} here: no size or number of anything"));
    }
    let number = number as u64;
    Ok(match engine {
        Engine::Postgres if uses_ram => format!("{}MB", number >> 20),
        _ => number.to_string(),
    })
}

/// The value and whether it used `ram`.
fn evaluate(text: &str, host: Host) -> Result<(f64, bool), (String, usize)> {
    let mut parser = Parser { text, at: 0, host, uses_ram: false, depth: 0 };
    let value = parser.sum()?;
    parser.blank();
    if parser.at < text.len() {
        return parser.wrong("an operator (`+ - * /`) or the end is expected");
    }
    if !value.is_finite() {
        return Err(("the value is not a finite number".to_owned(), 0));
    }
    Ok((value, parser.uses_ram))
}

/// Deeper nesting than anyone writes; a limit keeps the parser off the end of the stack.
const DEPTH_LIMIT: usize = 64;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    host: Host,
    uses_ram: bool,
    depth: usize,
}

type Parsed = Result<f64, (String, usize)>;

impl Parser<'_> {
    fn sum(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return self.wrong("too many parentheses");
        }
        let mut value = self.product()?;
        loop {
            if self.sign('+') {
                value += self.product()?;
            } else if self.sign('-') {
                value -= self.product()?;
            } else {
                self.depth -= 1;
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Parsed {
        let mut value = self.atom()?;
        loop {
            if self.sign('*') {
                value *= self.atom()?;
            } else if self.sign('/') {
                let at = self.at;
                let divisor = self.atom()?;
                if divisor == 0.0 {
                    return Err(("division by zero".to_owned(), at));
                }
                value /= divisor;
            } else {
                return Ok(value);
            }
        }
    }

    fn atom(&mut self) -> Parsed {
        self.blank();
        let start = self.at;
        if self.sign('(') {
            let value = self.sum()?;
            return self.close(value);
        }
        let rest = &self.text[start..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        self.at += length;
        match &rest[..length] {
            "ram" => {
                self.uses_ram = true;
                Ok(self.host.ram as f64)
            }
            "cpus" => Ok(self.host.cpus as f64),
            name @ ("min" | "max") => {
                if !self.sign('(') {
                    return self.wrong("`(` is expected");
                }
                let first = self.sum()?;
                if !self.sign(',') {
                    return self.wrong("`,` and a second value are expected");
                }
                let second = self.sum()?;
                self.close(if name == "min" { first.min(second) } else { first.max(second) })
            }
            word if word.starts_with(|c: char| c.is_ascii_digit()) => {
                word.parse().map_err(|_| (format!("`{word}` is not a number"), start))
            }
            _ => {
                self.at = start;
                self.wrong("a number, `ram`, `cpus`, `min(`, `max(` or `(` is expected")
            }
        }
    }

    fn close(&mut self, value: f64) -> Parsed {
        if self.sign(')') { Ok(value) } else { self.wrong("`)` is expected") }
    }

    fn blank(&mut self) {
        self.at = self.text.len() - self.text[self.at..].trim_start().len();
    }

    fn sign(&mut self, sign: char) -> bool {
        self.blank();
        let found = self.text[self.at..].starts_with(sign);
        self.at += usize::from(found);
        found
    }

    fn wrong<T>(&self, message: &str) -> Result<T, (String, usize)> {
        Err((message.to_owned(), self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOST: Host = Host { ram: 8 << 30, cpus: 4 };

    fn on(engine: Engine, formula: &str) -> Result<String, String> {
        render(&ServerValue::Formula(formula.to_owned()), engine, HOST)
    }

    #[test]
    fn values() {
        for (formula, postgres, mysql) in [
            ("ram * 0.25", "2048MB", "2147483648"),
            ("cpus", "4", "4"),
            ("1 + 2 * 3", "7", "7"),
            ("(1 + 2) * 3", "9", "9"),
            ("10 - 2 - 3", "5", "5"),
            ("7 / 2", "3", "3"),
            ("max(1, cpus / 2)", "2", "2"),
            ("min(ram / 4, 1073741824)", "1024MB", "1073741824"),
        ] {
            assert_eq!(on(Engine::Postgres, formula).as_deref(), Ok(postgres), "{formula}");
            assert_eq!(on(Engine::Mysql, formula).as_deref(), Ok(mysql), "{formula}");
        }
        let text = ServerValue::Text("10GB".to_owned());
        assert_eq!(render(&text, Engine::Postgres, HOST).as_deref(), Ok("10GB"));
    }

    #[test]
    fn mistakes_have_a_place() {
        for (formula, at) in [
            ("", 0),
            ("ram *", 5),
            ("ram 2", 4),
            ("rum", 0),
            ("min(1)", 5),
            ("(1", 2),
            ("1 / 0", 3),
            ("1.2.3", 0),
            ("1 % 2", 2),
        ] {
            assert_eq!(check(formula).expect_err(formula).1, at, "{formula}");
        }
        assert!(on(Engine::Mysql, "1 - cpus").is_err_and(|error| error.contains("-3")));
        assert!(check(&"(".repeat(100_000)).is_err());
        assert_eq!(formula("{ram}"), Some("ram"));
        assert_eq!(formula("10GB"), None);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(?s).{0,20}", near in "[a-z0-9.+*/() ,é-]{0,30}") {
            let _ = (check(&text), check(&near), on(Engine::Postgres, &near));
        }
    }
}
