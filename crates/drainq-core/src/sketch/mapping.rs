//! Maps a magnitude to its bucket and back, without a logarithm.
//!
//! At scale `s` an octave `[2^e, 2^(e+1))` is cut into `2^s` buckets at `2^(e + j/2^s)`. Bucket `i` holds
//! `(base^i, base^(i+1)]` with `base = 2^(2^-s)`: the buckets of OpenTelemetry's exponential histogram. The exponent
//! of the number gives the octave. A table of the cuts gives the bucket in it.
//!
//! # Invariants
//! 1. A cut is the binary fraction of 52 bits that is nearest to its power. It is computed only in integers, so that
//!    all machines agree on every bucket.
//! 2. The octave `[1, 2)` is also divided into equal slots, `1 / 2^(s+1)` wide. Neighbouring cuts are at least
//!    `ln 2 / 2^s` apart. So a slot holds one cut at most: the bucket of the slot's beginning and one comparison give
//!    the bucket.
//! 3. `|value(index(x)) - x| <= accuracy * x` with `accuracy = (base - 1) / (base + 1)`, up to a factor of `1 + 2^-50`
//!    for the rounding of cuts and products, for each normal `x`: the value of a bucket `(l, l * base]` is
//!    `2 l base / (1 + base)`, which is off by the same ratio from both ends and by less from what lies between.
//!
//! Source: invariant 3 is lemma 2 of Masson, Rim, Lee: "DDSketch", VLDB 2019. The buckets are those of OpenTelemetry's
//! data model for metrics, section "Exponential Histogram".

use crate::sync::plain::OnceLock;

/// The finest scale: 65,536 buckets an octave.
pub const MAX_SCALE: u8 = 16;
/// The smallest relative error that can be requested; [`MAX_SCALE`] keeps it.
pub const MIN_ACCURACY: f64 = 1e-5;

const FRACTION_BITS: u32 = 52;
const FRACTION: u64 = (1 << FRACTION_BITS) - 1;
const EXPONENT_BIAS: i32 = 1023;
/// The exponent of a power of two that makes each subnormal number normal. Multiplying is exact, dividing back rounds.
const LIFT: i32 = 64;

/// The cuts of one scale, made once in a process.
pub struct Mapping {
    scale: u8,
    /// For each slot of `[1, 2)` the bucket of its beginning.
    slots: Vec<u32>,
    /// Fractions of the cuts of `[1, 2)`: the first is 0; the last, past the end, is 2^52.
    cuts: Vec<u64>,
    /// The factor from the lower end of a bucket to the bucket's value.
    middle: f64,
}

static MAPPINGS: [OnceLock<Mapping>; MAX_SCALE as usize + 1] = [const { OnceLock::new() }; MAX_SCALE as usize + 1];

/// Returns the coarsest scale whose relative error is at most `accuracy`; `None` if there is none.
pub fn scale_for(accuracy: f64) -> Option<u8> {
    if !(MIN_ACCURACY..1.0).contains(&accuracy) {
        return None;
    }
    let widest = (1.0 + accuracy) / (1.0 - accuracy);
    let mut base = 2.0_f64;
    let mut scale = 0;
    while base > widest {
        base = base.sqrt();
        scale += 1;
    }
    (scale <= MAX_SCALE).then_some(scale)
}

impl Mapping {
    /// Returns the mapping of a scale up to [`MAX_SCALE`].
    pub fn of(scale: u8) -> &'static Mapping {
        let cell = &MAPPINGS[usize::from(scale)];
        // Made outside of the cell: a process that forks meanwhile leaves no cell half made.
        cell.get().unwrap_or_else(|| {
            let made = Self::new(scale);
            cell.get_or_init(|| made)
        })
    }

    fn new(scale: u8) -> Self {
        let cuts = cuts(scale);
        let slot_count = 1_u64 << (u32::from(scale) + 1);
        let width = 1_u64 << (FRACTION_BITS - u32::from(scale) - 1);
        let mut bucket = 0;
        let slots = (0..slot_count)
            .map(|slot| {
                while cuts[bucket + 1] <= slot * width {
                    bucket += 1;
                }
                bucket as u32
            })
            .collect();
        let base = 1.0 + cuts[1] as f64 / (FRACTION + 1) as f64;
        Self { scale, slots, cuts, middle: 2.0 * base / (1.0 + base) }
    }

    /// Returns the scale: an octave has `2^scale` buckets.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Returns the bucket of a finite number above 0.
    #[inline]
    pub fn index(&self, magnitude: f64) -> i32 {
        // If the next smaller float is at or above a cut, `magnitude` is above the cut. So the upper end of a bucket
        // belongs to the bucket.
        let before = magnitude.to_bits() - 1;
        let exponent = (before >> FRACTION_BITS) as i32;
        if exponent == 0 {
            return self.index_of_subnormal(magnitude);
        }
        let fraction = before & FRACTION;
        let slot = fraction >> (FRACTION_BITS - u32::from(self.scale) - 1);
        let bucket = self.slots[slot as usize];
        let above = fraction >= self.cuts[bucket as usize + 1];
        ((exponent - EXPONENT_BIAS) << self.scale) + (bucket + u32::from(above)) as i32
    }

    #[cold]
    fn index_of_subnormal(&self, magnitude: f64) -> i32 {
        self.index(magnitude * power_of_two(LIFT)) - (LIFT << self.scale)
    }

    /// Returns the number that stands for a bucket.
    pub fn value(&self, index: i32) -> f64 {
        let exponent = index >> self.scale;
        let cut = self.cuts[(index & ((1 << self.scale) - 1)) as usize];
        if exponent <= -EXPONENT_BIAS {
            return self.value(index + (LIFT << self.scale)) * power_of_two(-LIFT);
        }
        let lower = f64::from_bits((((exponent + EXPONENT_BIAS) as u64) << FRACTION_BITS) | cut);
        lower * self.middle
    }
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + EXPONENT_BIAS) as u64) << FRACTION_BITS)
}

/// Returns the fractions of `2^(j / 2^scale)` for `j` from 0 to `2^scale`.
///
/// They are computed with 63 bits behind the point. Each of at most 16 products loses less than a unit of the last bit.
fn cuts(scale: u8) -> Vec<u64> {
    const ONE: u128 = 1 << 63;
    // roots[k] is 2^(2^-(k+1))
    let mut roots = Vec::new();
    let mut root = 2 * ONE;
    for _ in 0..scale {
        root = (root * ONE).isqrt();
        roots.push(root);
    }
    let count = 1_u64 << scale;
    let mut cuts: Vec<u64> = (0..count)
        .map(|cut| {
            let factors = roots.iter().enumerate().filter(|(k, _)| cut >> (u32::from(scale) - 1 - *k as u32) & 1 == 1);
            let power = factors.fold(ONE, |product, (_, root)| product * root / ONE);
            let dropped = 63 - FRACTION_BITS;
            ((power - ONE + (1 << (dropped - 1))) >> dropped) as u64
        })
        .collect();
    cuts.push(FRACTION + 1);
    cuts
}
