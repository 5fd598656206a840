//! A set of small numbers that finds its next member in a few steps, however large it is.
//!
//! Level 0 has one bit a number; a bit of level k + 1 says whether a word of level k holds
//! any bit. So a search touches at most two words a level, and 262,144 numbers need three
//! levels.
//!
//! # Invariants
//! 1. Bit `i` of level k + 1 is set exactly when word `i` of level k is not zero.
//! 2. The last level is one word.
//!
//! Source: the hierarchical bitmaps of real-time schedulers and allocators (van Emde Boas
//! trees with a fan-out of one machine word).

const BITS: usize = 64;

/// A set of numbers below a bound that grows on demand.
#[derive(Debug)]
pub struct Bitmap {
    levels: Vec<Vec<u64>>,
}

impl Default for Bitmap {
    fn default() -> Self {
        Self { levels: vec![vec![0]] }
    }
}

impl Bitmap {
    /// Adds `number`; true if it was not there.
    pub fn insert(&mut self, number: usize) -> bool {
        self.reach(number);
        let mut at = number;
        for (level, words) in self.levels.iter_mut().enumerate() {
            let word = &mut words[at / BITS];
            let bit = 1 << (at % BITS);
            let (had_bit, was_empty) = (*word & bit != 0, *word == 0);
            *word |= bit;
            if level == 0 && had_bit {
                return false;
            }
            if !was_empty {
                return true;
            }
            at /= BITS;
        }
        true
    }

    /// Takes `number` out; true if it was there.
    pub fn remove(&mut self, number: usize) -> bool {
        if !self.contains(number) {
            return false;
        }
        let mut at = number;
        for words in &mut self.levels {
            let word = &mut words[at / BITS];
            *word &= !(1 << (at % BITS));
            if *word != 0 {
                break;
            }
            at /= BITS;
        }
        true
    }

    /// Whether `number` is a member.
    pub fn contains(&self, number: usize) -> bool {
        self.levels[0].get(number / BITS).is_some_and(|word| word & (1 << (number % BITS)) != 0)
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.levels[self.levels.len() - 1][0] == 0
    }

    /// The smallest member that is at least `from`.
    pub fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for level in 0..self.levels.len() {
            let word = self.levels[level].get(at / BITS)? & (u64::MAX << (at % BITS));
            if word != 0 {
                return Some(self.first_below(level, at / BITS * BITS + word.trailing_zeros() as usize));
            }
            at = at / BITS + 1;
        }
        None
    }

    /// The smallest member at least `from`, else the smallest of all.
    pub fn next_around(&self, from: usize) -> Option<usize> {
        self.next(from).or_else(|| self.next(0))
    }

    /// Follows bit `at` of `level` down to the smallest number below it.
    fn first_below(&self, level: usize, mut at: usize) -> usize {
        for words in self.levels[..level].iter().rev() {
            at = at * BITS + words[at].trailing_zeros() as usize;
        }
        at
    }

    /// Grows the levels until `number` has a bit.
    fn reach(&mut self, number: usize) {
        let mut words = number / BITS + 1;
        if words <= self.levels[0].len() {
            return;
        }
        let mut level = 0;
        loop {
            if level == self.levels.len() {
                // The level below was the last, a single word: its only bit above is bit 0.
                let any = u64::from(self.levels[level - 1][0] != 0);
                self.levels.push(vec![any]);
            }
            if self.levels[level].len() < words {
                self.levels[level].resize(words, 0);
            }
            if self.levels[level].len() == 1 {
                return;
            }
            words = self.levels[level].len().div_ceil(BITS);
            level += 1;
        }
    }
}

#[cfg(all(test, not(loom)))]
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
