//! The keys of all groups, and the table that finds the group of a row.
//!
//! GroupKeys are kept by column. The table has a hash and a number for each group; a hash that fits is confirmed by
//! comparing the keys themselves. Hashes are seeded for each table, so that a sender of keys cannot choose keys that
//! collide.

use super::refusal::GroupByRefusal;
use super::request::{GroupByRequest, RequestedColumns};
use crate::columns::column::{Column, Kind, Type, Validity, Values};
use crate::columns::validity_bitmap::ValidityBitmap;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hasher};

/// One key of all groups.
#[derive(Clone, Debug)]
pub enum KeyColumn {
    /// Whole numbers, days or times.
    Ints {
        /// For each group its key; 0 where it is missing.
        values: Vec<i64>,
        /// Which groups have one.
        valid: ValidityBitmap,
    },
    /// Texts or bytes.
    Texts {
        /// Where each group's key ends, after a 0.
        ends: Vec<usize>,
        /// The bytes of all keys.
        bytes: Vec<u8>,
        /// Which groups have one.
        valid: ValidityBitmap,
    },
}

impl KeyColumn {
    fn new(kind: &Type) -> Self {
        match kind.kind {
            Kind::Text => Self::Texts { ends: vec![0], bytes: Vec::new(), valid: ValidityBitmap::default() },
            _ => Self::Ints { values: Vec::new(), valid: ValidityBitmap::default() },
        }
    }

    fn truncate(&mut self, groups: usize) {
        match self {
            Self::Ints { values, valid } => {
                values.truncate(groups);
                valid.truncate(groups);
            }
            Self::Texts { ends, bytes, valid } => {
                ends.truncate(groups + 1);
                bytes.truncate(ends[groups]);
                valid.truncate(groups);
            }
        }
    }

    /// Whether the key of a group is that of a row.
    #[inline]
    fn is(&self, group: usize, column: &Column<'_>, row: usize) -> bool {
        match (self, &column.values) {
            (Self::Ints { values, valid }, Values::Ints(others)) => {
                match (valid.get(group), column.validity.get(row)) {
                    (true, true) => values[group] == others[row],
                    (own, others) => own == others,
                }
            }
            (Self::Texts { ends, bytes, valid }, Values::Texts(text)) => {
                match (valid.get(group), column.validity.get(row)) {
                    (true, true) => text.get(row) == Some(&bytes[ends[group]..ends[group + 1]]),
                    (own, others) => own == others,
                }
            }
            _ => false,
        }
    }

    fn push(&mut self, column: &Column<'_>, row: usize) {
        let is_valid = column.validity.get(row);
        match (self, &column.values) {
            (Self::Ints { values, valid }, Values::Ints(others)) => {
                values.push(if is_valid { others[row] } else { 0 });
                valid.push(is_valid);
            }
            (Self::Texts { ends, bytes, valid }, Values::Texts(text)) => {
                if is_valid {
                    bytes.extend_from_slice(text.get(row).unwrap_or_default());
                }
                ends.push(bytes.len());
                valid.push(is_valid);
            }
            _ => unreachable!("the types of a batch were compared before"),
        }
    }
}

/// The keys of all groups.
#[derive(Clone, Default)]
pub struct GroupKeys {
    columns: Vec<KeyColumn>,
    table: HashTable<(u64, u32)>,
    seed: DefaultHashBuilder,
    groups: usize,
}

impl GroupKeys {
    /// No group yet, for keys of these types.
    pub fn new(types: &[Type]) -> Self {
        Self { columns: types.iter().map(KeyColumn::new).collect(), ..Self::default() }
    }

    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.groups
    }

    /// The keys by column.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Forgets all groups from `groups` on.
    pub fn truncate(&mut self, groups: usize) {
        if self.groups > groups {
            self.columns.iter_mut().for_each(|column| column.truncate(groups));
            self.table.retain(|(_, group)| (*group as usize) < groups);
            self.groups = groups;
        }
    }

    /// Finds the group of each row, or makes it.
    ///
    /// In three passes, so that the processor waits for many rows' memory at a time: all hashes; for each
    /// hash the first group that has it, or a new group; then, key by key, whether the rows' keys are those of the groups.
    /// Where they are not, two keys have one hash of 64 bits, and the row's group is looked for among all of that hash.
    pub fn number(
        &mut self,
        batch: &RequestedColumns<'_>,
        request: &GroupByRequest,
        groups: &mut Vec<u32>,
    ) -> Result<(), GroupByRefusal> {
        let most = request.max_groups.unwrap_or(usize::MAX);
        let hashes = self.hashes(batch, request)?;
        let mut last = None;
        for (row, hash) in hashes.iter().enumerate() {
            let found = match last {
                Some((hash_before, group)) if hash_before == *hash => Some(group),
                _ => self.table.find(*hash, |(other, _)| other == hash).map(|(_, group)| *group),
            };
            let group = match found {
                Some(group) => group,
                None => self.make(*hash, batch, row, most)?,
            };
            last = Some((*hash, group));
            groups.push(group);
        }
        for row in self.differing(batch, groups) {
            let found = self
                .table
                .find(hashes[row], |(hash, group)| *hash == hashes[row] && is_of(&self.columns, *group, batch, row));
            groups[row] = match found {
                Some((_, group)) => *group,
                None => self.make(hashes[row], batch, row, most)?,
            };
        }
        Ok(())
    }

    /// The rows whose keys are not those of their groups, in ascending order.
    fn differing(&self, batch: &RequestedColumns<'_>, groups: &[u32]) -> Vec<usize> {
        let mut rows: Vec<usize> = Vec::new();
        for (column, key) in self.columns.iter().zip(&batch.keys) {
            let all_valid = matches!(key.validity, Validity::All);
            let numbered = groups.iter().enumerate();
            match (column, &key.values) {
                (KeyColumn::Ints { values, valid }, Values::Ints(others)) if all_valid && valid.zeros() == 0 => {
                    rows.extend(
                        numbered.filter(|(row, group)| values[**group as usize] != others[*row]).map(|(row, _)| row),
                    );
                }
                _ => {
                    let differs = |(row, group): &(usize, &u32)| !column.is(**group as usize, key, *row);
                    rows.extend(numbered.filter(differs).map(|(row, _)| row));
                }
            }
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    fn hashes(&self, batch: &RequestedColumns<'_>, request: &GroupByRequest) -> Result<Vec<u64>, GroupByRefusal> {
        (0..batch.rows).map(|row| self.hash(batch, row, request)).collect()
    }

    #[inline]
    fn hash(&self, batch: &RequestedColumns<'_>, row: usize, request: &GroupByRequest) -> Result<u64, GroupByRefusal> {
        let mut hasher = self.seed.build_hasher();
        for (place, column) in batch.keys.iter().enumerate() {
            if !column.validity.get(row) {
                hasher.write_u8(0);
                continue;
            }
            match &column.values {
                Values::Ints(values) => hasher.write_u64(values[row] as u64),
                Values::Texts(text) => match text.get(row) {
                    Some(text) => hasher.write(text),
                    None => return Err(GroupByRefusal::Text(request.keys[place].clone(), row)),
                },
                Values::Floats(_) => unreachable!("floats are no keys"),
            }
        }
        Ok(hasher.finish())
    }

    fn make(
        &mut self,
        hash: u64,
        batch: &RequestedColumns<'_>,
        row: usize,
        most: usize,
    ) -> Result<u32, GroupByRefusal> {
        if self.groups >= most {
            return Err(GroupByRefusal::TooManyGroups(most));
        }
        let group = u32::try_from(self.groups).ok().filter(|group| *group < u32::MAX).ok_or(GroupByRefusal::Groups)?;
        self.columns.iter_mut().zip(&batch.keys).for_each(|(column, key)| column.push(key, row));
        self.table.insert_unique(hash, (hash, group), |(hash, _)| *hash);
        self.groups += 1;
        Ok(group)
    }
}

#[inline]
fn is_of(columns: &[KeyColumn], group: u32, batch: &RequestedColumns<'_>, row: usize) -> bool {
    columns.iter().zip(&batch.keys).all(|(column, key)| column.is(group as usize, key, row))
}
