//! The values of one statement. Numbers stay numbers, because one protocol sends them in binary and
//! another as text; texts share one buffer, which is used again for every statement.

use std::fmt;

/// The longest number in decimal.
const DIGITS: usize = 20;

/// One value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer.
    Number(u64),
    /// A text: digits and dashes.
    Text(&'a [u8]),
}

impl Value<'_> {
    /// Hands the value as text to `take`, without allocating.
    #[inline]
    pub fn with_text<T>(self, take: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Number(number) => {
                let mut digits = [0; DIGITS];
                take(decimal(number, &mut digits))
            }
            Self::Text(text) => take(text),
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(&String::from_utf8_lossy(text)))
    }
}

/// The values of one statement.
#[derive(Debug, Default)]
pub struct Params {
    values: Vec<Stored>,
    texts: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Stored {
    Number(u64),
    /// It begins where the text before it ends.
    Text {
        end: usize,
    },
}

impl Params {
    /// Forgets the values and keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.texts.clear();
    }

    /// Appends a number.
    pub fn push_number(&mut self, number: u64) {
        self.values.push(Stored::Number(number));
    }

    /// Appends a text that `write` appends to the buffer.
    pub fn push_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.texts);
        self.values.push(Stored::Text { end: self.texts.len() });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'_>> {
        let mut begin = 0;
        self.values.iter().map(move |stored| match *stored {
            Stored::Number(number) => Value::Number(number),
            Stored::Text { end } => {
                let text = &self.texts[begin..end];
                begin = end;
                Value::Text(text)
            }
        })
    }
}

/// Appends `number` in decimal.
pub fn push_decimal(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(decimal(number, &mut [0; DIGITS]));
}

fn decimal(mut number: u64, digits: &mut [u8; DIGITS]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    &digits[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_in_order() {
        let mut params = Params::default();
        params.push_text(|out| out.extend_from_slice(b"gone"));
        params.clear();
        params.push_text(|out| out.extend_from_slice(b"a-b"));
        params.push_number(70);
        params.push_text(|_| {});
        params.push_text(|out| out.extend_from_slice(b"c"));
        assert_eq!(params.len(), 4);
        let expected =
            [Value::Text(b"a-b"), Value::Number(70), Value::Text(b""), Value::Text(b"c")];
        assert_eq!(params.iter().collect::<Vec<_>>(), expected);
        let texts: Vec<String> = params.iter().map(|value| value.to_string()).collect();
        assert_eq!(texts, ["a-b", "70", "", "c"]);
    }

    #[test]
    fn decimals() {
        for number in [0, 9, 10, 12_345, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
