//! Chooses the next sub-queue: priority groups, and round robin over fixed positions inside each.
//!
//! A sub-queue has a *location*: a position in the group of its priority. Positions are given out in order and not used
//! again, so a removal costs no other sub-queue its turn. A group whose positions are mostly vacant is renumbered in
//! the same order. Two bitmaps, of the positions that are *ready* (enabled and not empty) and of the groups that have
//! such positions, make a choice as cheap among 10,000 idle sub-queues as among one.
//!
//! A group has a *rank*, which ascends with the priority. Ranks have gaps, so that a new group moves no other; when a
//! gap is used up, all ranks are spread anew. So a new priority costs, on average, a search among the groups.
//!
//! `weight` is the number of turns in a row (deficit round robin with one item a turn). A ready sub-queue waits for at
//! most as many turns as the sum of the other weights: in [`Order::Priority`] the weights of its group, while that is
//! the first ready group; in [`Order::Weighted`] the weights of all sub-queues.
//!
//! # Invariants
//! 1. `by_priority` holds the groups; their ranks ascend with the priority, and `at_rank[groups[id].rank] == id`.
//! 2. A position of `ready` is occupied; `ready_groups` holds the rank of each group with such a position.
//! 3. `turn.served` turns in a row have gone to the sub-queue at `turn.position`; 0 means that the search starts at
//!    that position.
//!
//! Source: linked-blocking-multi-queue's default selection; M. Shreedhar and G. Varghese, *Efficient Fair Queuing Using
//! Deficit Round-Robin* (1996).

use super::bitmap::Bitmap;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// The distance between ranks that are spread anew.
const GAP: usize = 8;

/// The entry of `at_rank` for a rank that no group has.
const VACANT: usize = usize::MAX;

/// Names a sub-queue inside its multi-queue.
pub type Slot = usize;

/// The rule by which the turn moves from group to group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Only the first ready group is served.
    Priority,
    /// All groups are served in one round. The priority only orders the round.
    Weighted,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    position: usize,
    served: u32,
}

#[derive(Debug)]
struct Group {
    priority: i64,
    rank: usize,
    positions: Vec<Option<Occupant>>,
    occupied: usize,
    ready: Bitmap,
    turn: Turn,
}

#[derive(Clone, Copy, Debug)]
struct Occupant {
    slot: Slot,
    weight: u32,
}

#[derive(Clone, Copy, Debug)]
struct Location {
    group: usize,
    position: usize,
}

/// The location of the next sub-queue, and whether its turn continues.
struct Choice {
    group: usize,
    position: usize,
    goes_on: bool,
}

/// The locations of all sub-queues, and the state of the turns.
#[derive(Debug)]
pub struct Selection {
    mode: Order,
    groups: Vec<Group>,
    free_groups: Vec<usize>,
    by_priority: BTreeMap<i64, usize>,
    at_rank: Vec<usize>,
    ready_groups: Bitmap,
    /// The current group of [`Order::Weighted`]; `None` before the first turn.
    ring: Option<usize>,
    locations: Vec<Option<Location>>,
}

impl Selection {
    /// Makes a selection without sub-queues.
    pub fn new(mode: Order) -> Self {
        Self {
            mode,
            groups: Vec::new(),
            free_groups: Vec::new(),
            by_priority: BTreeMap::new(),
            at_rank: Vec::new(),
            ready_groups: Bitmap::default(),
            ring: None,
            locations: Vec::new(),
        }
    }

    /// Adds `slot`, which is not ready, at the position after the last one of its priority.
    pub fn insert(&mut self, slot: Slot, priority: i64, weight: u32) {
        let group = self.group_of(priority);
        let position = self.groups[group].positions.len();
        self.groups[group].positions.push(Some(Occupant { slot, weight }));
        self.groups[group].occupied += 1;
        if self.locations.len() <= slot {
            self.locations.resize(slot + 1, None);
        }
        self.locations[slot] = Some(Location { group, position });
    }

    /// Removes `slot`. No other sub-queue loses a turn.
    pub fn remove(&mut self, slot: Slot) {
        let Some(Location { group: id, position }) = self.locations.get(slot).copied().flatten() else {
            return;
        };
        self.set_ready(slot, false);
        self.locations[slot] = None;
        while let Some(None) = self.locations.last() {
            self.locations.pop();
        }
        let group = &mut self.groups[id];
        group.positions[position] = None;
        group.occupied -= 1;
        if group.turn.position == position {
            group.turn.served = 0;
        }
        if group.occupied == 0 {
            self.remove_group(id);
        } else if group.positions.len() > 64 && group.occupied < group.positions.len() / 2 {
            self.renumber(id);
        }
    }

    /// Sets how many turns in a row `slot` has, from the current turn on.
    pub fn set_weight(&mut self, slot: Slot, weight: u32) {
        if let Some(Some(Location { group, position })) = self.locations.get(slot).copied() {
            self.groups[group].positions[position] = Some(Occupant { slot, weight });
        }
    }

    /// Sets whether `slot` can be served.
    #[inline]
    pub fn set_ready(&mut self, slot: Slot, ready: bool) {
        let Some(Some(location)) = self.locations.get(slot) else {
            return;
        };
        let group = &mut self.groups[location.group];
        if ready {
            if group.ready.insert(location.position) {
                self.ready_groups.insert(group.rank);
            }
        } else if group.ready.remove(location.position) && group.ready.is_empty() {
            self.ready_groups.remove(group.rank);
        }
    }

    /// Returns the sub-queue whose turn it is; changes nothing.
    pub fn next(&self) -> Option<Slot> {
        let choice = self.choose()?;
        self.groups[choice.group].positions[choice.position].map(|occupant| occupant.slot)
    }

    /// Returns the sub-queue whose turn it is, and counts it as served.
    #[inline]
    pub fn take_turn(&mut self) -> Option<Slot> {
        let Choice { group: id, position, goes_on } = self.choose()?;
        let group = &mut self.groups[id];
        let served = if goes_on { group.turn.served + 1 } else { 1 };
        group.turn = Turn { position, served };
        self.ring = Some(id);
        group.positions[position].map(|occupant| occupant.slot)
    }

    /// Counts `slot` as served out of turn: the turn of its group moves to it.
    pub fn served(&mut self, slot: Slot) {
        let Some(Some(Location { group, position })) = self.locations.get(slot).copied() else { return };
        let group = &mut self.groups[group];
        let goes_on = group.turn.position == position && group.turn_in_row().is_some();
        let served = if goes_on { group.turn.served + 1 } else { 1 };
        group.turn = Turn { position, served };
    }

    #[inline]
    fn choose(&self) -> Option<Choice> {
        match self.mode {
            Order::Priority => {
                let id = self.at_rank[self.ready_groups.next(0)?];
                let group = &self.groups[id];
                match group.turn_in_row() {
                    Some(position) => Some(Choice { group: id, position, goes_on: true }),
                    None => {
                        let position = group.ready.next_around(group.after_turn())?;
                        Some(Choice { group: id, position, goes_on: false })
                    }
                }
            }
            Order::Weighted => self.choose_on_ring(),
        }
    }

    fn choose_on_ring(&self) -> Option<Choice> {
        let mut rank = 0;
        if let Some(id) = self.ring {
            let here = &self.groups[id];
            if let Some(position) = here.turn_in_row() {
                return Some(Choice { group: id, position, goes_on: true });
            }
            if let Some(position) = here.ready.next(here.after_turn()) {
                return Some(Choice { group: id, position, goes_on: false });
            }
            rank = here.rank + 1;
        }
        let group = self.at_rank[self.ready_groups.next_around(rank)?];
        Some(Choice { group, position: self.groups[group].ready.next(0)?, goes_on: false })
    }

    /// Returns the ready sub-queues, a list for each group by priority, each in order of turn.
    pub fn in_turn_order(&self) -> Vec<Vec<Slot>> {
        self.ready_groups.iter().map(|rank| self.groups[self.at_rank[rank]].in_turn_order()).collect()
    }

    /// Returns the group of `priority`, and makes it if there is none.
    fn group_of(&mut self, priority: i64) -> usize {
        if let Some(&id) = self.by_priority.get(&priority) {
            return id;
        }
        let rank = self.new_rank(priority);
        let turn = Turn::default();
        let group = Group { priority, rank, positions: Vec::new(), occupied: 0, ready: Bitmap::default(), turn };
        let id = match self.free_groups.pop() {
            Some(id) => {
                self.groups[id] = group;
                id
            }
            None => {
                self.groups.push(group);
                self.groups.len() - 1
            }
        };
        self.by_priority.insert(priority, id);
        if self.at_rank.len() <= rank {
            self.at_rank.resize(rank + 1, VACANT);
        }
        self.at_rank[rank] = id;
        id
    }

    /// Returns a free rank for a group of `priority`, between those of its neighbours.
    fn new_rank(&mut self, priority: i64) -> usize {
        let rank = self.gap_for(priority);
        if let Some(rank) = rank.filter(|&rank| rank < 8 * GAP * (self.by_priority.len() + 1)) {
            return rank;
        }
        self.spread_ranks();
        self.gap_for(priority).expect("there is a gap between any two, and before the first")
    }

    /// Returns the middle of the gap between the neighbours; none if it is used up.
    fn gap_for(&self, priority: i64) -> Option<usize> {
        let rank = |(_, &id): (&i64, &usize)| self.groups[id].rank;
        let below = self.by_priority.range(..priority).next_back().map(rank);
        let above = self.by_priority.range(priority..).next().map(rank);
        match (below, above) {
            (None, None) => Some(GAP),
            (Some(below), None) => Some(below + GAP),
            (None, Some(above)) => above.checked_sub(GAP),
            (Some(below), Some(above)) => Some(below + (above - below) / 2).filter(|&middle| middle > below),
        }
    }

    /// Gives the groups new ranks with even gaps, and leaves room for half as many groups before the first.
    fn spread_ranks(&mut self) {
        let start = GAP * (1 + self.by_priority.len() / 2);
        self.at_rank = vec![VACANT; start + GAP * self.by_priority.len()];
        self.ready_groups = Bitmap::default();
        for (nth, &id) in self.by_priority.values().enumerate() {
            let rank = start + GAP * nth;
            self.groups[id].rank = rank;
            self.at_rank[rank] = id;
            if !self.groups[id].ready.is_empty() {
                self.ready_groups.insert(rank);
            }
        }
    }

    fn remove_group(&mut self, id: usize) {
        let Group { priority, rank, .. } = self.groups[id];
        self.by_priority.remove(&priority);
        self.at_rank[rank] = VACANT;
        self.free_groups.push(id);
        if self.ring == Some(id) && self.mode == Order::Weighted {
            // The ring continues with the next group, at that group's first position.
            self.ring = self.by_priority.range((Excluded(priority), Unbounded)).next().map(|(_, &next)| next);
            if let Some(next) = self.ring {
                self.groups[next].turn = Turn::default();
            }
        }
    }

    /// Closes the gaps between the positions of a group, keeping order and turn.
    fn renumber(&mut self, id: usize) {
        let group = &mut self.groups[id];
        let (old_ready, old_turn) = (std::mem::take(&mut group.ready), group.turn);
        group.turn.position = group.positions[..old_turn.position.min(group.positions.len())].iter().flatten().count();
        let occupants = std::mem::take(&mut group.positions).into_iter().enumerate();
        for (old, occupant) in occupants.filter_map(|(old, occupant)| Some((old, occupant?))) {
            let position = group.positions.len();
            group.positions.push(Some(occupant));
            if old_ready.contains(old) {
                group.ready.insert(position);
            }
            if let Some(location) = &mut self.locations[occupant.slot] {
                location.position = position;
            }
        }
    }
}

impl Group {
    /// Returns the position of the turn, if its occupant is ready and has turns left.
    #[inline]
    fn turn_in_row(&self) -> Option<usize> {
        let Turn { position, served } = self.turn;
        let has_turns_left = |occupant: &Option<Occupant>| occupant.is_some_and(|occupant| served < occupant.weight);
        (served > 0 && self.positions.get(position).is_some_and(has_turns_left) && self.ready.contains(position))
            .then_some(position)
    }

    /// Returns the position at which the search for the next occupant starts.
    #[inline]
    fn after_turn(&self) -> usize {
        self.turn.position + usize::from(self.turn.served > 0)
    }

    /// Returns the ready sub-queues, in order of turn.
    fn in_turn_order(&self) -> Vec<Slot> {
        let start = self.turn_in_row().unwrap_or_else(|| self.after_turn());
        let from = |at| std::iter::successors(self.ready.next(at), |&position| self.ready.next(position + 1));
        let positions = from(start).chain(from(0).take_while(|&position| position < start));
        positions.filter_map(|position| self.positions[position].map(|occupant| occupant.slot)).collect()
    }
}
