//! One key of all groups, and the same key of some rows.
//!
//! Results share their memory with the groups, which copy it if they change it while a result is in use.

use crate::columns::column::{Column, Kind, Type, Validity, Values};
use crate::columns::reserve::reserve;
use crate::columns::validity_bitmap::ValidityBitmap;
use crate::sync::plain::Arc;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

/// One key of all groups.
#[derive(Clone, Debug)]
pub enum KeyColumn {
    /// Whole numbers, days or times.
    Ints {
        /// For each group its key; 0 where it is missing.
        values: Arc<Vec<i64>>,
        /// Which groups have one.
        valid: ValidityBitmap,
    },
    /// Texts or bytes.
    Texts {
        /// Where each group's key ends, after a 0.
        ends: Vec<usize>,
        /// The bytes of all keys.
        bytes: Arc<Vec<u8>>,
        /// Which groups have one.
        valid: ValidityBitmap,
    },
}

/// One key of the rows of a block, which follow each other in a batch.
pub struct BlockKeys<'a> {
    values: BlockValues<'a>,
    validity: &'a Validity<'a>,
    /// The block's first row in its batch.
    begin: usize,
}

enum BlockValues<'a> {
    Ints(&'a [i64]),
    /// An empty one where a row has none.
    Texts(Vec<&'a [u8]>),
}

impl<'a> BlockKeys<'a> {
    /// The keys of these rows; the error is the row of a text that does not lie in its column's bytes.
    pub fn of(column: &'a Column<'_>, rows: Range<usize>) -> Result<Self, usize> {
        let (validity, begin) = (&column.validity, rows.start);
        let values = match &column.values {
            Values::Ints(values) => BlockValues::Ints(&values[rows]),
            Values::Texts(text) => BlockValues::Texts(text.of_rows(rows, validity)?),
            Values::Floats(_) => unreachable!("floats are no keys"),
        };
        Ok(Self { values, validity, begin })
    }

    #[inline]
    fn is_valid(&self, row: usize) -> bool {
        self.validity.get(self.begin + row)
    }

    /// Hashes the keys.
    pub fn hash(&self, seed: &impl BuildHasher, hashes: &mut [u64]) {
        self.hash_with(hashes, |_| seed.build_hasher());
    }

    /// Hashes the keys together with other keys of the rows, which have these hashes.
    pub fn hash_more(&self, seed: &impl BuildHasher, hashes: &mut [u64]) {
        self.hash_with(hashes, |hash| {
            let mut hasher = seed.build_hasher();
            hasher.write_u64(hash);
            hasher
        });
    }

    #[inline]
    fn hash_with<H: Hasher>(&self, hashes: &mut [u64], hasher: impl Fn(u64) -> H) {
        match &self.values {
            BlockValues::Ints(values) => {
                for (row, (hash, value)) in hashes.iter_mut().zip(*values).enumerate() {
                    let mut hasher = hasher(*hash);
                    if self.is_valid(row) {
                        hasher.write_u64(*value as u64);
                    } else {
                        hasher.write_u8(0);
                    }
                    *hash = hasher.finish();
                }
            }
            BlockValues::Texts(texts) => {
                for (row, (hash, text)) in hashes.iter_mut().zip(texts).enumerate() {
                    let mut hasher = hasher(*hash);
                    if self.is_valid(row) {
                        hasher.write(text);
                    } else {
                        hasher.write_u8(0);
                    }
                    *hash = hasher.finish();
                }
            }
        }
    }
}

impl KeyColumn {
    /// Of no group yet.
    pub fn new(kind: &Type) -> Self {
        match kind.kind {
            Kind::Text => Self::Texts { ends: vec![0], bytes: Arc::default(), valid: ValidityBitmap::default() },
            _ => Self::Ints { values: Arc::default(), valid: ValidityBitmap::default() },
        }
    }

    /// Forgets all groups from `groups` on.
    pub fn truncate(&mut self, groups: usize) {
        match self {
            Self::Ints { values, valid } => {
                Arc::make_mut(values).truncate(groups);
                valid.truncate(groups);
            }
            Self::Texts { ends, bytes, valid } => {
                ends.truncate(groups + 1);
                Arc::make_mut(bytes).truncate(ends[groups]);
                valid.truncate(groups);
            }
        }
    }

    /// Adds groups with the keys of these rows.
    pub fn extend(&mut self, keys: &BlockKeys<'_>, rows: &[u32]) {
        let (more, rows) = (rows.len(), rows.iter().map(|row| *row as usize));
        match (self, &keys.values) {
            (Self::Ints { values, valid }, BlockValues::Ints(others)) => {
                let values = Arc::make_mut(values);
                reserve(values, more);
                for row in rows {
                    let is_valid = keys.is_valid(row);
                    values.push(if is_valid { others[row] } else { 0 });
                    valid.push(is_valid);
                }
            }
            (Self::Texts { ends, bytes, valid }, BlockValues::Texts(texts)) => {
                let bytes = Arc::make_mut(bytes);
                reserve(ends, more);
                reserve(bytes, rows.clone().map(|row| texts[row].len()).sum());
                for row in rows {
                    bytes.extend_from_slice(texts[row]);
                    ends.push(bytes.len());
                    valid.push(keys.is_valid(row));
                }
            }
            _ => unreachable!("the types of a batch were compared before"),
        }
    }

    /// Whether the key of a group is that of a row.
    #[inline]
    pub fn is(&self, group: usize, keys: &BlockKeys<'_>, row: usize) -> bool {
        match (self, &keys.values) {
            (Self::Ints { values, valid }, BlockValues::Ints(others)) => match (valid.get(group), keys.is_valid(row)) {
                (true, true) => values[group] == others[row],
                (own, others) => own == others,
            },
            (Self::Texts { ends, bytes, valid }, BlockValues::Texts(texts)) => {
                bytes[ends[group]..ends[group + 1]] == *texts[row] && valid.get(group) == keys.is_valid(row)
            }
            _ => false,
        }
    }

    /// Whether each row's key is that of its group, for the groups before `made`; those from there on were made of the
    /// first row of theirs, in ascending order.
    pub fn are(&self, groups: &[u32], made: usize, keys: &BlockKeys<'_>) -> bool {
        let mut next = made;
        let mut found = groups.iter().enumerate().map(|(row, group)| (row, *group as usize)).filter(|(_, group)| {
            let is_first = *group == next;
            next += usize::from(is_first);
            !is_first
        });
        let all_valid = matches!(keys.validity, Validity::All);
        match (self, &keys.values) {
            (Self::Ints { values, valid }, BlockValues::Ints(others)) if all_valid && valid.zeros() == 0 => {
                found.all(|(row, group)| values[group] == others[row])
            }
            (Self::Texts { ends, bytes, valid }, BlockValues::Texts(texts)) if all_valid && valid.zeros() == 0 => {
                found.all(|(row, group)| bytes[ends[group]..ends[group + 1]] == *texts[row])
            }
            _ => found.all(|(row, group)| self.is(group, keys, row)),
        }
    }
}
