//! Compares the sketch with sorted values, and its mapping with the bounds of the mapping's invariants.

use super::mapping::{MAX_SCALE, MIN_ACCURACY, Mapping, scale_for};
use super::{DDSketch, SketchRefusal, bytes};
use proptest::prelude::*;

/// The error that rounding adds, relative to the value ([`super::mapping`], invariant 3).
const ROUNDING: f64 = 1e-15;

fn sketch_of(values: &[f64], accuracy: f64, max_buckets: u64) -> DDSketch {
    let mut sketch = DDSketch::new(accuracy, Some(max_buckets)).expect("valid settings");
    values.iter().for_each(|value| sketch.add(*value).expect("a finite value"));
    sketch
}

fn accuracy_of(scale: u8) -> f64 {
    let base = 2_f64.powf(0.5_f64.powi(scale.into()));
    (base - 1.0) / (base + 1.0)
}

fn normal() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::num::f64::POSITIVE | prop::num::f64::NORMAL,
        (-40..40_i32).prop_map(|exponent| 2_f64.powi(exponent)),
        0.001..1000.0_f64,
    ]
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -1e6..1e6_f64,
        4 => normal(),
        2 => normal().prop_map(|value| -value),
        1 => Just(0.0),
        1 => prop::num::f64::SUBNORMAL,
    ]
}

proptest! {
    #[test]
    fn the_value_of_a_bucket_is_within_the_accuracy_of_what_belongs_there(value in normal(), scale in 0..=MAX_SCALE) {
        let mapping = Mapping::of(scale);
        let found = mapping.value(mapping.index(value));
        prop_assert!((found - value).abs() <= value * (accuracy_of(scale) + ROUNDING), "{found} for {value}");
    }

    #[test]
    fn buckets_are_in_the_order_of_the_values(values in prop::array::uniform2(normal()), scale in 0..=MAX_SCALE) {
        let [low, high] = if values[0] <= values[1] { values } else { [values[1], values[0]] };
        let mapping = Mapping::of(scale);
        prop_assert!(mapping.index(low) <= mapping.index(high));
    }

    #[test]
    fn a_coarser_scale_has_whole_buckets_of_a_finer_one(value in any_value(), scale in 1..=MAX_SCALE) {
        prop_assume!(value != 0.0);
        let fine = Mapping::of(scale).index(value.abs());
        prop_assert_eq!(fine >> 1, Mapping::of(scale - 1).index(value.abs()));
    }

    #[test]
    fn an_accuracy_gets_the_coarsest_scale_that_keeps_it(accuracy in MIN_ACCURACY..0.999) {
        let scale = scale_for(accuracy).expect("in range");
        prop_assert!(accuracy_of(scale) <= accuracy * (1.0 + 1e-12));
        prop_assert!(scale == 0 || accuracy_of(scale - 1) > accuracy * (1.0 - 1e-12));
    }

    #[test]
    fn quantiles_are_within_the_accuracy(values in prop::collection::vec(any_value(), 1..200), q in 0.0..=1.0_f64) {
        let sketch = sketch_of(&values, 0.01, 1 << 20);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let exact = sorted[(q * (values.len() - 1) as f64) as usize];
        let found = sketch.quantile(q).expect("q is from 0 to 1").expect("there are values");
        // Subnormal numbers have too few bits for a relative error: theirs is one unit of the last place.
        prop_assert!((found - exact).abs() <= exact.abs() * 0.01 + f64::from_bits(1), "{found} for {exact}");
        prop_assert!(!sketch.has_collapsed());
    }

    #[test]
    fn merging_in_any_order_equals_one_sketch_of_all(
        parts in prop::collection::vec(prop::collection::vec(any_value(), 0..80), 1..5),
        max_buckets in prop_oneof![1..100_u64, Just(4096)],
        order in any::<prop::sample::Index>(),
    ) {
        let all: Vec<f64> = parts.concat();
        let whole = sketch_of(&all, 0.02, max_buckets);
        let mut backwards = all.clone();
        backwards.reverse();
        prop_assert_eq!(&whole, &sketch_of(&backwards, 0.02, max_buckets));

        let mut sketches: Vec<DDSketch> = parts.iter().map(|part| sketch_of(part, 0.02, max_buckets)).collect();
        let mut left = sketch_of(&[], 0.02, max_buckets);
        sketches.iter().for_each(|sketch| left.merge(sketch).expect("the same settings"));
        prop_assert_eq!(&whole, &left);

        let middle = order.index(sketches.len());
        sketches.rotate_left(middle);
        let right = sketches.into_iter().reduce(|one, mut other| {
            other.merge(&one).expect("the same settings");
            other
        });
        prop_assert_eq!(&whole, &right.expect("there is a part"));
    }

    #[test]
    fn the_largest_magnitudes_keep_the_guarantee_when_buckets_collapse(
        values in prop::collection::vec(1e-3..1e9_f64, 1..300),
        max_buckets in 2..200_u64,
    ) {
        let sketch = sketch_of(&values, 0.05, max_buckets);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let largest = sorted[sorted.len() - 1];
        let base = 2_f64.powf(0.5_f64.powi(sketch.scale().into()));
        let exact_from = largest / base.powi(max_buckets as i32 - 1) * (1.0 + 1e-9);
        let last = (values.len() - 1) as f64;
        for (rank, exact) in sorted.iter().enumerate() {
            let q = if last > 0.0 { (rank as f64 / last).next_up().min(1.0) } else { 0.0 };
            if (q * last) as usize == rank && *exact > exact_from {
                let found = sketch.quantile(q).expect("q is from 0 to 1").expect("there are values");
                prop_assert!((found - exact).abs() <= exact * 0.05, "{found} for {exact} of {largest}");
            }
        }
        prop_assert_eq!(sketch.exponential(sketch.scale().into()).expect("its own").positive.counts.iter().sum::<u64>(), values.len() as u64);
        prop_assert!(sketch.positive.iter().count() as u64 <= max_buckets);
    }

    #[test]
    fn bytes_come_back_equal(values in prop::collection::vec(any_value(), 0..200), max_buckets in 1..300_u64) {
        let sketch = sketch_of(&values, 0.03, max_buckets);
        let encoded = bytes::encode(&sketch);
        let decoded = bytes::decode(&encoded).expect("they are of a sketch");
        prop_assert_eq!(&decoded, &sketch);
        prop_assert_eq!(decoded.sum(), sketch.sum());
        prop_assert_eq!(bytes::encode(&decoded), encoded);
    }

    #[test]
    fn a_changed_byte_is_noticed(
        values in prop::collection::vec(any_value(), 0..50),
        place in any::<prop::sample::Index>(),
        change in 1..=255_u8,
    ) {
        let mut encoded = bytes::encode(&sketch_of(&values, 0.01, 4096));
        let place = place.index(encoded.len());
        encoded[place] ^= change;
        prop_assert!(matches!(bytes::decode(&encoded), Err(SketchRefusal::Bytes(_))));
        encoded[place] ^= change;
        prop_assert!(matches!(bytes::decode(&encoded[..place]), Err(SketchRefusal::Bytes(_))));
    }

    /// Such bytes, whose check fits, may come from a program with a bug, or from a hostile one.
    #[test]
    fn forged_bytes_are_a_sketch_that_works_or_refused(
        values in prop::collection::vec(any_value(), 0..20),
        forged in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut encoded = bytes::encode(&sketch_of(&values, 0.01, 4096));
        encoded.truncate(encoded.len() - 4);
        for (place, byte) in forged {
            let place = place.index(encoded.len());
            encoded[place] = byte;
        }
        let check = encoded.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        encoded.extend(check.to_le_bytes());
        if let Ok(sketch) = bytes::decode(&encoded) {
            for q in [0.0, 0.3, 0.5, 1.0] {
                if let Some(found) = sketch.quantile(q).expect("q is from 0 to 1") {
                    prop_assert!(sketch.min().expect("a value") <= found && found <= sketch.max().expect("a value"));
                }
            }
            prop_assert_eq!(bytes::decode(&bytes::encode(&sketch)), Ok(sketch));
        }
    }
}

#[test]
fn the_upper_end_of_a_bucket_belongs_to_the_bucket() {
    for scale in 0..=MAX_SCALE {
        let mapping = Mapping::of(scale);
        for exponent in [-1040, -1022, -3, 0, 1, 7, 1023] {
            let power = 2_f64.powf(exponent.into());
            assert_eq!(mapping.index(power), (exponent << scale) - 1, "2^{exponent} at scale {scale}");
            assert_eq!(mapping.index(power.next_up()), exponent << scale);
        }
    }
}

#[test]
fn every_cut_separates_its_buckets() {
    for scale in [1, 6, 9] {
        let mapping = Mapping::of(scale);
        for index in 0..1 << scale {
            let cut = 2_f64.powf(f64::from(index) / f64::from(1 << scale));
            // `powf` may be wrong in the last bit.
            assert_eq!(mapping.index(cut * (1.0 + 4.0 * f64::EPSILON)), index, "above cut {index} at scale {scale}");
            assert_eq!(mapping.index(cut * (1.0 - 4.0 * f64::EPSILON)), index - 1, "below it");
        }
    }
}

#[test]
fn the_ends_of_the_number_line_have_buckets() {
    let values = [f64::MAX, -f64::MAX, f64::from_bits(1), -f64::from_bits(1), 0.0, -0.0];
    let sketch = sketch_of(&values, 0.01, 1 << 20);
    assert_eq!((sketch.min(), sketch.max(), sketch.count()), (Some(-f64::MAX), Some(f64::MAX), 6));
    assert_eq!(sketch.quantile(0.5), Ok(Some(0.0)));
    assert_eq!(sketch.sum(), 0.0);
    let two = sketch_of(&[f64::MAX, f64::MAX, 1.0], 0.01, 4096);
    assert_eq!(two.sum(), f64::INFINITY);
    assert_eq!(bytes::decode(&bytes::encode(&two)), Ok(two));
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut sketch = sketch_of(&[1.0, 2.0], 0.01, 4096);
    let before = sketch.clone();
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(matches!(sketch.add(value), Err(SketchRefusal::Value(_))));
    }
    assert_eq!(sketch.add_times(1.0, u64::MAX), Err(SketchRefusal::Count));
    assert!(matches!(sketch.merge(&sketch_of(&[1.0], 0.02, 4096)), Err(SketchRefusal::Settings(..))));
    assert_eq!(sketch.add_times(5.0, 0), Ok(()));
    assert_eq!(sketch.quantile(1.5), Err(SketchRefusal::Quantile(1.5)));
    assert_eq!((&sketch, sketch.sum()), (&before, 3.0));
    assert_eq!(DDSketch::new(1e-6, None).err(), Some(SketchRefusal::Accuracy(1e-6)));
    assert_eq!(DDSketch::new(0.1, Some(0)).err(), Some(SketchRefusal::MaxBuckets(0)));
}

#[test]
fn bytes_of_totals_that_cannot_be_are_refused() {
    let sound = sketch_of(&[1.0, 1.001, 8.0, -3.0], 0.01, 4096);
    assert_eq!(bytes::decode(&bytes::encode(&sound)).as_ref(), Ok(&sound));
    let wrong: [fn(&mut DDSketch); 7] = [
        |sketch| sketch.max = 16.0,
        |sketch| sketch.max = f64::NAN,
        |sketch| sketch.min = 1.0,
        |sketch| sketch.min = -3.5,
        |sketch| sketch.sum = f64::NAN,
        |sketch| sketch.negative = None,
        |sketch| (sketch.min, sketch.max, sketch.negative) = (1.001, 1.0, None),
    ];
    for change in wrong {
        let mut changed = sound.clone();
        change(&mut changed);
        assert!(matches!(bytes::decode(&bytes::encode(&changed)), Err(SketchRefusal::Bytes(_))));
    }
    let mut one = sketch_of(&[5.0], 0.01, 4096);
    (one.min, one.max) = (5.001, 5.0);
    assert!(matches!(bytes::decode(&bytes::encode(&one)), Err(SketchRefusal::Bytes(_))), "minimum above the maximum");
}

#[test]
fn a_percentile_has_the_nearest_rank() {
    for count in 1..=120_u64 {
        let values: Vec<f64> = (1..=count).map(|value| value as f64).collect();
        let sketch = sketch_of(&values, 0.01, 4096);
        for percent in [0, 1, 50, 90, 99, 100] {
            let rank = (count * u64::from(percent)).div_ceil(100).max(1);
            let found = sketch.percentile(percent).expect("values");
            assert!((found - rank as f64).abs() <= 0.01 * rank as f64, "p{percent} of {count}: {found}");
        }
    }
    assert_eq!(sketch_of(&[], 0.01, 4096).percentile(50), None);
}
