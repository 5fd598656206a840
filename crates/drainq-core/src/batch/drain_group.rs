//! Groups the items of a pass into one batch per type. The order within a type is kept.

use super::item::{Key, Keyed, weight_of};

/// The way in which a pass is cut into handler calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// One call per key.
    ByKey,
    /// One call for the items of all keys.
    Whole,
}

/// Items for one handler call.
pub struct Batch<T> {
    /// The key of the items; 0 in a queue that does not group by key.
    pub key: Key,
    /// The items, oldest first.
    pub items: Vec<T>,
    /// The weight of the items when the batch was made; in a queue that does not weigh items, their number. The size
    /// stays the same when the handler empties `items`.
    pub size: u64,
    /// The weight of the items of each key.
    pub(super) tally: Vec<(Key, u64)>,
}

/// Groups items into batches; keeps its memory from pass to pass.
pub(super) struct Groups<T> {
    grouping: Grouping,
    max_batch: usize,
    weighed: bool,
    full: Vec<(Key, Vec<T>)>,
    empty: Vec<Vec<T>>,
    /// The position in `full` of a key, plus one; 0 for a key that this pass has not met.
    position_plus_one: Vec<u32>,
    /// The position in a batch's tally of a key, plus one; all zero between two tallies.
    tallied: Vec<u32>,
    /// The weight that the pass took of each key; kept for the batch if the pass is a single batch.
    taken: Option<Vec<(Key, u64)>>,
}

/// A vector whose capacity is above this number of items is not kept for the next pass.
const KEEP: usize = 16_384;

impl<T: Keyed> Groups<T> {
    pub fn new(grouping: Grouping, max_batch: usize, weighed: bool) -> Self {
        Self {
            grouping,
            max_batch,
            weighed,
            full: Vec::new(),
            empty: Vec::new(),
            position_plus_one: Vec::new(),
            tallied: Vec::new(),
            taken: None,
        }
    }

    /// Moves `items` into their groups.
    pub fn add(&mut self, items: &mut Vec<T>) {
        let mut last: Option<(Key, usize)> = None;
        for item in items.drain(..) {
            let key = if self.grouping == Grouping::Whole { 0 } else { item.key() };
            let position = match last {
                Some((same, position)) if same == key => position,
                _ => self.position_of(key),
            };
            last = Some((key, position));
            self.full[position].1.push(item);
        }
    }

    fn position_of(&mut self, key: Key) -> usize {
        let index = key as usize;
        if index >= self.position_plus_one.len() {
            self.position_plus_one.resize(index + 1, 0);
        }
        if self.position_plus_one[index] == 0 {
            self.full.push((key, self.empty.pop().unwrap_or_default()));
            self.position_plus_one[index] = self.full.len() as u32;
        }
        self.position_plus_one[index] as usize - 1
    }

    /// Calls `count` with each key of the pass and the weight taken of it. Call this after the last `add`.
    pub fn tally(&mut self, mut count: impl FnMut(Key, u64)) {
        match self.grouping {
            Grouping::ByKey => {
                for (key, items) in &self.full {
                    count(*key, weight_of_all(items, self.weighed));
                }
            }
            Grouping::Whole => {
                let tally = self
                    .full
                    .first()
                    .map(|(_, items)| count_keys(&mut self.tallied, items, self.weighed))
                    .unwrap_or_default();
                tally.iter().for_each(|(key, weight)| count(*key, *weight));
                self.taken = Some(tally);
            }
        }
    }

    /// Whether the pass has items of this key.
    pub fn holds(&self, key: Key) -> bool {
        self.position_plus_one.get(key as usize).is_some_and(|position| *position != 0)
    }

    /// Returns the next batch. The group of the key that the pass met last comes first.
    pub fn next(&mut self) -> Option<Batch<T>> {
        let (key, items) = self.full.last_mut()?;
        let key = *key;
        let items = if items.len() > self.max_batch {
            let later = items.split_off(self.max_batch);
            std::mem::replace(items, later)
        } else {
            let items = std::mem::take(items);
            self.full.pop();
            items
        };
        let tally = match self.grouping {
            Grouping::ByKey => vec![(key, weight_of_all(&items, self.weighed))],
            Grouping::Whole => match self.taken.take() {
                Some(all) if self.full.is_empty() => all,
                _ => count_keys(&mut self.tallied, &items, self.weighed),
            },
        };
        Some(Batch { key, size: tally.iter().map(|(_, weight)| weight).sum(), tally, items })
    }

    /// Keeps the memory of a batch whose items are gone.
    pub fn reuse(&mut self, batch: Batch<T>) {
        let Batch { mut items, .. } = batch;
        items.clear();
        if items.capacity() <= KEEP {
            self.empty.push(items);
        }
    }

    /// Ends the pass. Returns the items of the batches that were not handed out.
    pub fn end(&mut self) -> Vec<T> {
        self.position_plus_one.fill(0);
        self.taken = None;
        self.full.drain(..).flat_map(|(_, items)| items).collect()
    }
}

fn weight_of_all(items: &[impl Keyed], weighed: bool) -> u64 {
    if weighed { items.iter().map(|item| weight_of(item, true)).sum() } else { items.len() as u64 }
}

/// Counts the weight of each key among the items; `positions` holds only zeros before and after the call.
fn count_keys(positions: &mut Vec<u32>, items: &[impl Keyed], weighed: bool) -> Vec<(Key, u64)> {
    let mut tally: Vec<(Key, u64)> = Vec::new();
    for (key, weight) in items.iter().map(|item| (item.key(), weight_of(item, weighed))) {
        let index = key as usize;
        if index >= positions.len() {
            positions.resize(index + 1, 0);
        }
        if positions[index] == 0 {
            tally.push((key, 0));
            positions[index] = tally.len() as u32;
        }
        tally[positions[index] as usize - 1].1 += weight;
    }
    for (key, _) in &tally {
        positions[*key as usize] = 0;
    }
    tally
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Keyed for (Key, usize) {
        fn key(&self) -> Key {
            self.0
        }
    }

    proptest! {
        #[test]
        fn batches_hold_everything_in_order_and_are_never_too_large(
            keys in prop::collection::vec(0_u32..5, 0..200), max_batch in 1_usize..50, whole in any::<bool>(),
        ) {
            let grouping = if whole { Grouping::Whole } else { Grouping::ByKey };
            let mut groups = Groups::new(grouping, max_batch, false);
            let mut items: Vec<_> = keys.iter().copied().zip(0_usize..).collect();
            let expected = items.clone();
            groups.add(&mut items);
            let mut taken = 0;
            groups.tally(|_, count| taken += count);
            prop_assert_eq!(taken, keys.len() as u64);
            let mut seen: Vec<(Key, usize)> = Vec::new();
            while let Some(batch) = groups.next() {
                prop_assert!(!batch.items.is_empty() && batch.items.len() <= max_batch);
                for item in &batch.items {
                    prop_assert!(whole || item.0 == batch.key);
                    prop_assert!(!seen.iter().any(|old| (whole || old.0 == item.0) && old.1 > item.1));
                    seen.push(*item);
                }
                prop_assert_eq!(batch.size, batch.items.len() as u64);
                for (key, count) in &batch.tally {
                    prop_assert_eq!(batch.items.iter().filter(|item| item.0 == *key).count() as u64, *count);
                }
                groups.reuse(batch);
            }
            seen.sort_by_key(|item| item.1);
            prop_assert_eq!(seen, expected);
            prop_assert!(groups.end().is_empty());
        }
    }
}
