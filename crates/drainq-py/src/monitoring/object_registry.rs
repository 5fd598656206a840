//! The objects whose counters are read, by kind and name.
//!
//! # Invariants
//! 1. Two objects of one kind never have the same name: a number is added to the name of the second. A new object may
//!    get the name of an object that was closed.
//! 2. The lock is held only to copy or change entries: no object is read, dropped or called under it.

use super::catalog::FamilyId;
use super::sample::{Reading, Sample};
use crate::gil;
use drainq_core::sync::Mutex;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

/// A native object with counters, which are read without the GIL.
pub trait Observed: Send + Sync {
    /// Whether the object is still in use. If not, another object may get its name.
    fn is_open(&self) -> bool;

    /// Adds the object's samples. Does not wait for anything that waits for the GIL.
    fn read(&self, name: &str, reading: &mut Reading);

    /// Gives a reference back: by [`end_elsewhere`], if it is the last one.
    fn let_go(self: Arc<Self>);
}

/// Drops the last reference to an object on a new thread, which takes the GIL for it.
pub fn end_elsewhere<T: Send + 'static>(last: Option<T>) {
    let Some(last) = last else { return };
    // If no thread starts, or the interpreter is gone, the object leaks: its end needs the GIL.
    let last = ManuallyDrop::new(last);
    let end = move || gil::held(move |_| drop(ManuallyDrop::into_inner(last)));
    let _ = thread::Builder::new().name("drainq-end".into()).spawn(end);
}

#[derive(Clone)]
struct Entry {
    kind: &'static str,
    name: String,
    object: Weak<dyn Observed>,
}

/// The samples of an object whose counters only Python code knows.
#[derive(Clone)]
struct Published {
    kind: String,
    name: String,
    at: Instant,
    errors: u64,
    samples: Vec<Sample>,
}

struct Registry {
    entries: Vec<Entry>,
    published: Vec<Published>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { entries: Vec::new(), published: Vec::new() });

/// Lets the endpoint read an object from now on; returns the name of its samples.
pub fn observe(kind: &'static str, name: &str, object: Weak<dyn Observed>) -> String {
    let same_name = |entry: &Entry| entry.kind == kind && entry.name == name;
    let rivals: Vec<_> = REGISTRY.lock().entries.iter().filter(|entry| same_name(entry)).cloned().collect();
    let is_closed = |entry: &Entry| entry.object.upgrade().is_none_or(|object| !object.is_open());
    let closed: Vec<_> = rivals.into_iter().filter(is_closed).map(|entry| entry.object).collect();

    let mut registry = REGISTRY.lock();
    let leaves = |other: &Weak<dyn Observed>| {
        other.strong_count() == 0 || Weak::ptr_eq(other, &object) || closed.iter().any(|it| Weak::ptr_eq(it, other))
    };
    registry.entries.retain(|entry| !leaves(&entry.object));
    let is_taken = |name: &str| registry.entries.iter().any(|entry| entry.kind == kind && entry.name == name);
    let mut free = name.to_owned();
    let mut number = 2;
    while is_taken(&free) {
        free = format!("{name}-{number}");
        number += 1;
    }
    registry.entries.push(Entry { kind, name: free.clone(), object });
    free
}

/// Publishes samples that Python code took. `None` counts an error of that code, and the last samples stay.
pub fn publish(kind: &str, name: &str, samples: Option<Vec<Sample>>) {
    let mut registry = REGISTRY.lock();
    let at = Instant::now();
    let known = registry.published.iter_mut().find(|other| other.kind == kind && other.name == name);
    match (known, samples) {
        (Some(known), Some(samples)) => (known.at, known.samples) = (at, samples),
        (Some(known), None) => known.errors += 1,
        (None, samples) => {
            let errors = u64::from(samples.is_none());
            let samples = samples.unwrap_or_default();
            registry.published.push(Published { kind: kind.into(), name: name.into(), at, errors, samples });
        }
    }
}

/// Forgets the samples that were published under a name.
pub fn withdraw(kind: &str, name: &str) {
    REGISTRY.lock().published.retain(|other| other.kind != kind || other.name != name);
}

/// Stops reading an object.
pub fn forget(object: &Weak<dyn Observed>) {
    REGISTRY.lock().entries.retain(|entry| !Weak::ptr_eq(&entry.object, object));
}

/// Reads all samples. Must not be called under a lock of this crate; is called without the GIL only between forks.
pub fn read_all() -> Reading {
    let (entries, published) = {
        let registry = REGISTRY.lock();
        (registry.entries.clone(), registry.published.clone())
    };
    let mut reading = Reading::default();
    reading.add(FamilyId::Build, &[drainq_core::VERSION], 1_u64);
    for entry in entries {
        if let Some(object) = entry.object.upgrade() {
            object.read(&entry.name, &mut reading);
            object.let_go();
        }
    }
    for Published { kind, name, at, errors, samples } in published {
        reading.extend(samples);
        reading.add(FamilyId::SampleAge, &[&kind, &name], at.elapsed().as_secs_f64());
        reading.add(FamilyId::SampleErrors, &[&kind, &name], errors);
    }
    reading
}
