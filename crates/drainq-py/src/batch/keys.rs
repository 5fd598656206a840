//! From an object to the key of its type, without a lock and without a dictionary.
//!
//! # Invariants
//! 1. A type in the map is kept alive by it, so its address means this type for ever.
//! 2. A slot holds address and key in one word (48 and 16 bits), so both are read at once; it
//!    never changes once it is not 0.
//! 3. A generation that is full is followed by one twice as large that holds all of it; the
//!    old ones stay readable.

use super::item::MAX_KEYS;
use crate::errors;
use drainq_core::batch::Key;
use parking_lot::Mutex;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const FIRST_BITS: u32 = 6;
const GENERATIONS: usize = 13;

/// `address << 16 | key`, or 0.
type Slot = AtomicU64;

/// Addresses to keys: open addressing, at most half full.
struct AddressMap {
    generations: [OnceLock<Box<[Slot]>>; GENERATIONS],
    current: AtomicUsize,
}

const KEY_BITS: u32 = MAX_KEYS.trailing_zeros();

impl AddressMap {
    fn new() -> Self {
        Self { generations: std::array::from_fn(|_| OnceLock::new()), current: AtomicUsize::new(0) }
    }

    fn slots(&self, generation: usize) -> &[Slot] {
        self.generations[generation]
            .get_or_init(|| (0..1_usize << (FIRST_BITS + generation as u32)).map(|_| Slot::new(0)).collect())
    }

    /// The slots to look at for an address, in order.
    #[inline]
    fn probe(slots: &[Slot], address: usize) -> impl Iterator<Item = &Slot> {
        let hash = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (hash..).map(|at| &slots[at & (slots.len() - 1)])
    }

    #[inline]
    fn get(&self, address: usize) -> Option<Key> {
        let slots = self.generations[self.current.load(Ordering::Acquire)].get()?;
        for slot in Self::probe(slots, address) {
            let word = slot.load(Ordering::Relaxed);
            if word >> KEY_BITS == address as u64 {
                return Some((word as usize % MAX_KEYS) as Key);
            }
            if word == 0 {
                return None;
            }
        }
        unreachable!("half of the slots are empty")
    }

    fn put(slots: &[Slot], address: usize, key: Key) {
        let empty = Self::probe(slots, address).find(|slot| slot.load(Ordering::Relaxed) == 0);
        let word = (address as u64) << KEY_BITS | u64::from(key);
        empty.expect("half of the slots are empty").store(word, Ordering::Relaxed);
    }

    /// Adds an address; `all` are the addresses by key, this one included. One call at a time.
    fn insert(&self, address: usize, all: &[usize]) {
        let mut generation = self.current.load(Ordering::Relaxed);
        if 2 * all.len() > self.slots(generation).len() {
            generation += 1;
            for (key, address) in all.iter().enumerate().take(all.len() - 1) {
                Self::put(self.slots(generation), *address, key as Key);
            }
        }
        Self::put(self.slots(generation), address, (all.len() - 1) as Key);
        self.current.store(generation, Ordering::Release);
    }
}

/// What decides an item's type.
pub enum KeyRule {
    /// Its exact type.
    Type,
    /// What this callable says of it.
    Callable(Py<PyAny>),
}

/// The keys of one queue: types, or the values of its dispatch key.
pub struct Keys {
    rule: KeyRule,
    types: AddressMap,
    /// For other dispatch keys than types.
    others: Py<PyDict>,
    /// The dispatch keys by number.
    known: Mutex<Vec<Py<PyAny>>>,
}

impl Keys {
    /// No keys yet.
    pub fn new(py: Python<'_>, dispatch_key: Option<Py<PyAny>>) -> Self {
        Self {
            rule: dispatch_key.map_or(KeyRule::Type, KeyRule::Callable),
            types: AddressMap::new(),
            others: PyDict::new(py).unbind(),
            known: Mutex::new(Vec::new()),
        }
    }

    /// The key of the type at this address, if items are told apart by their types and this
    /// one was met before.
    #[inline]
    pub fn of_type(&self, address: usize) -> Option<Key> {
        match self.rule {
            KeyRule::Type => self.types.get(address),
            KeyRule::Callable(_) => None,
        }
    }

    /// The key of an item's type, if it was met before.
    #[inline]
    pub fn of_item(&self, item: &Bound<'_, PyAny>) -> PyResult<Result<Key, Py<PyAny>>> {
        match &self.rule {
            KeyRule::Type => {
                let class = item.get_type_ptr();
                Ok(self.types.get(class.addr()).ok_or_else(|| item.get_type().into_any().unbind()))
            }
            KeyRule::Callable(rule) => {
                let name = rule.bind(item.py()).call1((item,))?;
                Ok(self.find(&name)?.ok_or_else(|| name.unbind()))
            }
        }
    }

    /// Checks that `name` can be a dispatch key of this queue.
    pub fn check(&self, name: &Bound<'_, PyAny>) -> PyResult<()> {
        if matches!(self.rule, KeyRule::Type) && !name.is_instance_of::<PyType>() {
            return Err(errors::bad_type(format!(
                "items are told apart by their type here, so a handler is added for a class; got {}. \
                 To tell them apart by something else give the queue a dispatch_key",
                name.repr()?
            )));
        }
        name.hash().map(drop)
    }

    /// The number of a dispatch key, if it has one.
    pub fn find(&self, name: &Bound<'_, PyAny>) -> PyResult<Option<Key>> {
        if matches!(self.rule, KeyRule::Type) {
            return Ok(self.types.get(name.as_ptr().addr()));
        }
        self.others.bind(name.py()).get_item(name)?.map(|key| key.extract()).transpose()
    }

    /// Gives a dispatch key that has no number the next one; `number` says which it must be.
    pub fn add(&self, name: &Bound<'_, PyAny>, number: impl FnOnce() -> Key) -> PyResult<Key> {
        let mut known = self.known.lock();
        if known.len() >= MAX_KEYS {
            return Err(errors::bad_value(format!(
                "a queue tells at most {MAX_KEYS} types apart, and {} would be one more; \
                 use a coarser dispatch_key",
                name.repr()?
            )));
        }
        let key = number();
        assert_eq!(key as usize, known.len(), "keys and routes are made together");
        known.push(name.clone().unbind());
        if matches!(self.rule, KeyRule::Type) {
            let addresses: Vec<usize> = known.iter().map(|name| name.as_ptr().addr()).collect();
            self.types.insert(name.as_ptr().addr(), &addresses);
        } else {
            self.others.bind(name.py()).set_item(name, key)?;
        }
        Ok(key)
    }

    /// The dispatch key with this number.
    pub fn name(&self, py: Python<'_>, key: Key) -> Py<PyAny> {
        self.known.lock()[key as usize].clone_ref(py)
    }

    /// All dispatch keys by number.
    pub fn names(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.known.lock().iter().map(|name| name.clone_ref(py)).collect()
    }

    /// Shows the garbage collector what is held.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let KeyRule::Callable(rule) = &self.rule {
            visit.call(rule)?;
        }
        visit.call(&self.others)?;
        match self.known.try_lock() {
            Some(known) => known.iter().try_for_each(|name| visit.call(name)),
            None => Ok(()),
        }
    }
}
