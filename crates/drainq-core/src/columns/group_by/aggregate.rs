//! The values of all groups, for one aggregate.
//!
//! Missing values (NULL) are left out, as in SQL: the sum, minimum and maximum of none is missing, the count of
//! none is 0, the sketch of none is empty.

use super::refusal::GroupByRefusal;
use crate::columns::column::{Column, Kind, Type, Validity, Values};
use crate::columns::reserve::reserve;
use crate::columns::validity_bitmap::ValidityBitmap;
use crate::sketch::{self, DDSketch};
use crate::sync::plain::Arc;
use hashbrown::HashMap;

/// What an addition beyond 64 bits leaves out.
const BEYOND: i128 = 1 << 64;

/// What becomes of the values of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// Their sum.
    Sum,
    /// How many there are.
    Count,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Their sketch.
    Sketch,
}

/// Where a batch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The values are those of rows.
    Rows,
    /// The values are results of groups.
    Partial,
}

/// The type that the results of a function have, for a column of this type.
pub fn type_for(
    name: &str,
    function: AggregateFunction,
    kind: Option<&Type>,
    source: Source,
) -> Result<Type, GroupByRefusal> {
    let of = |format: &str| Type::of(format).expect("a format of ours");
    let Some(kind) = kind else {
        return match function {
            AggregateFunction::Count if source == Source::Rows => Ok(of("l")),
            _ => Err(GroupByRefusal::Presence(name.to_owned())),
        };
    };
    let refused = |why| Err(GroupByRefusal::Type(name.to_owned(), kind.name(), why));
    match (function, kind.kind) {
        (AggregateFunction::Sum, Kind::Int { number: true, unsigned, .. }) => Ok(of(if unsigned { "L" } else { "l" })),
        (AggregateFunction::Sum, Kind::Float { .. }) => Ok(of("g")),
        (AggregateFunction::Sum, _) => refused("a sum is of numbers"),
        (AggregateFunction::Min | AggregateFunction::Max, Kind::Text) => {
            refused("a minimum or maximum is of numbers, days or times")
        }
        (AggregateFunction::Min | AggregateFunction::Max, _) => Ok(kind.clone()),
        (AggregateFunction::Count, Kind::Int { width: 8, number: true, .. }) => Ok(of("l")),
        (AggregateFunction::Count, _) if source == Source::Rows => Ok(of("l")),
        (AggregateFunction::Count, _) => refused("the counts of a partial result are int64"),
        (AggregateFunction::Sketch, Kind::Text) if source == Source::Partial => Ok(of("z")),
        (AggregateFunction::Sketch, Kind::Int { number: true, .. } | Kind::Float { .. }) if source == Source::Rows => {
            Ok(of("z"))
        }
        (AggregateFunction::Sketch, _) if source == Source::Partial => {
            refused("the sketches of a partial result are bytes")
        }
        (AggregateFunction::Sketch, _) => refused("a sketch is of numbers"),
    }
}

/// Checks the values of a column; returns the sketches of a partial result.
pub fn checked(
    name: &str,
    function: AggregateFunction,
    column: Option<&Column<'_>>,
    source: Source,
    empty: &DDSketch,
) -> Result<Vec<Option<DDSketch>>, GroupByRefusal> {
    let Some(column) = column else { return Ok(Vec::new()) };
    let rows = || (0..column.length).filter(|row| column.validity.get(*row));
    let refused = |refusal| GroupByRefusal::Sketch(name.to_owned(), refusal);
    match (function, source, &column.values) {
        (AggregateFunction::Sketch, Source::Rows, Values::Floats(values)) => {
            match rows().find(|row| !values[*row].is_finite()) {
                Some(row) => Err(refused(sketch::SketchRefusal::Value(values[row]))),
                None => Ok(Vec::new()),
            }
        }
        (AggregateFunction::Sketch, Source::Partial, Values::Texts(text)) => {
            let mut sketches = vec![None; column.length];
            for row in rows() {
                let bytes = text.get(row).ok_or_else(|| GroupByRefusal::Text(name.to_owned(), row))?;
                let sketch = sketch::bytes::decode(bytes).map_err(refused)?;
                if sketch.settings() != empty.settings() {
                    return Err(refused(sketch::SketchRefusal::Settings(empty.settings(), sketch.settings())));
                }
                sketches[row] = Some(sketch);
            }
            Ok(sketches)
        }
        (AggregateFunction::Count, Source::Partial, Values::Ints(values)) => {
            match rows().find(|row| values[*row] < 0) {
                Some(row) => Err(GroupByRefusal::Count(name.to_owned(), values[row])),
                None => Ok(Vec::new()),
            }
        }
        _ => Ok(Vec::new()),
    }
}

/// The values of all groups.
#[derive(Clone, Debug)]
pub enum Aggregate {
    /// Sums and counts of whole numbers.
    IntSums {
        /// By group, as far as 64 bits hold them.
        sums: Arc<Vec<i64>>,
        /// For groups whose sum went beyond that: the rest, a multiple of 2^64.
        rests: HashMap<u32, i128>,
        /// Which groups have had a value; None: they count, and 0 is a result.
        seen: Option<Vec<bool>>,
        /// Whether the values have no sign.
        unsigned: bool,
    },
    /// Sums of floats.
    FloatSums {
        /// By group.
        sums: Arc<Vec<f64>>,
        /// Which groups have had a value.
        seen: Vec<bool>,
    },
    /// Smallest or largest whole numbers, days or times.
    IntBest {
        /// By group.
        values: Arc<Vec<i64>>,
        /// Which groups have had a value.
        seen: Vec<bool>,
        /// Whether the largest is wanted.
        largest: bool,
        /// Whether the values have no sign.
        unsigned: bool,
    },
    /// Smallest or largest floats; NaN only where there is nothing else.
    FloatBest {
        /// By group.
        values: Arc<Vec<f64>>,
        /// Which groups have had a value.
        seen: Vec<bool>,
        /// Whether the largest is wanted.
        largest: bool,
    },
    /// Sketches.
    Sketches(Vec<DDSketch>),
}

/// The results of all groups.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Whole numbers.
    Ints(Arc<Vec<i64>>, ValidityBitmap),
    /// Floats.
    Floats(Arc<Vec<f64>>, ValidityBitmap),
    /// Bytes: where each result ends, after a 0, and all of them.
    Bytes(Vec<usize>, Arc<Vec<u8>>),
}

impl Aggregate {
    /// For no group yet.
    pub fn new(function: AggregateFunction, kind: &Type) -> Self {
        let unsigned = matches!(kind.kind, Kind::Int { unsigned: true, .. });
        let is_float = matches!(kind.kind, Kind::Float { .. });
        let largest = function == AggregateFunction::Max;
        match function {
            AggregateFunction::Count => {
                Self::IntSums { sums: Arc::default(), rests: HashMap::default(), seen: None, unsigned: false }
            }
            AggregateFunction::Sum if is_float => Self::FloatSums { sums: Arc::default(), seen: Vec::new() },
            AggregateFunction::Sum => {
                Self::IntSums { sums: Arc::default(), rests: HashMap::default(), seen: Some(Vec::new()), unsigned }
            }
            AggregateFunction::Min | AggregateFunction::Max if is_float => {
                Self::FloatBest { values: Arc::default(), seen: Vec::new(), largest }
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                Self::IntBest { values: Arc::default(), seen: Vec::new(), largest, unsigned }
            }
            AggregateFunction::Sketch => Self::Sketches(Vec::new()),
        }
    }

    /// Makes places for more groups.
    pub fn resize(&mut self, groups: usize, empty: &DDSketch) {
        match self {
            Self::IntSums { sums, seen, .. } => {
                lengthen(Arc::make_mut(sums), groups, 0);
                seen.iter_mut().for_each(|seen| lengthen(seen, groups, false));
            }
            Self::FloatSums { sums: values, seen } | Self::FloatBest { values, seen, .. } => {
                lengthen(Arc::make_mut(values), groups, 0.0);
                lengthen(seen, groups, false);
            }
            Self::IntBest { values, seen, .. } => {
                lengthen(Arc::make_mut(values), groups, 0);
                lengthen(seen, groups, false);
            }
            Self::Sketches(sketches) => sketches.resize(groups, empty.clone()),
        }
    }

    /// Whether the sketches of partial results have room in the counts of their groups.
    pub fn check_counts<'a>(
        &self,
        name: &str,
        groups: usize,
        more: impl Iterator<Item = (&'a [u32], &'a [Option<DDSketch>])>,
    ) -> Result<(), GroupByRefusal> {
        let Self::Sketches(sketches) = self else { return Ok(()) };
        let mut counts: Vec<u64> = Vec::new();
        for (numbers, added) in more {
            for (group, added) in numbers.iter().zip(added) {
                if counts.is_empty() {
                    counts = sketches.iter().map(DDSketch::count).collect();
                    counts.resize(groups, 0);
                }
                let count = &mut counts[*group as usize];
                let whole = count.checked_add(added.as_ref().map_or(0, DDSketch::count));
                *count = whole.ok_or_else(|| GroupByRefusal::Sketch(name.to_owned(), sketch::SketchRefusal::Count))?;
            }
        }
        Ok(())
    }

    /// Goes down a column that was checked, with the group of each row.
    pub fn add(&mut self, column: Option<&Column<'_>>, groups: &[u32], source: Source, decoded: Vec<Option<DDSketch>>) {
        match (self, column.map(|column| (&column.values, &column.validity))) {
            (Self::IntSums { sums, seen: None, .. }, Some((_, validity))) if source == Source::Rows => {
                let sums = Arc::make_mut(sums);
                each(groups, validity, |_, group| sums[group] += 1);
            }
            (Self::IntSums { sums, seen: None, .. }, None) => {
                let sums = Arc::make_mut(sums);
                groups.iter().for_each(|group| sums[*group as usize] += 1);
            }
            (Self::IntSums { sums, rests, seen, unsigned }, Some((Values::Ints(values), validity))) => {
                let sums = Arc::make_mut(sums);
                if *unsigned {
                    each(groups, validity, |row, group| {
                        let (sum, beyond) = (sums[group] as u64).overflowing_add(values[row] as u64);
                        sums[group] = sum as i64;
                        if beyond {
                            *rests.entry(group as u32).or_default() += BEYOND;
                        }
                    });
                } else {
                    each(groups, validity, |row, group| {
                        let (sum, beyond) = sums[group].overflowing_add(values[row]);
                        sums[group] = sum;
                        if beyond {
                            *rests.entry(group as u32).or_default() += if values[row] < 0 { -BEYOND } else { BEYOND };
                        }
                    });
                }
                if let Some(seen) = seen {
                    each(groups, validity, |_, group| seen[group] = true);
                }
            }
            (Self::FloatSums { sums, seen }, Some((Values::Floats(values), validity))) => {
                let sums = Arc::make_mut(sums);
                each(groups, validity, |row, group| {
                    sums[group] += values[row];
                    seen[group] = true;
                });
            }
            (Self::IntBest { values: best, seen, largest, unsigned }, Some((Values::Ints(values), validity))) => {
                // The order of numbers without a sign is that of numbers with one, with the first bit turned over.
                let turned = if *unsigned { i64::MIN } else { 0 };
                let (best, largest) = (Arc::make_mut(best), *largest);
                each(groups, validity, |row, group| {
                    let (new, old) = (values[row] ^ turned, best[group] ^ turned);
                    if !seen[group] || (if largest { new > old } else { new < old }) {
                        (best[group], seen[group]) = (values[row], true);
                    }
                });
            }
            (Self::FloatBest { values: best, seen, largest }, Some((Values::Floats(values), validity))) => {
                let (best, largest) = (Arc::make_mut(best), *largest);
                each(groups, validity, |row, group| {
                    let (new, old) = (values[row], best[group]);
                    let better = if largest { new > old } else { new < old };
                    if !seen[group] || better || old.is_nan() {
                        (best[group], seen[group]) = (new, true);
                    }
                });
            }
            (Self::Sketches(sketches), _) if source == Source::Partial => {
                for (group, sketch) in groups.iter().zip(decoded) {
                    if let Some(sketch) = sketch {
                        sketches[*group as usize].merge(&sketch).expect("settings and counts were checked");
                    }
                }
            }
            (Self::Sketches(sketches), Some((Values::Floats(values), validity))) => {
                each(groups, validity, |row, group| add_to(&mut sketches[group], values[row]));
            }
            (Self::Sketches(sketches), Some((Values::Ints(values), validity))) => {
                let unsigned =
                    column.is_some_and(|column| matches!(column.kind.kind, Kind::Int { unsigned: true, .. }));
                each(groups, validity, |row, group| {
                    let value = if unsigned { values[row] as u64 as f64 } else { values[row] as f64 };
                    add_to(&mut sketches[group], value);
                });
            }
            _ => unreachable!("the types of a batch were compared before"),
        }
    }

    /// The results of all groups.
    pub fn output(&self, name: &str) -> Result<Output, GroupByRefusal> {
        let bitmap = |seen: &[bool]| {
            let mut valid = ValidityBitmap::with_capacity(seen.len());
            seen.iter().for_each(|seen| valid.push(*seen));
            valid
        };
        Ok(match self {
            Self::IntSums { sums, rests, seen, unsigned } => {
                let values = sums.clone();
                if let Some((group, rest)) = rests.iter().find(|(_, rest)| **rest != 0) {
                    let low = sums[*group as usize];
                    let low = if *unsigned { i128::from(low as u64) } else { i128::from(low) };
                    return Err(GroupByRefusal::Sum(name.to_owned(), low + rest, *group as usize));
                }
                let all = vec![true; if seen.is_none() { sums.len() } else { 0 }];
                Output::Ints(values, bitmap(seen.as_deref().unwrap_or(&all)))
            }
            Self::FloatSums { sums: values, seen } | Self::FloatBest { values, seen, .. } => {
                Output::Floats(values.clone(), bitmap(seen))
            }
            Self::IntBest { values, seen, .. } => Output::Ints(values.clone(), bitmap(seen)),
            Self::Sketches(sketches) => {
                let (mut ends, mut bytes) = (vec![0], Vec::new());
                for sketch in sketches {
                    bytes.extend(sketch::bytes::encode(sketch));
                    ends.push(bytes.len());
                }
                Output::Bytes(ends, Arc::new(bytes))
            }
        })
    }
}

fn lengthen<T: Clone>(values: &mut Vec<T>, groups: usize, empty: T) {
    reserve(values, groups - values.len());
    values.resize(groups, empty);
}

/// Calls `work` with each row that has a value, and the row's group.
#[inline]
fn each(groups: &[u32], validity: &Validity<'_>, mut work: impl FnMut(usize, usize)) {
    match validity {
        Validity::All => groups.iter().enumerate().for_each(|(row, group)| work(row, *group as usize)),
        _ => {
            for (row, group) in groups.iter().enumerate() {
                if validity.get(row) {
                    work(row, *group as usize);
                }
            }
        }
    }
}

#[inline]
fn add_to(sketch: &mut DDSketch, value: f64) {
    sketch.add(value).expect("the value is finite, and memory holds fewer rows than can be counted");
}
