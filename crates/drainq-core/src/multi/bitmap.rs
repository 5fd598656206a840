//! A set of small numbers that finds its next member in a few steps, however large it is.
//!
//! The set has one bit for each number, in words of 64. A second set of the same kind holds the indices of the words
//! that are not zero. So a search reads at most two words a level, and 262,144 numbers need three levels.
//!
//! # Invariants
//! 1. `above` exists exactly when there is more than one word, and holds the index of each word that is not zero.
//!
//! Source: the hierarchical bitmaps of real-time schedulers and allocators (van Emde Boas trees with a fan-out of one
//! machine word).

const BITS: usize = u64::BITS as usize;

/// A set of numbers below a bound that grows on demand.
#[derive(Debug, Default)]
pub struct Bitmap {
    words: Vec<u64>,
    above: Option<Box<Bitmap>>,
}

impl Bitmap {
    /// Adds `number`; true if it was not there.
    #[inline]
    pub fn insert(&mut self, number: usize) -> bool {
        let (index, bit) = (number / BITS, 1 << (number % BITS));
        if index >= self.words.len() {
            self.grow(index + 1);
        }
        let word = &mut self.words[index];
        let before = *word;
        *word |= bit;
        if before == 0
            && let Some(above) = &mut self.above
        {
            above.insert(index);
        }
        before & bit == 0
    }

    /// Removes `number`; true if it was there.
    #[inline]
    pub fn remove(&mut self, number: usize) -> bool {
        let (index, bit) = (number / BITS, 1 << (number % BITS));
        let Some(word) = self.words.get_mut(index) else { return false };
        let before = *word;
        *word &= !bit;
        if *word == 0
            && let Some(above) = &mut self.above
        {
            above.remove(index);
        }
        before & bit != 0
    }

    /// Whether `number` is a member.
    #[inline]
    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / BITS).is_some_and(|word| word & (1 << (number % BITS)) != 0)
    }

    /// Whether there is no member.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.above {
            Some(above) => above.is_empty(),
            None => self.words.first().is_none_or(|&word| word == 0),
        }
    }

    /// Returns the smallest member that is at least `from`.
    #[inline]
    pub fn next(&self, from: usize) -> Option<usize> {
        let index = from / BITS;
        let rest = self.words.get(index)? & (u64::MAX << (from % BITS));
        if rest != 0 {
            return Some(index * BITS + rest.trailing_zeros() as usize);
        }
        let index = self.above.as_ref()?.next(index + 1)?;
        Some(index * BITS + self.words[index].trailing_zeros() as usize)
    }

    /// Returns the smallest member at least `from`, else the smallest of all.
    #[inline]
    pub fn next_around(&self, from: usize) -> Option<usize> {
        self.next(from).or_else(|| self.next(0))
    }

    /// Returns the members, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.next(0), |&member| self.next(member + 1))
    }

    #[cold]
    fn grow(&mut self, words: usize) {
        if self.above.is_none() && words > 1 {
            let mut above = Bitmap::default();
            if self.words.first().is_some_and(|&word| word != 0) {
                above.insert(0);
            }
            self.above = Some(Box::new(above));
        }
        self.words.resize(words, 0);
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_empty_set_has_no_next() {
        assert_eq!(Bitmap::default().next(0), None);
        assert!(Bitmap::default().is_empty());
        assert_eq!(Bitmap::default().next(1_000_000), None);
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_set(
            steps in prop::collection::vec((any::<bool>(), prop_oneof![0_usize..200, 0_usize..300_000]), 0..200),
            from in 0_usize..300_000,
        ) {
            let (mut map, mut set) = (Bitmap::default(), BTreeSet::new());
            for (add, number) in steps {
                if add {
                    prop_assert_eq!(map.insert(number), set.insert(number));
                } else {
                    prop_assert_eq!(map.remove(number), set.remove(&number));
                }
                prop_assert_eq!(map.is_empty(), set.is_empty());
                prop_assert!(map.iter().eq(set.iter().copied()));
                for at in [0, number, number + 1, from] {
                    prop_assert_eq!(map.next(at), set.range(at..).next().copied());
                    prop_assert_eq!(map.contains(at), set.contains(&at));
                }
                let around = set.range(from..).next().or_else(|| set.first()).copied();
                prop_assert_eq!(map.next_around(from), around);
            }
        }
    }
}
