//! Cells as flat rows of 16-bit indexes: a million of them take a few megabytes.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

/// Column of the source.
pub const SOURCE: usize = 0;
/// Column of the variant: an index, or [`UNNAMED`], perhaps with [`RENAMED`].
pub const VARIANT: usize = 1;
/// Column of the combination of config and run-only settings; 0 where a row stands for a build.
pub const COMBO: usize = 2;
/// The first column of settings, in the order of the axes.
pub const AXES: usize = 3;

/// The cell comes from a product, not from a named variant.
pub const UNNAMED: u16 = 0x7fff;
/// The command line changed a setting of the variant: it is no longer what its name says.
pub const RENAMED: u16 = 0x8000;

/// Rows of equal length.
#[derive(Clone, Debug)]
pub struct Rows {
    width: usize,
    data: Vec<u16>,
}

impl Rows {
    /// No rows, for this many axes.
    pub fn new(axes: usize) -> Self {
        Self { width: AXES + axes, data: Vec::new() }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.data.len() / self.width
    }

    /// One row.
    pub fn get(&self, index: usize) -> &[u16] {
        &self.data[index * self.width..][..self.width]
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = &[u16]> {
        self.data.chunks_exact(self.width)
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[u16]) {
        debug_assert_eq!(row.len(), self.width);
        self.data.extend_from_slice(row);
    }

    /// Names a row's variant.
    pub fn set_variant(&mut self, index: usize, variant: u16) {
        self.data[index * self.width + VARIANT] = variant;
    }

    /// Keeps the rows of which `keep` is true and gives the number of those removed.
    pub fn retain(&mut self, mut keep: impl FnMut(usize, &[u16]) -> bool) -> usize {
        let before = self.len();
        let mut to = 0;
        for index in 0..before {
            let from = index * self.width;
            if keep(index, &self.data[from..from + self.width]) {
                self.data.copy_within(from..from + self.width, to);
                to += self.width;
            }
        }
        self.data.truncate(to);
        before - self.len()
    }

    /// For each row the first row that is the same, perhaps itself.
    pub fn first_equals(&self, same: Same) -> Vec<u32> {
        let mut hashes: Vec<(u64, u32)> =
            self.iter().zip(0..).map(|(row, index)| (same.hash(row), index)).collect();
        hashes.sort_unstable();
        let mut firsts: Vec<u32> = (0..self.len() as u32).collect();
        for group in hashes.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
            // Equal hashes are nearly always equal rows, so the inner loop ends at once.
            let mut distinct: Vec<u32> = Vec::new();
            for (_, index) in group {
                let row = self.get(*index as usize);
                let first = distinct.iter().find(|d| same.equal(self.get(**d as usize), row));
                match first {
                    Some(first) => firsts[*index as usize] = *first,
                    None => distinct.push(*index),
                }
            }
        }
        firsts
    }
}

/// Which columns make two rows the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Same {
    /// Source and settings: the same build.
    Build,
    /// Source, settings and combination: the same target.
    Target,
}

impl Same {
    fn hash(self, row: &[u16]) -> u64 {
        let mut hasher = DefaultHasher::new();
        row[SOURCE].hash(&mut hasher);
        row[if self == Self::Target { COMBO } else { AXES }..].hash(&mut hasher);
        hasher.finish()
    }

    /// Whether two rows are the same.
    pub fn equal(self, a: &[u16], b: &[u16]) -> bool {
        let start = if self == Self::Target { COMBO } else { AXES };
        a[SOURCE] == b[SOURCE] && a[start..] == b[start..]
    }
}
