//! Release numbers: `15.18`, `8.0.39`, `10.11.6`. Compared number by number.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A release number. Missing numbers count as zero, so `16` equals `16.0`.
#[derive(Clone, Debug)]
pub struct Version {
    numbers: Vec<u32>,
    text: String,
}

impl Version {
    /// The first number.
    pub fn major(&self) -> u32 {
        self.number(0)
    }

    /// The number at this place, zero where there is none.
    pub fn number(&self, index: usize) -> u32 {
        self.numbers.get(index).copied().unwrap_or(0)
    }

    /// Whether `self` begins with all numbers of `prefix`: `8.0.39` with `8.0`.
    pub fn starts_with(&self, prefix: &Self) -> bool {
        (0..prefix.numbers.len()).all(|index| self.number(index) == prefix.number(index))
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>();
        match numbers {
            Ok(numbers) if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
                Ok(Self { numbers, text: text.to_owned() })
            }
            _ => {
                Err(format!("`{text}` is not a version: numbers with dots are needed, as in 15.18"))
            }
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let length = self.numbers.len().max(other.numbers.len());
        (0..length)
            .map(|index| self.number(index).cmp(&other.number(index)))
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_number() {
        let v = |text: &str| text.parse::<Version>().expect("a version");
        assert!(v("8.0.9") < v("8.0.13"));
        assert!(v("16") == v("16.0") && v("15.18") < v("16"));
        assert!(v("8.0.39").starts_with(&v("8.0")) && !v("8.4.0").starts_with(&v("8.0")));
        for bad in ["", "8.", "8.0-rc1", "+8", "v8"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }
}
