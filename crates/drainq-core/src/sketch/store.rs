//! Counts by bucket, with a bound on the buckets.
//!
//! # Invariants
//! 1. The highest bucket that counts anything is exact; below it there are `limit - 1` others. Lower values are counted
//!    in the lowest of these.
//! 2. So the bucket of a count depends on its value, the highest bucket and the limit, not on the order of the calls:
//!    adding or merging in any order gives the same counts.
//! 3. `Few` is sorted and holds no zero. `Span` has a place for each bucket from `first` on; `high` is the highest
//!    that is not zero.
//!
//! Source: algorithm 3 of Masson, Rim, Lee: "DDSketch", VLDB 2019.

/// The most buckets of a list; for more, an array replaces it. Most keys of a group-by see few distinct values.
const FEW: usize = 48;
/// Places by which an array grows.
const STEP: i32 = 64;

#[derive(Clone)]
enum BucketCounts {
    Few(Vec<(i32, u64)>),
    Span { first: i32, high: i32, counts: Vec<u64> },
}

/// Counts by bucket.
#[derive(Clone)]
pub struct Store {
    counts: BucketCounts,
    collapsed: bool,
}

impl Default for Store {
    fn default() -> Self {
        Self { counts: BucketCounts::Few(Vec::new()), collapsed: false }
    }
}

impl PartialEq for Store {
    fn eq(&self, other: &Self) -> bool {
        self.collapsed == other.collapsed && self.iter().eq(other.iter())
    }
}

impl Store {
    /// Whether a value was counted in a higher bucket than its own.
    pub fn collapsed(&self) -> bool {
        self.collapsed
    }

    /// Returns the highest bucket that counts anything.
    pub fn high(&self) -> Option<i32> {
        match &self.counts {
            BucketCounts::Few(few) => few.last().map(|(index, _)| *index),
            BucketCounts::Span { high, .. } => Some(*high),
        }
    }

    /// Adds `count`, at least 1, to a bucket. The store keeps at most `limit` buckets.
    #[inline]
    pub fn add(&mut self, index: i32, count: u64, limit: u32) {
        if let BucketCounts::Span { first, high, counts } = &mut self.counts
            && index <= *high
            && index >= *first
            && i64::from(*high) - i64::from(index) < i64::from(limit)
        {
            counts[(index - *first) as usize] += count;
            return;
        }
        self.add_anywhere(index, count, limit);
    }

    fn add_anywhere(&mut self, index: i32, count: u64, limit: u32) {
        let high = self.high().map_or(index, |high| high.max(index));
        let lowest = lowest(high, limit);
        self.collapse_below(lowest);
        self.collapsed |= index < lowest;
        let index = index.max(lowest);
        match &mut self.counts {
            BucketCounts::Few(few) => match few.binary_search_by_key(&index, |(index, _)| *index) {
                Ok(place) => few[place].1 += count,
                Err(place) if few.len() < FEW => few.insert(place, (index, count)),
                Err(_) => {
                    self.spread();
                    self.add_anywhere(index, count, limit);
                }
            },
            BucketCounts::Span { first, high, counts } => {
                cover(first, counts, index);
                *high = index.max(*high);
                counts[(index - *first) as usize] += count;
            }
        }
    }

    /// Moves all counts below `lowest` to `lowest`.
    fn collapse_below(&mut self, lowest: i32) {
        let mut moved = 0;
        match &mut self.counts {
            BucketCounts::Few(few) => {
                let below = few.partition_point(|(index, _)| *index < lowest);
                if below > 0 {
                    moved = few.drain(..below).map(|(_, count)| count).sum();
                    match few.first_mut() {
                        Some(entry) if entry.0 == lowest => entry.1 += moved,
                        _ => few.insert(0, (lowest, moved)),
                    }
                }
            }
            BucketCounts::Span { first, high, counts } => {
                if *first < lowest {
                    let below = ((i64::from(lowest) - i64::from(*first)) as usize).min(counts.len());
                    moved = counts.drain(..below).sum();
                    *first = lowest;
                    if moved > 0 {
                        cover(first, counts, lowest);
                        counts[0] += moved;
                        *high = lowest.max(*high);
                    }
                }
            }
        }
        self.collapsed |= moved > 0;
    }

    /// Replaces the list by an array.
    fn spread(&mut self) {
        let BucketCounts::Few(few) = &self.counts else { return };
        let (Some((low, _)), Some((high, _))) = (few.first().copied(), few.last().copied()) else { return };
        let mut counts = vec![0; (high - low) as usize + 1];
        few.iter().for_each(|(index, count)| counts[(index - low) as usize] = *count);
        self.counts = BucketCounts::Span { first: low, high, counts };
    }

    /// Adds the counts of `other`, which has the same limit.
    pub fn merge(&mut self, other: &Self, limit: u32) {
        self.collapsed |= other.collapsed;
        match (self.high(), &other.counts) {
            (None, counts) => self.counts = counts.clone(),
            (Some(_), BucketCounts::Few(few)) => {
                // From the highest bucket down, so that each value collapses at most once.
                few.iter().rev().for_each(|(index, count)| self.add(*index, *count, limit));
            }
            (Some(own), BucketCounts::Span { first, high, counts }) => {
                self.add_span(*first, &counts[..=(high - first) as usize], lowest(own.max(*high), limit));
            }
        }
    }

    /// Adds the counts of a span of buckets; those below `lowest` collapse.
    fn add_span(&mut self, from: i32, added: &[u64], lowest: i32) {
        self.collapse_below(lowest);
        self.spread();
        let BucketCounts::Span { first, high, counts } = &mut self.counts else { return };
        let last = from + added.len() as i32 - 1;
        let below = ((i64::from(lowest) - i64::from(from)).max(0) as usize).min(added.len());
        let moved: u64 = added[..below].iter().sum();
        if moved > 0 {
            cover(first, counts, lowest);
            counts[(lowest - *first) as usize] += moved;
            (self.collapsed, *high) = (true, lowest.max(*high));
        }
        if below < added.len() {
            let begin = from + below as i32;
            cover(first, counts, begin);
            cover(first, counts, last);
            let places = &mut counts[(begin - *first) as usize..];
            places.iter_mut().zip(&added[below..]).for_each(|(count, more)| *count += more);
            *high = last.max(*high);
        }
    }

    /// Returns the buckets that count anything, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i32, u64)> + '_ {
        let (few, first, counts): (&[(i32, u64)], i32, &[u64]) = match &self.counts {
            BucketCounts::Few(few) => (few, 0, &[]),
            BucketCounts::Span { first, counts, .. } => (&[], *first, counts),
        };
        let spanned = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        few.iter().copied().chain(spanned.map(move |(place, count)| (first + place as i32, *count)))
    }

    /// Makes the store whose [`Store::iter`] returns these buckets.
    pub fn from_sorted(entries: Vec<(i32, u64)>, collapsed: bool) -> Self {
        let many = entries.len() > FEW;
        let mut store = Self { counts: BucketCounts::Few(entries), collapsed };
        if many {
            store.spread();
        }
        store
    }
}

/// Returns the lowest bucket that may be in use if `high` is.
pub fn lowest(high: i32, limit: u32) -> i32 {
    (i64::from(high) - i64::from(limit) + 1).max(i64::from(i32::MIN)) as i32
}

/// Makes room for a bucket.
fn cover(first: &mut i32, counts: &mut Vec<u64>, index: i32) {
    if counts.is_empty() {
        *first = index;
    }
    if index < *first {
        let more = (*first - index + STEP) as usize;
        let mut wider = vec![0; more + counts.len()];
        wider[more..].copy_from_slice(counts);
        (*first, *counts) = (*first - more as i32, wider);
    } else if index - *first >= counts.len() as i32 {
        counts.resize((index - *first + STEP) as usize, 0);
    }
}
