//! The rows of the insert benchmark: a function of (seed, client, place in the client's step), so
//! that every target of a block gets the same rows in the same order.
//!
//! - cashregisterid 0..1000, customerid 0..100 000, productid 0..10 000, price 0..500: uniform
//! - price is written with two decimals, although its column holds an integer: the published client
//!   does, and the server pays for it
//! - data: 10 to 20 characters, 3/8 of them random ones of base64, then the letter a (a text that
//!   compresses about as well as what users store)
//! - dateandtime: the published client takes it from the clock. Then rows, and the third index with
//!   them, would differ between two servers and between two runs of one, and a slow server would
//!   have other times per price than a fast one. Here a client's clock advances by a second with
//!   every [`ROWS_PER_SECOND`] rows that it inserts and goes on through all steps; as there, it
//!   has a resolution of 1 s, never goes back, and is the same for a whole batch.

use crate::params::push_decimal;
use crate::rng::Rng;

/// Values of `cashregisterid`.
pub const CASH_REGISTERS: u64 = 1000;
/// Values of `customerid`.
const CUSTOMERS: u64 = 100_000;
/// Values of `productid`.
pub const PRODUCTS: u64 = 10_000;
/// Values of `price`.
pub const PRICES: u64 = 500;

/// How many rows of one client share a second.
const ROWS_PER_SECOND: u64 = 1000;
/// Days from 1970-01-01 to 2024-01-01, where the clock begins.
const FIRST_DAY: u64 = 19_723;
const SECONDS_PER_DAY: u64 = 86_400;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Lengths of `data`: from this on, so many of them.
const DATA_LENGTH: (u64, u64) = (10, 11);

/// What the stream of random numbers is for: streams of one client have nothing in common.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// What is inserted.
    Rows = 1,
    /// What is asked for.
    Queries = 2,
}

/// The stream of a client (from 0).
pub fn stream(seed: u64, client: u32, purpose: Purpose) -> Rng {
    Rng::of(&[seed, u64::from(client), purpose as u64])
}

/// The rows of one client in one step.
#[derive(Debug)]
pub struct RowSource {
    rng: Rng,
    /// Rows that the client has inserted in all steps.
    inserted: u64,
}

impl RowSource {
    /// The rows of client number `client` (from 0), which has inserted `before` rows in the steps
    /// before.
    pub fn new(seed: u64, client: u32, before: u64) -> Self {
        Self { rng: stream(seed, client, Purpose::Rows), inserted: before }
    }

    /// Appends the next `count` rows as they stand behind VALUES.
    pub fn push_batch(&mut self, count: u32, out: &mut Vec<u8>) {
        let time = time(self.inserted / ROWS_PER_SECOND);
        for row in 0..count {
            out.extend_from_slice(if row == 0 { b"('" } else { b",('" });
            out.extend_from_slice(time.as_bytes());
            out.extend_from_slice(b"',");
            for bound in [CASH_REGISTERS, CUSTOMERS, PRODUCTS] {
                push_decimal(self.rng.below(bound), out);
                out.push(b',');
            }
            push_decimal(self.rng.below(PRICES), out);
            out.extend_from_slice(b".00,'");
            self.push_data(out);
            out.extend_from_slice(b"')");
        }
        self.inserted += u64::from(count);
    }

    fn push_data(&mut self, out: &mut Vec<u8>) {
        let (least, lengths) = DATA_LENGTH;
        let length = (least + self.rng.below(lengths)) as usize;
        // To the nearest.
        let random = (length * 3 + 4) / 8;
        // Six bits a character; at most 8 are needed.
        let mut bits = self.rng.bits();
        for _ in 0..random {
            out.push(BASE64[(bits % 64) as usize]);
            bits /= 64;
        }
        out.resize(out.len() + length - random, b'a');
    }
}

/// A moment so many seconds after the clock began.
fn time(seconds: u64) -> String {
    let (year, month, day) = date(FIRST_DAY + seconds / SECONDS_PER_DAY);
    let of_day = seconds % SECONDS_PER_DAY;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day so many days after 1970-01-01 in the Gregorian calendar. Counted in years
/// from March to February, so that a leap day comes last and months follow 153 days in five.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097;
    // From 0000-03-01.
    let days = days + 719_468;
    let (era, of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(seed: u64, client: u32, before: u64, count: u32) -> String {
        let mut out = Vec::new();
        RowSource::new(seed, client, before).push_batch(count, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// The values of rows as [`RowSource::push_batch`] writes them.
    fn rows(text: &str) -> Vec<Vec<String>> {
        let inner = text.strip_prefix('(').unwrap().strip_suffix(')').unwrap();
        let split = |row: &str| row.split(',').map(|value| value.replace('\'', "")).collect();
        inner.split("),(").map(split).collect()
    }

    #[test]
    fn a_row_never_changes() {
        let one = batch(7, 0, 0, 2);
        assert_eq!(
            one,
            "('2024-01-01 00:00:00',69,48492,7739,339.00,'2k3UHaaaaaaaaa'),\
             ('2024-01-01 00:00:00',377,47625,8694,74.00,'wBQFiaaaaaaa')"
        );
        assert_eq!(one, batch(7, 0, 0, 2));
        assert_ne!(one, batch(8, 0, 0, 2));
        assert_ne!(one, batch(7, 1, 0, 2));
    }

    #[test]
    fn values_fill_their_ranges() {
        let rows = rows(&batch(1, 0, 0, 20_000));
        assert_eq!(rows.len(), 20_000);
        let column = |at: usize| -> Vec<u64> {
            let number = |row: &Vec<String>| row[at].trim_end_matches(".00").parse().unwrap();
            rows.iter().map(number).collect()
        };
        for (at, bound) in [(1, 1000), (2, 100_000), (3, 10_000), (4, 500)] {
            let values = column(at);
            let (min, max) = (values.iter().min().unwrap(), values.iter().max().unwrap());
            assert!(*max < bound && *max >= bound * 99 / 100 && *min <= bound / 100, "{at}");
            let mean = values.iter().sum::<u64>() as f64 / 2e4;
            assert!((mean / (bound as f64 / 2.0) - 1.0).abs() < 0.02, "{at}: {mean}");
        }
        assert!(rows.iter().all(|row| row[4].ends_with(".00") && row[0] == rows[0][0]));
        let mut lengths = [0u32; 21];
        let (mut random, mut all) = (0, 0);
        for row in &rows {
            let data = row[5].as_bytes();
            lengths[data.len()] += 1;
            all += data.len();
            random += data.iter().filter(|byte| **byte != b'a').count();
            assert!(data.iter().all(|byte| BASE64.contains(byte)));
        }
        assert!(lengths[10..].iter().all(|count| (1500..2200).contains(count)), "{lengths:?}");
        let part = random as f64 / all as f64;
        assert!((0.36..0.39).contains(&part), "{part}");
    }

    #[test]
    fn the_clock_goes_on_by_rows_and_is_one_for_a_batch() {
        let mut source = RowSource::new(1, 0, 950);
        let mut times = Vec::new();
        for _ in 0..3 {
            let mut out = Vec::new();
            source.push_batch(100, &mut out);
            let rows = rows(std::str::from_utf8(&out).unwrap());
            assert!(rows.iter().all(|row| row[0] == rows[0][0]));
            times.push(rows[0][0].clone());
        }
        let expected = ["2024-01-01 00:00:00", "2024-01-01 00:00:01", "2024-01-01 00:00:01"];
        assert_eq!(times, expected);
    }

    #[test]
    fn dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(19_722), (2023, 12, 31));
        assert_eq!(date(FIRST_DAY), (2024, 1, 1));
        assert_eq!(date(FIRST_DAY + 59), (2024, 2, 29));
        assert_eq!(date(FIRST_DAY + 60), (2024, 3, 1));
        assert_eq!(date(FIRST_DAY + 366), (2025, 1, 1));
        // 2100 has no leap day.
        assert_eq!(date(47_540), (2100, 2, 28));
        assert_eq!(date(47_541), (2100, 3, 1));
        assert_eq!(time(3 * 86_400 + 3661), "2024-01-04 01:01:01");
    }

    #[test]
    fn purposes_have_streams_of_their_own() {
        let bits = |purpose| stream(1, 0, purpose).bits();
        assert_ne!(bits(Purpose::Rows), bits(Purpose::Queries));
    }
}
