//! The keys of all groups, and the number of the group of each row.
//!
//! Keys are kept by column, and read in blocks of rows, of which each step reads all before the next step begins: the
//! hashes; the groups that have these hashes, or new groups; the keys of the new groups; at last whether the rows'
//! keys are those of the groups that were found. Two keys may have one hash. Then the block is read again row by row.
//! Hashes are seeded for each table, so that a sender of keys cannot choose keys that collide.

use super::group_table::GroupTable;
use super::key_column::BlockKeys;
pub use super::key_column::KeyColumn;
use super::refusal::GroupByRefusal;
use super::request::{GroupByRequest, RequestedColumns};
use crate::columns::column::Type;
use hashbrown::DefaultHashBuilder;

/// Rows of a block: what the steps hand on fits in the processor's nearest cache.
const BLOCK: usize = 1_024;
/// Rows whose first slots are read before the first one's group is looked up.
const READ_AHEAD: usize = 16;

/// The keys of all groups.
#[derive(Clone, Default)]
pub struct GroupKeys {
    columns: Vec<KeyColumn>,
    table: GroupTable,
    seed: DefaultHashBuilder,
}

impl GroupKeys {
    /// No group yet, for keys of these types.
    pub fn new(types: &[Type]) -> Self {
        Self { columns: types.iter().map(KeyColumn::new).collect(), ..Self::default() }
    }

    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// The keys by column.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Forgets all groups from `groups` on.
    pub fn truncate(&mut self, groups: usize) {
        if self.count() > groups {
            self.columns.iter_mut().for_each(|column| column.truncate(groups));
            self.table.truncate(groups);
        }
    }

    /// Finds the group of each row, or makes it.
    ///
    /// A batch that is refused leaves some groups, which the caller truncates.
    pub fn number(
        &mut self,
        batch: &RequestedColumns<'_>,
        request: &GroupByRequest,
        groups: &mut Vec<u32>,
    ) -> Result<(), GroupByRefusal> {
        let most = request.max_groups.unwrap_or(usize::MAX);
        let mut hashes = Vec::with_capacity(BLOCK);
        for begin in (0..batch.rows).step_by(BLOCK) {
            let rows = begin..batch.rows.min(begin + BLOCK);
            hashes.clear();
            hashes.resize(rows.len(), 0);
            let mut keys = Vec::with_capacity(batch.keys.len());
            for (column, name) in batch.keys.iter().zip(&request.keys) {
                let block = BlockKeys::of(column, rows.clone());
                let block = block.map_err(|row| GroupByRefusal::Text(name.clone(), row))?;
                if keys.is_empty() {
                    block.hash(&self.seed, &mut hashes);
                } else {
                    block.hash_more(&self.seed, &mut hashes);
                }
                keys.push(block);
            }
            self.number_block(&keys, &hashes, most, groups)?;
        }
        Ok(())
    }

    /// Numbers the rows of a block, which have these hashes.
    pub(super) fn number_block(
        &mut self,
        keys: &[BlockKeys<'_>],
        hashes: &[u64],
        most: usize,
        groups: &mut Vec<u32>,
    ) -> Result<(), GroupByRefusal> {
        let (groups_before, rows_before) = (self.count(), groups.len());
        let new_rows = self.number_by_hash(hashes, most, groups)?;
        self.columns.iter_mut().zip(keys).for_each(|(column, keys)| column.extend(keys, &new_rows));
        let numbered = &groups[rows_before..];
        if !self.columns.iter().zip(keys).all(|(column, keys)| column.are(numbered, groups_before, keys)) {
            self.truncate(groups_before);
            groups.truncate(rows_before);
            self.number_one_by_one(keys, hashes, most, groups)?;
        }
        Ok(())
    }

    /// Numbers rows as if two keys never had one hash. Returns the rows for which a group was made, whose keys are not
    /// yet there.
    fn number_by_hash(
        &mut self,
        hashes: &[u64],
        most: usize,
        groups: &mut Vec<u32>,
    ) -> Result<Vec<u32>, GroupByRefusal> {
        let mut new_rows = Vec::new();
        let mut first_slots = [0; READ_AHEAD];
        for (block, some) in hashes.chunks(READ_AHEAD).enumerate() {
            first_slots.iter_mut().zip(some).for_each(|(slot, hash)| *slot = self.table.first_slot(*hash));
            for (row, (hash, slot)) in some.iter().zip(first_slots).enumerate() {
                groups.push(match GroupTable::group_in(slot, *hash) {
                    Some(group) => group,
                    None => self.find_or_make(*hash, most, &mut new_rows, block * READ_AHEAD + row)?,
                });
            }
        }
        Ok(new_rows)
    }

    #[inline(never)] // so that the loop over rows whose groups are found at once stays small
    fn find_or_make(
        &mut self,
        hash: u64,
        most: usize,
        new_rows: &mut Vec<u32>,
        row: usize,
    ) -> Result<u32, GroupByRefusal> {
        if let Some(group) = self.table.find(hash, |_| true) {
            return Ok(group);
        }
        new_rows.push(row as u32);
        self.make(hash, most)
    }

    fn number_one_by_one(
        &mut self,
        keys: &[BlockKeys<'_>],
        hashes: &[u64],
        most: usize,
        groups: &mut Vec<u32>,
    ) -> Result<(), GroupByRefusal> {
        for (row, hash) in hashes.iter().enumerate() {
            let columns = &self.columns;
            let is_it = |group| columns.iter().zip(keys).all(|(column, keys)| column.is(group as usize, keys, row));
            groups.push(match self.table.find(*hash, is_it) {
                Some(group) => group,
                None => {
                    let group = self.make(*hash, most)?;
                    self.columns.iter_mut().zip(keys).for_each(|(column, keys)| column.extend(keys, &[row as u32]));
                    group
                }
            });
        }
        Ok(())
    }

    /// A group of this hash, whose keys the caller adds.
    #[inline]
    fn make(&mut self, hash: u64, most: usize) -> Result<u32, GroupByRefusal> {
        if self.count() >= most {
            return Err(GroupByRefusal::TooManyGroups(most));
        }
        let group = u32::try_from(self.count()).ok().filter(|group| *group < u32::MAX).ok_or(GroupByRefusal::Groups)?;
        self.table.push(hash);
        Ok(group)
    }
}
