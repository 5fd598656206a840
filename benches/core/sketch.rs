//! The cost of a value in a sketch, and of a merge.

use crate::protocol::{Contestant, Figure, Goal, Report, rounds};
use drainq_core::sketch::{DDSketch, bytes};
use sketches_ddsketch::{Config, DDSketch as Other};
use std::borrow::Borrow;
use std::hint::black_box;
use std::time::Instant;

const ACCURACY: f64 = 0.01;
const MERGED: usize = 100;

pub fn run(report: &mut Report) {
    let count = report.options().rounds;
    let values = latencies(report.options().items(1_000_000));
    if report.wants("sketch", "add") {
        let mut contestants: Vec<Contestant<'_>> = vec![
            ("drainq DDSketch", Box::new(|| per_item(values.len(), || drop(black_box(ours(&values)))))),
            ("sketches-ddsketch", Box::new(|| per_item(values.len(), || drop(black_box(theirs(&values)))))),
        ];
        let goals = [
            Goal::at_most("drainq DDSketch", 20.0, 10.0),
            Goal::times("drainq DDSketch", "sketches-ddsketch", 1.0, 0.5),
        ];
        let note = "a million lognormal latencies, relative accuracy 0.01";
        report.add(Figure::new("sketch: add", "ns/item", rounds(count, &mut contestants), &goals, note));
    }
    if report.wants("sketch", "merge") {
        let parts: Vec<_> = values.chunks(values.len() / MERGED).map(ours).collect();
        let other_parts: Vec<_> = values.chunks(values.len() / MERGED).map(theirs).collect();
        let encoded: Vec<_> = parts.iter().map(bytes::encode).collect();
        let mut contestants: Vec<Contestant<'_>> = vec![
            ("drainq DDSketch", Box::new(|| per_item(parts.len(), || merged(&parts)))),
            (
                "drainq DDSketch, from bytes",
                Box::new(|| {
                    let decoded = encoded.iter().map(|bytes| bytes::decode(bytes).expect("they are of a sketch"));
                    per_item(encoded.len(), || merged(decoded))
                }),
            ),
            ("sketches-ddsketch", Box::new(|| per_item(parts.len(), || others_merged(&other_parts)))),
        ];
        let goals = [Goal::times("drainq DDSketch", "sketches-ddsketch", 1.0, 0.5)];
        let note = "a hundred sketches into one; a part has the latencies of 10,000 requests";
        report.add(Figure::new("sketch: merge", "ns/item", rounds(count, &mut contestants), &goals, note));
    }
}

/// Lognormal seconds around 50 milliseconds, by Box and Muller from a linear congruential generator.
fn latencies(count: usize) -> Vec<f64> {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let normal = |one: f64, two: f64| (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos();
    (0..count).map(|_| (-3.0 + 1.2 * normal(uniform(), uniform())).exp()).collect()
}

fn per_item(items: usize, work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_nanos() as f64 / items as f64
}

fn ours(values: &[f64]) -> DDSketch {
    let mut sketch = DDSketch::new(ACCURACY, None).expect("a valid accuracy");
    values.iter().for_each(|value| sketch.add(*value).expect("a finite value"));
    sketch
}

fn theirs(values: &[f64]) -> Other {
    let mut sketch = Other::new(Config::new(ACCURACY, 2048, 1e-9));
    values.iter().for_each(|value| sketch.add(*value));
    sketch
}

fn merged(parts: impl IntoIterator<Item = impl Borrow<DDSketch>>) {
    let mut whole = DDSketch::new(ACCURACY, None).expect("a valid accuracy");
    parts.into_iter().for_each(|part| whole.merge(part.borrow()).expect("the same settings"));
    black_box(whole);
}

fn others_merged(parts: &[Other]) {
    let mut whole = Other::new(Config::new(ACCURACY, 2048, 1e-9));
    parts.iter().for_each(|part| whole.merge(part).expect("the same settings"));
    black_box(whole);
}
