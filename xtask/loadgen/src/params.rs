//! The values of one statement, as text: what both protocols take for bound values and what stands
//! in a statement that is sent as text. One buffer, used again for every statement.

/// The values of one statement.
#[derive(Debug, Default)]
pub struct Params {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Params {
    /// Forgets the values and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends a number.
    pub fn push_number(&mut self, number: u64) {
        push_decimal(number, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Appends a text that `write` appends to the buffer.
    pub fn push_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| {
            let begin = if at == 0 { 0 } else { self.ends[at - 1] };
            &self.bytes[begin..self.ends[at]]
        })
    }
}

/// Appends `number` in decimal.
pub fn push_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_in_order() {
        let mut params = Params::default();
        params.push_number(5);
        params.clear();
        params.push_number(70);
        params.push_text(|out| out.extend_from_slice(b"a-b"));
        params.push_text(|_| {});
        assert_eq!(params.len(), 3);
        assert_eq!(params.iter().collect::<Vec<_>>(), [b"70".as_slice(), b"a-b", b""]);
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
