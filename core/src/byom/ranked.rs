//! A persistent list whose entries keep a number while others come and go.

use std::sync::Arc;

/// Children of a node, entries of a leaf.
const WIDTH: usize = 16;
const BITS: u32 = WIDTH.trailing_zeros();

/// A list with removal anywhere and append at the end; each entry has a *place* that never changes and ascends along
/// the list. Clones share everything.
///
/// It is a trie over places that knows how many entries each subtree holds. Everything costs O(log of the places ever
/// used): four levels for 65,536. (`imbl::Vector` splits and joins for each removal, about twenty times the cost.)
#[derive(Debug)]
pub(super) struct Ranked<T> {
    root: Option<Arc<Node<T>>>,
    /// Levels below the root; a leaf has none.
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

/// Which child of a node at this height leads to a place.
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

    /// Takes out the entry at a place that has one.
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

    /// How many entries stand before a place.
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

    /// Appends an entry; its place is returned.
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

    /// Takes out the entry at a place. Panics if there is none.
    pub(super) fn remove(&mut self, place: u64) -> T {
        let entry = Arc::make_mut(self.root.as_mut().expect("the place has an entry")).remove(self.height, place);
        self.len -= 1;
        if self.len == 0 {
            self.root = None;
        }
        entry
    }

    /// Places and entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut above: Vec<&Node<T>> = self.root.as_deref().into_iter().collect();
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
        fn agrees_with_a_plain_list(start in 0usize..600, edits in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 0..400)) {
            let mut list = Ranked::default();
            let mut plain: Vec<(u64, usize)> = (0..start).map(|entry| (list.push(entry), entry)).collect();
            let snapshot = (list.clone(), plain.clone());
            for (round, edit) in edits.into_iter().enumerate() {
                match edit {
                    Some(index) if !plain.is_empty() => {
                        let (place, entry) = plain.remove(index.index(plain.len()));
                        prop_assert_eq!((list.rank(place), list.at(place)), (plain.iter().filter(|(other, _)| *other < place).count(), Some(&entry)));
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
