//! The append-only table: a thread that sees the length sees the element.

use super::{Met, Plain, Race};
use crate::append_only_table::Table;
use crate::sync::{Arc, deep_model, thread};

#[test]
fn a_reader_of_the_length_sees_the_element() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let table = Arc::new(Table::new());
        let race = Arc::new(Race::default());
        let writer = {
            let (table, race) = (table.clone(), race.clone());
            thread::spawn(move || {
                for value in [7, 8] {
                    race.step();
                    table.push_with(|index| Plain::new(value + index as u32));
                }
            })
        };
        race.step();
        let length = table.len();
        note.note(["empty", "one", "two"][length]);
        for index in 0..length {
            assert_eq!(table.get(index).expect("below len").get(), 7 + 2 * index as u32);
        }
        writer.join().unwrap();
        assert!(table.iter().map(Plain::get).eq([7, 9]));
    });
    met.exactly(&["empty", "one", "two"]);
}

#[test]
fn two_that_append_get_an_index_each() {
    deep_model(|| {
        let table = Arc::new(Table::new());
        let other = {
            let table = table.clone();
            thread::spawn(move || table.push_with(|_| Plain::new(1)))
        };
        let mine = table.push_with(|_| Plain::new(2));
        let theirs = other.join().unwrap();
        assert_eq!(mine + theirs, 1, "indices 0 and 1");
        assert_eq!((table.get(theirs).map(Plain::get), table.get(mine).map(Plain::get)), (Some(1), Some(2)));
    });
}
