//! Single steps; that the results are those of a plain model is tested from Python.

use super::aggregate::{AggregateFunction, Output};
use super::group_table::GroupTable;
use super::key_column::BlockKeys;
use super::*;
use crate::columns::column::{Column, Text, Validity, Values};
use crate::columns::validity_bitmap::Bits;
use std::borrow::Cow;

fn request(max_groups: Option<usize>) -> GroupByRequest {
    let aggregates = vec![
        ("total".into(), AggregateFunction::Sum, "n".into()),
        ("rows".into(), AggregateFunction::Count, "rows".into()),
        ("sizes".into(), AggregateFunction::Sketch, "n".into()),
    ];
    GroupByRequest { keys: vec!["key".into()], aggregates, max_groups, sketch: DDSketch::default() }
}

fn ints(values: &[i64]) -> Column<'_> {
    Column {
        kind: Type::of("l").expect("int64"),
        length: values.len(),
        values: Values::Ints(Cow::Borrowed(values)),
        validity: Validity::All,
    }
}

fn texts<'a>(ends: &'a [i32], bytes: &'a [u8]) -> Column<'a> {
    let text = Values::Texts(Text::Small { ends, bytes });
    Column { kind: Type::of("u").expect("a text"), length: ends.len() - 1, values: text, validity: Validity::All }
}

fn batch<'a>(key: Column<'a>, n: Column<'a>) -> RequestedColumns<'a> {
    RequestedColumns { rows: key.length, values: vec![Some(n.clone()), None, Some(n)], keys: vec![key] }
}

fn totals(groups: &GroupBy) -> Vec<i64> {
    match &groups.results().expect("there were batches").expect("sums fit")[0].1 {
        Output::Ints(values, _) => values.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn rows_of_equal_keys_are_one_group() {
    let mut groups = GroupBy::new(request(None));
    let added = groups.add(&[batch(texts(&[0, 1, 3, 4], b"abba"), ints(&[1, 2, 3]))]);
    assert_eq!((added, groups.len(), totals(&groups)), (Ok(()), 2, vec![4, 2]));
}

#[test]
fn a_batch_with_too_many_groups_is_not_added() {
    let mut groups = GroupBy::new(request(Some(2)));
    let one = batch(ints(&[7, 8, 7]), ints(&[1, 1, 1]));
    assert_eq!(groups.add(&[one.clone(), batch(ints(&[9]), ints(&[1]))]), Err(GroupByRefusal::TooManyGroups(2)));
    assert!(groups.is_empty() && groups.results().is_none());
    assert_eq!(groups.add(&[one]), Ok(()));
    assert_eq!(groups.add(&[batch(ints(&[8, 9]), ints(&[5, 5]))]), Err(GroupByRefusal::TooManyGroups(2)));
    assert_eq!((groups.len(), totals(&groups)), (2, vec![2, 1]));
    assert_eq!(groups.add(&[batch(ints(&[8]), ints(&[5]))]), Ok(()));
    assert_eq!(totals(&groups), [2, 6]);
}

#[test]
fn a_text_outside_of_its_bytes_is_refused() {
    let mut groups = GroupBy::new(request(None));
    for ends in [[0, 2, 9], [0, -1, 2], [2, 1, 2]] {
        let refused = groups.add(&[batch(texts(&ends, b"ab"), ints(&[1, 1]))]);
        assert!(matches!(refused, Err(GroupByRefusal::Text(..))), "{ends:?}");
        assert!(groups.is_empty());
    }
}

#[test]
fn a_missing_key_is_a_group_and_a_missing_value_is_none() {
    let mut groups = GroupBy::new(request(None));
    let mut key = ints(&[1, 0, 1, 99]);
    key.validity = Validity::Bits(Bits::new(&[0b0001_0100], 2));
    let mut n = ints(&[1, 2, 4, 8]);
    n.validity = Validity::Bits(Bits::new(&[0b0000_1110], 0));
    assert_eq!(groups.add(&[batch(key, n)]), Ok(()));
    assert_eq!((groups.len(), totals(&groups)), (2, vec![4, 10]));
}

#[test]
fn sums_beyond_64_bits_are_kept_and_come_out_when_they_fit() {
    let mut groups = GroupBy::new(GroupByRequest {
        aggregates: vec![("total".into(), AggregateFunction::Sum, "n".into())],
        ..request(None)
    });
    let rows = |n: i64| RequestedColumns {
        rows: 1,
        keys: vec![ints(&[1])],
        values: vec![Some(Column { values: Values::Ints(vec![n].into()), ..ints(&[0]) })],
    };
    assert_eq!(groups.add(&[rows(i64::MAX), rows(1)]), Ok(()));
    assert_eq!(groups.results().expect("a batch").err(), Some(GroupByRefusal::Sum("total".into(), 1 << 63, 0)));
    assert_eq!(groups.add(&[rows(-1)]), Ok(()));
    assert_eq!(totals(&groups), [i64::MAX]);
}

#[test]
fn keys_of_one_hash_are_groups_of_their_own() {
    let word = Column {
        validity: Validity::Bits(Bits::new(&[0b1011_1111], 0)),
        ..texts(&[0, 1, 1, 2, 3, 3, 4, 4, 5], b"abbba")
    };
    let number = Column { validity: Validity::Bits(Bits::new(&[0b1111_0111], 0)), ..ints(&[1, 1, 1, 1, 1, 1, 1, 1]) };
    let blocks = |rows: std::ops::Range<usize>| {
        [&word, &number].map(|column| BlockKeys::of(column, rows.clone()).expect("the texts lie in their bytes"))
    };
    let mut keys = GroupKeys::new(&[word.kind.clone(), number.kind.clone()]);
    let mut groups = Vec::new();
    for rows in [0..3, 3..8] {
        let hashes = vec![7; rows.len()];
        assert_eq!(keys.number_block(&blocks(rows), &hashes, 7, &mut groups), Ok(()));
    }
    // ("a", 1), ("", 1), ("b", 1), ("b", NULL), ("", 1), ("b", 1), (NULL, 1), ("a", 1)
    assert_eq!((groups, keys.count()), (vec![0, 1, 2, 3, 1, 2, 4, 0], 5));

    keys.truncate(2);
    let mut again = Vec::new();
    assert_eq!(keys.number_block(&blocks(0..8), &[7; 8], 4, &mut again), Err(GroupByRefusal::TooManyGroups(4)));
    keys.truncate(2);
    again.clear();
    assert_eq!(keys.number_block(&blocks(2..8), &[7; 6], 5, &mut again), Ok(()));
    assert_eq!((again, keys.count()), (vec![2, 3, 1, 2, 4, 0], 5));
}

#[test]
fn the_table_finds_each_of_many_groups_and_no_forgotten_one() {
    let hash = |group: usize| (group as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut table = GroupTable::default();
    let check = |table: &GroupTable, groups: usize| {
        assert_eq!(table.len(), groups);
        for group in 0..60_000 {
            let found = table.find(hash(group), |_| true);
            assert_eq!(found, (group < groups).then_some(group as u32));
            let first = GroupTable::group_in(table.first_slot(hash(group)), hash(group));
            assert!(first.is_none() || first == found);
        }
    };
    (0..60_000).for_each(|group| table.push(hash(group)));
    check(&table, 60_000);
    table.truncate(100);
    check(&table, 100);
    (100..30_000).for_each(|group| table.push(hash(group)));
    check(&table, 30_000);
}
