//! A persistent list whose entries keep their numbers while others are added and removed.

use std::sync::Arc;

/// The number of children of a node, or of entries of a leaf.
const WIDTH: usize = 16;
const BITS: u32 = WIDTH.trailing_zeros();

/// A list with removal anywhere and append at the end. Each entry has a *place*, which never changes and ascends along the list. Clones
/// share everything.
///
/// It is a trie over places in which each node counts the entries of its subtrees. Everything costs O(log of the places ever used): four
/// levels for 65,536. (`imbl::Vector` splits and joins on each removal, which costs about twenty times as much.)
#[derive(Debug)]
pub(super) struct Ranked<T> {
    root: Option<Arc<Node<T>>>,
    /// The number of levels below the root; 0 for a leaf.
    height: u32,
    len: usize,
    next_place: u64,
}

#[derive(Debug)]
enum Node<T> {
    Inner { counts: [u32; WIDTH], children: [Option<Arc<Node<T>>>; WIDTH] },
    Leaf([Option<T>; WIDTH]),
}

impl<T: Clone> Clone for Node<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Inner { counts, children } => Self::Inner { counts: *counts, children: children.clone() },
            Self::Leaf(entries) => Self::Leaf(entries.clone()),
        }
    }
}

impl<T> Node<T> {
    fn empty(height: u32) -> Self {
        if height == 0 { Self::Leaf(Default::default()) } else { Self::Inner { counts: [0; WIDTH], children: Default::default() } }
    }
}

/// The index of the child that leads to a place, in a node at this height.
fn slot(place: u64, height: u32) -> usize {
    (place >> (BITS * height)) as usize % WIDTH
}

impl<T: Clone> Node<T> {
    fn insert(&mut self, height: u32, place: u64, entry: T) {
        let slot = slot(place, height);
        match self {
            Self::Inner { counts, children } => {
                counts[slot] += 1;
                let child = children[slot].get_or_insert_with(|| Arc::new(Self::empty(height - 1)));
                Arc::make_mut(child).insert(height - 1, place, entry);
            }
            Self::Leaf(entries) => entries[slot] = Some(entry),
        }
    }

    /// Removes and returns the entry at a place that has one.
    fn remove(&mut self, height: u32, place: u64) -> T {
        let slot = slot(place, height);
        match self {
            Self::Inner { counts, children } => {
                counts[slot] -= 1;
                let child = children[slot].as_mut().expect("the place has an entry");
                let entry = Arc::make_mut(child).remove(height - 1, place);
                if counts[slot] == 0 {
                    children[slot] = None;
                }
                entry
            }
            Self::Leaf(entries) => entries[slot].take().expect("the place has an entry"),
        }
    }
}

impl<T: Clone> Ranked<T> {
    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The place and the entry at an index.
    pub(super) fn get(&self, index: usize) -> Option<(u64, &T)> {
        let mut left = u32::try_from(index).ok().filter(|_| index < self.len)?;
        let mut node = self.root.as_deref()?;
        let mut place = 0;
        loop {
            place *= WIDTH as u64;
            match node {
                Node::Inner { counts, children } => {
                    let mut slot = 0;
                    while left >= counts[slot] {
                        left -= counts[slot];
                        slot += 1;
                    }
                    place += slot as u64;
                    node = children[slot].as_deref().expect("a child that counts is there");
                }
                Node::Leaf(entries) => {
                    let mut present = entries.iter().enumerate().filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)));
                    let (slot, entry) = present.nth(left as usize).expect("the counts are right");
                    return Some((place + slot as u64, entry));
                }
            }
        }
    }

    /// The entry at a place.
    pub(super) fn at(&self, place: u64) -> Option<&T> {
        if place >= self.next_place {
            return None;
        }
        let mut node = self.root.as_deref()?;
        let mut height = self.height;
        loop {
            match node {
                Node::Inner { children, .. } => node = children[slot(place, height)].as_deref()?,
                Node::Leaf(entries) => return entries[slot(place, height)].as_ref(),
            }
            height -= 1;
        }
    }

    /// The number of entries before a place.
    pub(super) fn rank(&self, place: u64) -> usize {
        let mut rank = 0;
        let mut node = self.root.as_deref();
        let mut height = self.height;
        while let Some(here) = node {
            let slot = slot(place, height);
            match here {
                Node::Inner { counts, children } => {
                    rank += counts[..slot].iter().sum::<u32>() as usize;
                    node = children[slot].as_deref();
                    height -= 1;
                }
                Node::Leaf(entries) => return rank + entries[..slot].iter().flatten().count(),
            }
        }
        rank
    }

    /// Appends an entry and returns its place.
    pub(super) fn push(&mut self, entry: T) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        match &mut self.root {
            None => {
                self.height = 0;
                while place >> (BITS * (self.height + 1)) > 0 {
                    self.height += 1;
                }
                self.root = Some(Arc::new(Node::empty(self.height)));
            }
            Some(root) if place >> (BITS * (self.height + 1)) > 0 => {
                self.height += 1;
                let mut higher = Node::empty(self.height);
                let Node::Inner { counts, children } = &mut higher else { unreachable!("only a leaf has height 0") };
                counts[0] = u32::try_from(self.len).expect("a list has fewer than 2^32 entries");
                children[0] = Some(root.clone());
                *root = Arc::new(higher);
            }
            Some(_) => {}
        }
        let root = self.root.as_mut().expect("it was just made");
        Arc::make_mut(root).insert(self.height, place, entry);
        self.len += 1;
        place
    }

    /// Removes and returns the entry at a place. Panics if there is none.
    pub(super) fn remove(&mut self, place: u64) -> T {
        let entry = Arc::make_mut(self.root.as_mut().expect("the place has an entry")).remove(self.height, place);
        self.len -= 1;
        if self.len == 0 {
            self.root = None;
        }
        entry
    }

    /// The entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.root.iter().flat_map(entries)
    }
}

impl<T: PartialEq> Ranked<T> {
    /// The entries that `newer` lacks and those that it adds, each by place. Shared parts are skipped, so for two versions of one list the
    /// cost is that of their edits; an entry that changed is on both sides.
    pub(super) fn diff<'a>(&'a self, newer: &'a Self) -> (Vec<&'a T>, Vec<&'a T>) {
        let mut diff = Diff::default();
        diff.nodes((self.root.as_ref(), self.height), (newer.root.as_ref(), newer.height));
        (diff.lost, diff.gained)
    }
}

struct Diff<'a, T> {
    lost: Vec<&'a T>,
    gained: Vec<&'a T>,
}

impl<T> Default for Diff<'_, T> {
    fn default() -> Self {
        Self { lost: Vec::new(), gained: Vec::new() }
    }
}

/// A subtree and its height.
type Subtree<'a, T> = (Option<&'a Arc<Node<T>>>, u32);

impl<'a, T: PartialEq> Diff<'a, T> {
    /// Compares two subtrees that begin at the same place.
    fn nodes(&mut self, (old, old_height): Subtree<'a, T>, (new, new_height): Subtree<'a, T>) {
        let (old, new) = match (old, new) {
            (None, None) => return,
            (Some(old), None) => return self.lost.extend(entries(old)),
            (None, Some(new)) => return self.gained.extend(entries(new)),
            (Some(old), Some(new)) => (old, new),
        };
        if Arc::ptr_eq(old, new) {
            return;
        }
        match (&**old, &**new) {
            // The lower tree corresponds to the first child of the higher one.
            (Node::Inner { children, .. }, _) if old_height > new_height => {
                self.nodes((children[0].as_ref(), old_height - 1), (Some(new), new_height));
                self.lost.extend(children[1..].iter().flatten().flat_map(entries));
            }
            (_, Node::Inner { children, .. }) if new_height > old_height => {
                self.nodes((Some(old), old_height), (children[0].as_ref(), new_height - 1));
                self.gained.extend(children[1..].iter().flatten().flat_map(entries));
            }
            (Node::Inner { children: old, .. }, Node::Inner { children: new, .. }) => {
                for (old, new) in old.iter().zip(new) {
                    self.nodes((old.as_ref(), old_height - 1), (new.as_ref(), new_height - 1));
                }
            }
            (Node::Leaf(old), Node::Leaf(new)) => {
                for (old, new) in old.iter().zip(new).filter(|(old, new)| old != new) {
                    self.lost.extend(old);
                    self.gained.extend(new);
                }
            }
            _ => unreachable!("subtrees of equal height are of one kind"),
        }
    }
}

/// The entries below a node in order.
fn entries<T>(node: &Arc<Node<T>>) -> impl Iterator<Item = &T> {
    let mut above: Vec<&Node<T>> = vec![node];
    let mut leaf: std::slice::Iter<'_, Option<T>> = [].iter();
    std::iter::from_fn(move || {
        loop {
            if let Some(entry) = leaf.find_map(Option::as_ref) {
                return Some(entry);
            }
            match above.pop()? {
                Node::Inner { children, .. } => above.extend(children.iter().rev().flatten().map(|child| &**child)),
                Node::Leaf(entries) => leaf = entries.iter(),
            }
        }
    })
}

impl<T> Clone for Ranked<T> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), ..*self }
    }
}

impl<T> Default for Ranked<T> {
    fn default() -> Self {
        Self { root: None, height: 0, len: 0, next_place: 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_list(
            start in 0usize..600,
            edits in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 0..400),
        ) {
            let mut list = Ranked::default();
            let mut plain: Vec<(u64, usize)> = (0..start).map(|entry| (list.push(entry), entry)).collect();
            let snapshot = (list.clone(), plain.clone());
            for (round, edit) in edits.into_iter().enumerate() {
                match edit {
                    Some(index) if !plain.is_empty() => {
                        let (place, entry) = plain.remove(index.index(plain.len()));
                        let before = plain.iter().filter(|(other, _)| *other < place).count();
                        prop_assert_eq!((list.rank(place), list.at(place)), (before, Some(&entry)));
                        prop_assert_eq!(list.remove(place), entry);
                        prop_assert_eq!(list.at(place), None);
                    }
                    _ => plain.push((list.push(start + round), start + round)),
                }
            }
            for (list, plain) in [(list, plain), snapshot] {
                prop_assert_eq!(list.len(), plain.len());
                prop_assert!(list.iter().eq(plain.iter().map(|(_, entry)| entry)));
                prop_assert!((0..list.len()).map(|index| list.get(index).unwrap()).eq(plain.iter().map(|(place, entry)| (*place, entry))));
                prop_assert_eq!(list.get(plain.len()), None);
            }
        }
    }

    /// The entries that are in only one of two lists, by place.
    fn only<'a>(list: &'a [(u64, usize)], other: &[(u64, usize)]) -> Vec<&'a usize> {
        list.iter().filter(|entry| !other.contains(entry)).map(|(_, entry)| entry).collect()
    }

    proptest! {
        #[test]
        fn the_difference_of_two_lists_is_that_of_plain_ones(
            start in 0usize..300,
            [common, old, new] in prop::array::uniform3(
                prop::collection::vec(prop::option::weighted(0.4, any::<prop::sample::Index>()), 0..60),
            ),
            related: bool,
        ) {
            let edit = |list: &mut Ranked<usize>, edits: Vec<Option<prop::sample::Index>>, first: usize| {
                for (round, edit) in edits.into_iter().enumerate() {
                    match edit {
                        Some(index) if list.len() > 0 => {
                            let (place, _) = list.get(index.index(list.len())).unwrap();
                            list.remove(place);
                        }
                        _ => {
                            list.push(first + round);
                        }
                    }
                }
            };
            let mut older = Ranked::default();
            for entry in 0..start {
                older.push(entry);
            }
            edit(&mut older, common, 1000);
            let mut newer = if related { older.clone() } else { Ranked::default() };
            edit(&mut older, old, 2000);
            edit(&mut newer, new, 3000);
            let plain = |list: &Ranked<usize>| -> Vec<_> {
                (0..list.len()).map(|index| list.get(index).map(|(place, entry)| (place, *entry)).unwrap()).collect()
            };
            let plain = (plain(&older), plain(&newer));
            prop_assert_eq!(older.diff(&newer), (only(&plain.0, &plain.1), only(&plain.1, &plain.0)));
        }
    }

    /// An entry that counts its comparisons.
    #[derive(Clone, Debug)]
    struct Counted(Arc<std::sync::atomic::AtomicUsize>);

    impl PartialEq for Counted {
        fn eq(&self, _: &Self) -> bool {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            true
        }
    }

    #[test]
    fn what_two_lists_share_is_not_compared() {
        let compared = Arc::default();
        let mut old = Ranked::default();
        for _ in 0..10_000 {
            old.push(Counted(Arc::clone(&compared)));
        }
        let mut new = old.clone();
        new.remove(5_000);
        new.push(Counted(compared.clone()));
        let (lost, gained) = old.diff(&new);
        assert_eq!((lost.len(), gained.len()), (1, 1));
        let compared = compared.load(std::sync::atomic::Ordering::Relaxed);
        assert!(compared <= 2 * WIDTH, "{compared} entries were compared");
    }

    #[test]
    fn a_list_that_was_emptied_goes_on() {
        let mut list = Ranked::default();
        for round in 0..700u64 {
            assert_eq!(list.push(round), round);
            assert_eq!((list.get(0), list.at(round), list.rank(round)), (Some((round, &round)), Some(&round), 0));
            assert_eq!(list.remove(round), round);
        }
        assert_eq!(list.iter().next(), None);
    }
}
