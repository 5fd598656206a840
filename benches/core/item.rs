//! The items of these benchmarks, and the cost of handling them.

use drainq_core::batch::{Key, Keyed};
use drainq_core::ring::WordItem;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// A key in the low half of a word, a number in the high one; as small as the pointer that it stands for.
#[derive(Clone, Copy)]
pub struct Item(NonZeroUsize);

impl Item {
    #[inline]
    pub fn new(key: Key, number: usize) -> Self {
        Self(NonZeroUsize::new(number << 32 | key as usize | 1 << 31).expect("a bit is set"))
    }

    /// The number.
    #[inline]
    pub fn number(self) -> usize {
        self.0.get() >> 32
    }
}

impl Keyed for Item {
    #[inline]
    fn key(&self) -> Key {
        self.0.get() as Key & !(1 << 31)
    }
}

impl WordItem for Item {
    #[inline]
    fn into_word(self) -> NonNull<()> {
        self.0.into_word()
    }

    #[inline]
    unsafe fn from_word(word: NonNull<()>) -> Self {
        // SAFETY: the caller promises that the word came from `into_word` above.
        Self(unsafe { NonZeroUsize::from_word(word) })
    }
}

/// Does `steps` multiply-adds, each of which needs the result of the last: work that neither the compiler nor the
/// processor can shorten.
#[inline]
pub fn work(steps: usize, seed: usize) -> usize {
    let (factor, term) = (black_box(6_364_136_223_846_793_005), black_box(1_442_695_040_888_963_407));
    (0..steps).fold(seed, |value, _| value.wrapping_mul(factor).wrapping_add(term))
}

/// How often a type occurs, by its number: 24, 8, 4, 1 and again, as the levels of an aggregating server do.
const WEIGHTS: [usize; 4] = [24, 8, 4, 1];

/// A sequence of types in which each occurs by its weight, shuffled. The same for the same seed.
pub fn skewed(types: usize, seed: u64) -> Vec<usize> {
    let weighted = (0..types).flat_map(|at| std::iter::repeat_n(at, WEIGHTS[at % WEIGHTS.len()]));
    shuffled(weighted.collect(), seed)
}

/// A sequence of types in which each occurs once, shuffled.
pub fn uniform(types: usize, seed: u64) -> Vec<usize> {
    shuffled((0..types).collect(), seed)
}

fn shuffled(mut types: Vec<usize>, seed: u64) -> Vec<usize> {
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    for at in (1..types.len()).rev() {
        types.swap(at, random.below(at + 1));
    }
    types
}

/// Xorshift: enough chance for a benchmark.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}
