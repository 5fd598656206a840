//! A sketch as bytes: settings, totals, and the buckets that count anything.
//!
//! ```text
//! "DQS" 1                 what it is, and the version of the layout
//! accuracy f64, max_buckets, flags u8, zeros
//! sum f64, min f64, max f64
//! positive, negative      how many buckets; for each: its distance to the one before, its count
//! check u32               of all bytes before
//! ```
//!
//! Floats and the check are little-endian; other numbers are LEB128, those with a sign zigzag.
//!
//! # Invariants
//! 1. [`decode`] accepts the bytes of [`encode`]. It accepts other bytes only if they are a sketch that keeps the
//!    invariants of its module.
//! 2. No single byte can change without being noticed: each step of the check is a bijection.
//! 3. Memory is allocated in proportion to the bytes, or up to the bound that a valid sketch may have.

use super::mapping::Mapping;
use super::store::{Store, lowest};
use super::{DDSketch, SketchRefusal};

const HEAD: &[u8; 4] = b"DQS\x01";
const POSITIVE_COLLAPSED: u8 = 1;
const NEGATIVE_COLLAPSED: u8 = 2;
const CUT_OFF: SketchRefusal = SketchRefusal::Bytes("cut off");

/// Returns a sketch as bytes.
pub fn encode(sketch: &DDSketch) -> Vec<u8> {
    let mut to = Vec::new();
    encode_into(&mut to, sketch);
    to
}

/// Appends the sketch as bytes.
pub fn encode_into(to: &mut Vec<u8>, sketch: &DDSketch) {
    let begin = to.len();
    let none = Store::default();
    let negative = sketch.negative.as_deref().unwrap_or(&none);
    to.extend(HEAD);
    to.extend(sketch.accuracy.to_le_bytes());
    put(to, sketch.max_buckets.into());
    let flags = [(&sketch.positive, POSITIVE_COLLAPSED), (negative, NEGATIVE_COLLAPSED)];
    to.push(flags.iter().filter(|(store, _)| store.collapsed()).map(|(_, flag)| flag).sum());
    put(to, sketch.zeros);
    for total in [sketch.sum(), sketch.min, sketch.max] {
        to.extend(total.to_le_bytes());
    }
    for store in [&sketch.positive, negative] {
        put(to, store.iter().count() as u64);
        let mut before = 0;
        for (index, count) in store.iter() {
            let distance = index - before;
            put(to, u64::from(((distance << 1) ^ (distance >> 31)) as u32));
            put(to, count);
            before = index;
        }
    }
    let check = check(&to[begin..]);
    to.extend(check.to_le_bytes());
}

/// Returns the encoded sketch, or why the bytes are no sketch.
pub fn decode(bytes: &[u8]) -> Result<DDSketch, SketchRefusal> {
    let Some(body) = bytes.strip_prefix(HEAD) else {
        return Err(SketchRefusal::Bytes("the first four bytes are not those of a sketch"));
    };
    let (body, written) = body.split_last_chunk().ok_or(CUT_OFF)?;
    if u32::from_le_bytes(*written) != check(&bytes[..bytes.len() - 4]) {
        return Err(SketchRefusal::Bytes("the check at the end does not fit: they were cut off or changed"));
    }
    let mut from = Reader(body);
    let accuracy = from.float()?;
    let max_buckets = from.number()?;
    let mut sketch = DDSketch::new(accuracy, Some(max_buckets))?;
    let [flags] = from.take()?;
    sketch.zeros = from.number()?;
    (sketch.sum, sketch.min, sketch.max) = (from.float()?, from.float()?, from.float()?);
    let bound = sketch.max_buckets;
    sketch.positive = from.store(bound, flags & POSITIVE_COLLAPSED != 0)?;
    let negative = from.store(bound, flags & NEGATIVE_COLLAPSED != 0)?;
    sketch.negative = negative.high().is_some().then(|| Box::new(negative));
    if !from.0.is_empty() || flags > (POSITIVE_COLLAPSED | NEGATIVE_COLLAPSED) {
        return Err(SketchRefusal::Bytes("there is more than a sketch"));
    }
    sketch.count = counted(&sketch).ok_or(SketchRefusal::Count)?;
    if !is_plausible(&sketch) {
        return Err(SketchRefusal::Bytes("their minimum, maximum or sum does not fit to their buckets"));
    }
    Ok(sketch)
}

fn counted(sketch: &DDSketch) -> Option<u64> {
    let stores = [Some(&sketch.positive), sketch.negative.as_deref()];
    let counts = stores.into_iter().flatten().flat_map(Store::iter).map(|(_, count)| count);
    counts.chain([sketch.zeros]).try_fold(0_u64, u64::checked_add)
}

/// Whether minimum and maximum fit the buckets.
fn is_plausible(sketch: &DDSketch) -> bool {
    if sketch.count == 0 {
        let empty = (sketch.sum, sketch.min, sketch.max) == (0.0, f64::INFINITY, f64::NEG_INFINITY);
        return empty && !sketch.has_collapsed();
    }
    let negative = sketch.negative.as_deref();
    let end = |store: Option<&Store>, highest: bool| {
        let store = store?;
        let index = if highest { store.high() } else { store.iter().next().map(|(index, _)| index) }?;
        Some((index, store.collapsed() && !highest))
    };
    let max = end(Some(&sketch.positive), true)
        .map(|end| (1.0, end))
        .or((sketch.zeros == 0).then(|| end(negative, false)).flatten().map(|end| (-1.0, end)));
    let min = end(negative, true)
        .map(|end| (-1.0, end))
        .or((sketch.zeros == 0).then(|| end(Some(&sketch.positive), false)).flatten().map(|end| (1.0, end)));
    sketch.min <= sketch.max
        && !sketch.sum.is_nan()
        && fits(sketch.mapping, sketch.min, min)
        && fits(sketch.mapping, sketch.max, max)
}

/// Whether an extreme value has this sign and bucket, or a lower bucket if it may have collapsed. `None` stands for
/// zero.
fn fits(mapping: &Mapping, value: f64, wanted: Option<(f64, (i32, bool))>) -> bool {
    let Some((sign, (bucket, may_be_lower))) = wanted else { return value == 0.0 };
    let magnitude = value * sign;
    if !(magnitude > 0.0 && magnitude.is_finite()) {
        return false;
    }
    let index = mapping.index(magnitude);
    index == bucket || (may_be_lower && index < bucket)
}

/// Takes a sketch's parts off the front of bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SketchRefusal> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn float(&mut self) -> Result<f64, SketchRefusal> {
        self.take().map(f64::from_le_bytes)
    }

    fn number(&mut self) -> Result<u64, SketchRefusal> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(SketchRefusal::Bytes("a number is too large"))
    }

    fn store(&mut self, bound: u32, collapsed: bool) -> Result<Store, SketchRefusal> {
        const ORDER: SketchRefusal = SketchRefusal::Bytes("their buckets are not in order, or too many");
        let many = self.number()?;
        if many > u64::from(bound) || many > self.0.len() as u64 || (collapsed && many == 0) {
            return Err(ORDER);
        }
        let mut entries: Vec<(i32, u64)> = Vec::with_capacity(many as usize);
        let mut before = 0_i32;
        for place in 0..many {
            let zigzag = u32::try_from(self.number()?).map_err(|_| ORDER)?;
            let distance = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
            let index = before.checked_add(distance).filter(|index| index.unsigned_abs() < 1 << 27).ok_or(ORDER)?;
            let count = self.number()?;
            if (place > 0 && distance <= 0) || count == 0 {
                return Err(ORDER);
            }
            entries.push((index, count));
            before = index;
        }
        match (entries.first(), entries.last()) {
            (Some((low, _)), Some((high, _))) if *low < lowest(*high, bound) => Err(ORDER),
            _ => Ok(Store::from_sorted(entries, collapsed)),
        }
    }
}

fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Returns the FNV-1a hash of 32 bits.
fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
