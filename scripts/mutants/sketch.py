"""Faults in the sketch's arithmetic, `crates/drainq-core/src/sketch`."""

from __future__ import annotations

from .mutant import Mutant

SKETCH = "crates/drainq-core/src/sketch"
ACCURACY = "tests/sketch/test_accuracy.py::test_each_quantile_is_within_the_accuracy"
TESTS = "tests/sketch/test_sketch.py"

MUTANTS = [
    Mutant(
        "bucket_ignores_the_cut",
        "a value above the cut of its slot is counted in the bucket below",
        f"{SKETCH}/mapping.rs",
        "(bucket + u32::from(above)) as i32",
        "(bucket + u32::from(above && fraction == 0)) as i32",
        ACCURACY,
    ),
    Mutant(
        "bucket_ends_below",
        "the upper end of a bucket belongs to the next one",
        f"{SKETCH}/mapping.rs",
        "let before = magnitude.to_bits() - 1;",
        "let before = magnitude.to_bits();",
        f"{TESTS}::test_the_upper_end_of_a_bucket_belongs_to_the_bucket",
    ),
    Mutant(
        "subnormals_stay_lifted",
        "a subnormal number is counted as one that is 2^64 times as large",
        f"{SKETCH}/mapping.rs",
        "self.index(magnitude * power_of_two(LIFT)) - (LIFT << self.scale)",
        "self.index(magnitude * power_of_two(LIFT))",
        f"{TESTS}::test_an_exponential_histogram_has_every_value_in_its_bucket",
    ),
    Mutant(
        "bucket_answers_its_lower_end",
        "a bucket is answered with its lower end",
        f"{SKETCH}/mapping.rs",
        "lower * self.middle",
        "lower",
        ACCURACY,
    ),
    Mutant(
        "scale_is_too_coarse",
        "the buckets are wider than the accuracy allows",
        f"{SKETCH}/mapping.rs",
        "while base > widest {",
        "while base > widest * widest {",
        ACCURACY,
    ),
    Mutant(
        "collapsed_counts_vanish",
        "what is below the bound on buckets is not counted",
        f"{SKETCH}/store.rs",
        "Some(entry) if entry.0 == lowest => entry.1 += moved,",
        "Some(entry) if entry.0 == lowest => {}",
        f"{TESTS}::test_the_bound_on_buckets_is_used_whole",
    ),
    Mutant(
        "collapse_takes_one_too_many",
        "a bucket that has room is collapsed",
        f"{SKETCH}/store.rs",
        "(i64::from(high) - i64::from(limit) + 1)",
        "(i64::from(high) - i64::from(limit) + 2)",
        f"{TESTS}::test_the_bound_on_buckets_is_used_whole",
    ),
    Mutant(
        "collapse_is_silent",
        "a sketch that collapsed buckets says that it did not",
        f"{SKETCH}/store.rs",
        "self.collapsed |= index < lowest;",
        "let _ = lowest;",
        f"{TESTS}::test_what_collapses_is_the_smallest_and_the_sketch_says_so "
        f"{TESTS}::test_merging_is_associative_and_commutative",
    ),
    Mutant(
        "merge_collapses_to_nothing",
        "a merge loses what has to collapse",
        f"{SKETCH}/store.rs",
        "counts[(lowest - *first) as usize] += moved;",
        "let _ = moved;",
        f"{TESTS}::test_wide_sketches_merge_like_one_sketch_of_all",
    ),
    Mutant(
        "merge_is_shifted",
        "a merge counts in the bucket beside",
        f"{SKETCH}/store.rs",
        "let begin = from + below as i32;",
        "let begin = (from + below as i32 + 1).min(last);",
        f"{TESTS}::test_wide_sketches_merge_like_one_sketch_of_all",
    ),
    Mutant(
        "merge_forgets_negatives",
        "a merge leaves out the values below zero",
        f"{SKETCH}/mod.rs",
        "if let Some(negative) = &other.negative {",
        "if let Some(negative) = &other.negative && self.negative.is_some() {",
        f"{TESTS}::test_merging_is_associative_and_commutative",
    ),
    Mutant(
        "merge_forgets_zeros",
        "a merge leaves out the zeros",
        f"{SKETCH}/mod.rs",
        "self.zeros += other.zeros;",
        "",
        f"{TESTS}::test_merging_is_associative_and_commutative",
    ),
    Mutant(
        "negatives_ascend_by_magnitude",
        "the quantiles of negative values count from the wrong end",
        f"{SKETCH}/mod.rs",
        ".flat_map(|store| store.iter().rev())",
        ".flat_map(|store| store.iter())",
        ACCURACY,
    ),
    Mutant(
        "rank_is_off_by_one",
        "a quantile is answered with the value before",
        f"{SKETCH}/mod.rs",
        "below > rank",
        "below >= rank",
        f"{TESTS}::test_a_quantile_is_within_the_accuracy_of_the_exact_one",
    ),
    Mutant(
        "bytes_are_not_checked",
        "changed bytes pass for a sketch",
        f"{SKETCH}/bytes.rs",
        "if u32::from_le_bytes(*written) != check(&bytes[..bytes.len() - 4]) {",
        "if false && u32::from_le_bytes(*written) != check(&bytes[..bytes.len() - 4]) {",
        f"{TESTS}::test_bytes_that_changed_on_the_way_are_no_sketch",
    ),
    Mutant(
        "many_values_are_added_twice",
        "add_many adds what the sketch has seen before once more",
        "crates/drainq-py/src/sketch/mod.rs",
        "let added = values::sketch_of(empty, values)?;",
        "let added = values::sketch_of(self.copied(), values)?;",
        f"{TESTS}::test_threads_share_a_sketch",
    ),
]
