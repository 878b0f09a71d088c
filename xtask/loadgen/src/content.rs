//! What the rows hold. Every row is a function of (seed, table, id): loading can be checked against
//! it, and two loads are equal.
//!
//! - id: 1..=rows in order
//! - k: uniform in 1..=rows, so each value occurs about Poisson(1) times
//! - c: 10 groups of 11 random digits, joined by dashes (119 characters of `char(120)`)
//! - pad: 5 such groups (59 characters of `char(60)`)

use catalog::protocol::Data;

use crate::params::push_decimal;
use crate::rng::Rng;

const C_GROUPS: u32 = 10;
const PAD_GROUPS: u32 = 5;

/// The content of one table.
#[derive(Clone, Debug)]
pub struct Content {
    seed: u64,
    table: u32,
    rows: u64,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The column k.
    pub k: u64,
    /// The column c, without the blanks that the type adds.
    pub c: String,
    /// The column pad, likewise.
    pub pad: String,
}

impl Content {
    /// The content of `sbtest<table>`.
    pub fn new(data: &Data, table: u32) -> Self {
        Self { seed: data.seed, table, rows: data.rows }
    }

    /// The column k of the row `id`, without making the rest.
    pub fn k(&self, id: u64) -> u64 {
        draw_k(&mut self.rng(id), self.rows)
    }

    /// The row `id`.
    pub fn row(&self, id: u64) -> Row {
        let mut rng = self.rng(id);
        let k = draw_k(&mut rng, self.rows);
        let mut c = Vec::new();
        push_c(&mut rng, &mut c);
        let mut pad = Vec::new();
        push_pad(&mut rng, &mut pad);
        let text = |bytes| String::from_utf8(bytes).expect("digits and dashes are UTF-8");
        Row { k, c: text(c), pad: text(pad) }
    }

    /// Appends the row `id` as a line of `COPY … (id, k, c, pad) FROM STDIN`, text format.
    pub fn push_copy_line(&self, id: u64, out: &mut Vec<u8>) {
        let mut rng = self.rng(id);
        push_decimal(id, out);
        out.push(b'\t');
        push_decimal(draw_k(&mut rng, self.rows), out);
        out.push(b'\t');
        push_c(&mut rng, out);
        out.push(b'\t');
        push_pad(&mut rng, out);
        out.push(b'\n');
    }

    /// Appends the row `id` as one of the rows of `INSERT … (id, k, c, pad) VALUES`: digits and
    /// dashes need no escape.
    pub fn push_insert_row(&self, id: u64, out: &mut Vec<u8>) {
        let mut rng = self.rng(id);
        out.push(b'(');
        push_decimal(id, out);
        out.push(b',');
        push_decimal(draw_k(&mut rng, self.rows), out);
        out.extend_from_slice(b",'");
        push_c(&mut rng, out);
        out.extend_from_slice(b"','");
        push_pad(&mut rng, out);
        out.extend_from_slice(b"')");
    }

    fn rng(&self, id: u64) -> Rng {
        Rng::of(&[self.seed, u64::from(self.table), id])
    }
}

/// A value of the column k.
pub fn draw_k(rng: &mut Rng, rows: u64) -> u64 {
    1 + rng.below(rows)
}

/// Appends a value of the column c.
pub fn push_c(rng: &mut Rng, out: &mut Vec<u8>) {
    push_groups(rng, C_GROUPS, out);
}

/// Appends a value of the column pad.
pub fn push_pad(rng: &mut Rng, out: &mut Vec<u8>) {
    push_groups(rng, PAD_GROUPS, out);
}

fn push_groups(rng: &mut Rng, groups: u32, out: &mut Vec<u8>) {
    for group in 0..groups {
        if group > 0 {
            out.push(b'-');
        }
        // Two halves: their divisions do not wait for each other.
        let number = rng.below(100_000_000_000);
        let mut digits = [0; 11];
        fill_digits((number / 1_000_000) as u32, &mut digits[..5]);
        fill_digits((number % 1_000_000) as u32, &mut digits[5..]);
        out.extend_from_slice(&digits);
    }
}

fn fill_digits(mut number: u32, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> Content {
        Content::new(&Data { tables: 2, rows: 1000, seed: 42 }, 1)
    }

    #[test]
    fn a_row_never_changes() {
        let row = content().row(1);
        assert_eq!(row.k, 688);
        assert_eq!(
            row.c,
            "37348714350-86101411833-47045816223-78937189274-56883813883-\
             99942236393-48225357262-26134406911-11921297128-24496849644"
        );
        assert_eq!(row.pad, "74908227771-66098708379-13872499611-34237644517-30099125415");
    }

    #[test]
    fn rows_have_their_form() {
        for id in [1, 2, 1000] {
            let row = content().row(id);
            assert!((1..=1000).contains(&row.k));
            assert_eq!(row.k, content().k(id));
            for (text, groups) in [(&row.c, 10), (&row.pad, 5)] {
                let parts: Vec<&str> = text.split('-').collect();
                assert_eq!(parts.len(), groups);
                for part in parts {
                    assert!(part.len() == 11 && part.bytes().all(|b| b.is_ascii_digit()), "{part}");
                }
            }
        }
    }

    #[test]
    fn a_copy_line_is_the_row() {
        let mut line = Vec::new();
        content().push_copy_line(77, &mut line);
        let row = content().row(77);
        let expected = format!("77\t{}\t{}\t{}\n", row.k, row.c, row.pad);
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn a_row_to_insert_is_the_row() {
        let mut out = Vec::new();
        content().push_insert_row(77, &mut out);
        let row = content().row(77);
        let expected = format!("(77,{},'{}','{}')", row.k, row.c, row.pad);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn seed_table_and_id_matter() {
        let row = |seed, table, id| Content::new(&Data { tables: 2, rows: 9, seed }, table).row(id);
        assert_ne!(row(1, 1, 1).c, row(2, 1, 1).c);
        assert_ne!(row(1, 1, 1).c, row(1, 2, 1).c);
        assert_ne!(row(1, 1, 1).c, row(1, 1, 2).c);
    }

    #[test]
    fn digits_and_k_are_evenly_spread() {
        let mut digits = [0u64; 10];
        let mut sum = 0;
        for id in 1..=1000 {
            let row = content().row(id);
            sum += row.k;
            row.c
                .bytes()
                .filter(u8::is_ascii_digit)
                .for_each(|b| digits[usize::from(b - b'0')] += 1);
        }
        let chi: f64 = digits.iter().map(|&n| (n as f64 - 11_000.0).powi(2) / 11_000.0).sum();
        assert!(chi < 27.9, "{chi} {digits:?}");
        assert!((480_000..520_000).contains(&sum), "{sum}");
    }
}
