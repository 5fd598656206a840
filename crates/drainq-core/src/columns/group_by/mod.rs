//! Aggregates by key over columns: SQL's `GROUP BY`, fed batch by batch.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`keys`] | the keys of all groups, and the number of the group of each row |
//! | `key_column` | one key of all groups, and of some rows |
//! | `group_table` | the table that finds a group by the hash of its keys |
//! | [`aggregate`] | the values of all groups, for one aggregate |
//! | `request`, `refusal` | what is asked for; why a batch was refused |
//!
//! A batch is read in two steps: the keys of its rows give each row the number of its group; then each aggregate
//! goes down its column.
//!
//! # Invariants
//! 1. All key columns and all aggregates have a place for each group; groups are numbered in the order of their first row.
//! 2. Rows are of one group if all of their keys are equal; two missing keys (NULL) are equal, as in SQL's `GROUP BY`.
//! 3. Everything that can be refused is refused in the first step, which is undone then: a call that is refused has
//!    changed nothing.
//! 4. Sums of whole numbers are exact: what 64 bits do not hold is kept apart, in 128 bits. So the order of the batches does
//!    not matter, and a sum that is too large on its way may come back.

pub mod aggregate;
mod group_table;
mod key_column;
pub mod keys;
mod refusal;
mod request;
#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests;

pub use refusal::GroupByRefusal;
pub use request::{GroupByRequest, RequestedColumns};

use super::column::{Kind, Type};
use crate::sketch::DDSketch;
use aggregate::{Aggregate, Source};
use keys::GroupKeys;

/// Groups and their aggregates.
#[derive(Clone)]
pub struct GroupBy {
    request: GroupByRequest,
    keys: GroupKeys,
    aggregates: Vec<Aggregate>,
    /// The types of the keys, and of the aggregates; None before the first batch.
    types: Option<(Vec<Type>, Vec<Type>)>,
    /// For each aggregate whether the rows have its column, once rows were added.
    present: Option<Vec<bool>>,
}

/// What the first step found out about a batch.
struct Numbered {
    /// For each row its group.
    groups: Vec<u32>,
    /// For each aggregate the sketches of a partial result.
    sketches: Vec<Vec<Option<DDSketch>>>,
}

impl GroupBy {
    /// No group yet.
    pub fn new(request: GroupByRequest) -> Self {
        Self { request, keys: GroupKeys::default(), aggregates: Vec::new(), types: None, present: None }
    }

    /// What was asked for.
    pub fn request(&self) -> &GroupByRequest {
        &self.request
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.keys.count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.count() == 0
    }

    /// No group, for batches of the same columns.
    pub fn emptied(&self) -> Self {
        let mut empty = Self::new(self.request.clone());
        empty.present = self.present.clone();
        if let Some((keys, values)) = &self.types {
            empty.start(keys.clone(), values.clone());
        }
        empty
    }

    fn start(&mut self, keys: Vec<Type>, values: Vec<Type>) {
        self.keys = GroupKeys::new(&keys);
        let functions = self.request.aggregates.iter().map(|(_, function, _)| *function);
        self.aggregates = functions.zip(&values).map(|(function, kind)| Aggregate::new(function, kind)).collect();
        self.types = Some((keys, values));
    }

    /// Adds the rows of batches, all of them or none.
    pub fn add(&mut self, batches: &[RequestedColumns<'_>]) -> Result<(), GroupByRefusal> {
        self.take_in(batches, Source::Rows)
    }

    /// Adds partial results, which have the columns of [`GroupBy`]'s own results; all of them or none.
    pub fn merge(&mut self, partials: &[RequestedColumns<'_>]) -> Result<(), GroupByRefusal> {
        self.take_in(partials, Source::Partial)
    }

    fn take_in(&mut self, batches: &[RequestedColumns<'_>], source: Source) -> Result<(), GroupByRefusal> {
        let before = (self.len(), self.types.is_some(), self.present.clone());
        let numbered = self.number_rows(batches, source).inspect_err(|_| {
            let (groups, was_started, present) = before;
            self.keys.truncate(groups);
            self.present = present;
            if !was_started {
                (self.types, self.keys, self.aggregates) = (None, GroupKeys::default(), Vec::new());
            }
        })?;
        let groups = self.len();
        self.aggregates.iter_mut().for_each(|aggregate| aggregate.resize(groups, &self.request.sketch));
        for (batch, Numbered { groups, sketches }) in batches.iter().zip(numbered) {
            for ((aggregate, column), sketches) in self.aggregates.iter_mut().zip(&batch.values).zip(sketches) {
                aggregate.add(column.as_ref(), &groups, source, sketches);
            }
        }
        Ok(())
    }

    /// The first step: checks everything, and numbers the rows' groups.
    fn number_rows(
        &mut self,
        batches: &[RequestedColumns<'_>],
        source: Source,
    ) -> Result<Vec<Numbered>, GroupByRefusal> {
        let mut numbered = Vec::with_capacity(batches.len());
        for batch in batches {
            self.check_types(batch, source)?;
            let mut sketches = Vec::with_capacity(batch.values.len());
            for ((name, function, column), values) in self.request.aggregates.iter().zip(&batch.values) {
                let label = if source == Source::Rows { column } else { name };
                sketches.push(aggregate::checked(label, *function, values.as_ref(), source, &self.request.sketch)?);
            }
            numbered.push(Numbered { groups: Vec::with_capacity(batch.rows), sketches });
        }
        for (batch, numbered) in batches.iter().zip(&mut numbered) {
            self.keys.number(batch, &self.request, &mut numbered.groups)?;
        }
        for (place, (aggregate, (name, ..))) in self.aggregates.iter().zip(&self.request.aggregates).enumerate() {
            let more =
                numbered.iter().map(|numbered| (numbered.groups.as_slice(), numbered.sketches[place].as_slice()));
            aggregate.check_counts(name, self.keys.count(), more)?;
        }
        Ok(numbered)
    }

    /// Compares the types of a batch with those of the batches before.
    fn check_types(&mut self, batch: &RequestedColumns<'_>, source: Source) -> Result<(), GroupByRefusal> {
        let keys: Vec<Type> = batch.keys.iter().map(|column| column.kind.clone()).collect();
        let mut values = Vec::with_capacity(batch.values.len());
        let mut labels = Vec::with_capacity(batch.values.len());
        for ((name, function, column), values_of) in self.request.aggregates.iter().zip(&batch.values) {
            let label = if source == Source::Rows { column } else { name };
            let kind = values_of.as_ref().map(|values| &values.kind);
            values.push(aggregate::type_for(label, *function, kind, source)?);
            labels.push(label);
        }
        if let Some((keys_before, values_before)) = &self.types {
            let names = self.request.keys.iter().chain(labels);
            let (before, now) = (keys_before.iter().chain(values_before), keys.iter().chain(&values));
            for ((name, before), now) in names.zip(before).zip(now) {
                if before != now {
                    return Err(GroupByRefusal::TypeChanged(name.clone(), now.name(), before.name()));
                }
            }
        } else {
            for (name, kind) in self.request.keys.iter().zip(&keys) {
                if matches!(kind.kind, Kind::Float { .. }) {
                    let why = "keys are whole numbers, texts, days and times, because equal floats may look different";
                    return Err(GroupByRefusal::Type(name.clone(), kind.name(), why));
                }
            }
            self.start(keys, values);
        }
        if source == Source::Rows {
            let present: Vec<bool> = batch.values.iter().map(Option::is_some).collect();
            let before = self.present.get_or_insert_with(|| present.clone());
            if let Some(place) = (0..present.len()).find(|place| before[*place] != present[*place]) {
                return Err(GroupByRefusal::Presence(self.request.aggregates[place].2.clone()));
            }
        }
        Ok(())
    }

    /// The keys of all groups by column, with their types; None before the first batch.
    pub fn keys(&self) -> Option<impl Iterator<Item = (&Type, &keys::KeyColumn)>> {
        let (types, _) = self.types.as_ref()?;
        Some(types.iter().zip(self.keys.columns()))
    }

    /// The aggregates of all groups with their types; None before the first batch.
    pub fn results(&self) -> Option<Result<Vec<(Type, aggregate::Output)>, GroupByRefusal>> {
        let (_, types) = self.types.as_ref()?;
        let named = self.request.aggregates.iter().zip(types).zip(&self.aggregates);
        Some(named.map(|(((name, ..), kind), aggregate)| Ok((kind.clone(), aggregate.output(name)?))).collect())
    }
}
