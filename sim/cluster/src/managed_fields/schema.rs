//! The permitted fields of an object, and its lists and maps that are owned item by item (K165).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

/// The types of scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Text,
    Number,
    Truth,
    /// Any of the three other types.
    Any,
}

/// The identity of a list's items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Items {
    /// None: the list is owned as a whole.
    Atomic,
    /// Their values: each occurs once.
    Set,
    /// The values of these fields.
    Keys(Vec<String>),
}

#[derive(Clone, Debug)]
pub(super) struct ListType {
    pub(super) element: TypeRef,
    pub(super) items: Items,
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) of: TypeRef,
    /// The value that a missing key counts as.
    pub(super) default: Option<Value>,
}

#[derive(Clone, Debug)]
pub(super) struct MapType {
    pub(super) fields: BTreeMap<String, Field>,
    /// The type of entries that are no declared fields; unset = there are none.
    pub(super) element: Option<TypeRef>,
    /// Whether the map is owned as a whole.
    pub(super) atomic: bool,
}

impl MapType {
    /// The type of an entry; unset = the type has no such field.
    pub(super) fn entry(&self, name: &str) -> Option<&TypeRef> {
        self.fields.get(name).map(|field| &field.of).or(self.element.as_ref())
    }
}

/// The permitted kinds of a value; more than one only if nothing is declared.
#[derive(Clone, Debug, Default)]
pub(super) struct Atom {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<ListType>,
    pub(super) map: Option<MapType>,
}

/// The kind that a value is treated as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Scalar,
    List,
    Map,
    /// The value should show its kind, and does not.
    Open,
}

impl Atom {
    /// The kind that `value` is treated as.
    pub(super) fn shape(&self, value: &Value) -> Shape {
        match value {
            Value::Array(_) if self.list.is_some() => Shape::List,
            Value::Object(_) if self.map.is_some() => Shape::Map,
            Value::String(_) | Value::Number(_) | Value::Bool(_) if self.scalar.is_some() => Shape::Scalar,
            _ => match (&self.map, self.scalar, &self.list) {
                (Some(_), None, None) => Shape::Map,
                (None, Some(_), None) => Shape::Scalar,
                (None, None, Some(_)) => Shape::List,
                _ => Shape::Open,
            },
        }
    }

    /// The rules for a value of this shape.
    pub(super) fn rules(&self, shape: Shape) -> Rules<'_> {
        match (shape, &self.map, &self.list) {
            (Shape::Map | Shape::Open, Some(map), _) => Rules::Map(map),
            (Shape::List, _, Some(list)) => Rules::List(list),
            _ => Rules::Scalar(self.scalar.unwrap_or(Scalar::Any)),
        }
    }
}

/// The rules for one shape of values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rules<'a> {
    Scalar(Scalar),
    List(&'a ListType),
    Map(&'a MapType),
}

/// A type: one of the declared ones, or one that has no name.
#[derive(Clone, Debug)]
pub(crate) enum TypeRef {
    /// The name of a declared type.
    Named(Arc<str>),
    /// A type without a name.
    Inline(Arc<AtomBox>),
}

/// A type without a name.
#[derive(Debug)]
pub(crate) struct AtomBox(pub(super) Atom);

impl TypeRef {
    pub(super) fn inline(atom: Atom) -> Self {
        Self::Inline(Arc::new(AtomBox(atom)))
    }

    pub(super) fn scalar(scalar: Scalar) -> Self {
        Self::inline(Atom { scalar: Some(scalar), ..Atom::default() })
    }

    pub(super) fn list(element: Self, items: Items) -> Self {
        Self::inline(Atom { list: Some(ListType { element, items }), ..Atom::default() })
    }

    pub(super) fn map(map: MapType) -> Self {
        Self::inline(Atom { map: Some(map), ..Atom::default() })
    }

    /// The kind of the value itself: maps have entries, lists are owned as wholes.
    pub(super) fn any() -> Self {
        Self::Named("any".into())
    }

    /// The permitted kinds of a value of this type.
    pub(super) fn atom(&self) -> &Atom {
        match self {
            Self::Inline(atom) => &atom.0,
            Self::Named(name) => DECLARED.get(&**name).unwrap_or(&DECLARED["any"]),
        }
    }

    /// The type of objects of a built-in Kind; unset = it is not declared.
    pub(super) fn of_kind(kind: &str) -> Option<Self> {
        DECLARED.contains_key(kind).then(|| Self::Named(kind.into()))
    }

    /// The type of custom resources with this content.
    pub(super) fn of_custom(fields: impl IntoIterator<Item = (String, Self)>, element: Option<Self>) -> Self {
        let of = |of: Self| Field { of, default: None };
        let mut fields: BTreeMap<String, Field> = fields.into_iter().map(|(name, field)| (name, of(field))).collect();
        fields.insert("apiVersion".to_owned(), of(Self::scalar(Scalar::Text)));
        fields.insert("kind".to_owned(), of(Self::scalar(Scalar::Text)));
        fields.insert("metadata".to_owned(), of(Self::Named("ObjectMeta".into())));
        Self::map(MapType { fields, element, atomic: false })
    }
}

/// The paragraphs of a text, in which indented lines continue the previous one.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match found.last_mut() {
            Some(last) if line.starts_with(' ') => last.push_str(&format!(" {}", line.trim())),
            _ => found.push(line.to_owned()),
        }
    }
    found
}

/// The declared types, by name.
static DECLARED: LazyLock<BTreeMap<String, Atom>> = LazyLock::new(|| {
    let mut types: BTreeMap<String, Atom> = paragraphs(include_str!("types.txt")).iter().map(|text| declaration(text)).collect();
    for (name, atomic) in [("any", false), ("any_atomic", true)] {
        let own = || TypeRef::Named(name.into());
        let whole = TypeRef::Named("any_atomic".into());
        let atom = Atom {
            scalar: Some(Scalar::Any),
            list: Some(ListType { element: whole, items: Items::Atomic }),
            map: Some(MapType { fields: BTreeMap::new(), element: Some(own()), atomic }),
        };
        types.insert(name.to_owned(), atom);
    }
    types
});

/// Objects of built-in Kinds without any field set.
static EMPTY: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let entry = |text: &String| {
        let (kind, json) = text.split_once(' ')?;
        Some((kind.to_owned(), serde_json::from_str(json).ok()?))
    };
    paragraphs(include_str!("empty.txt")).iter().filter_map(entry).collect()
});

/// An object of a built-in Kind without any field set.
pub(super) fn empty(kind: &str) -> Option<&'static Value> {
    EMPTY.get(kind)
}

/// Reads `Name = type`, or `Name field:type; ...`, with `atomic` after the name of a type that is owned as a whole.
fn declaration(text: &str) -> (String, Atom) {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    if let Some(alias) = rest.strip_prefix("= ") {
        let atom = match type_of(alias) {
            TypeRef::Inline(atom) => atom.0.clone(),
            // Only the open type has an alias.
            TypeRef::Named(_) => Atom {
                scalar: Some(Scalar::Any),
                list: Some(ListType { element: TypeRef::Named("any_atomic".into()), items: Items::Atomic }),
                map: Some(MapType { fields: BTreeMap::new(), element: Some(TypeRef::any()), atomic: false }),
            },
        };
        return (name.to_owned(), atom);
    }
    let (atomic, rest) = rest.strip_prefix("atomic ").map_or((false, rest), |rest| (true, rest));
    let field = |text: &str| {
        let (name, of) = text.split_once(':')?;
        let (of, default) = of.split_once('=').map_or((of, None), |(of, default)| (of, serde_json::from_str(default).ok()));
        Some((name.to_owned(), Field { of: type_of(of), default }))
    };
    let fields = rest.split("; ").filter_map(field).collect();
    (name.to_owned(), Atom { map: Some(MapType { fields, element: None, atomic }), ..Atom::default() })
}

fn type_of(text: &str) -> TypeRef {
    let within = |open: char, close: char| text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
    if let Some(list) = within('[', ']') {
        if let Some(element) = list.strip_prefix("set of ") {
            return TypeRef::list(type_of(element), Items::Set);
        }
        return match list.split_once(" by ") {
            Some((element, keys)) => TypeRef::list(type_of(element), Items::Keys(keys.split('+').map(str::to_owned).collect())),
            None => TypeRef::list(type_of(list), Items::Atomic),
        };
    }
    if let Some(map) = within('{', '}') {
        let (atomic, element) = map.strip_prefix('!').map_or((false, map), |element| (true, element));
        return TypeRef::map(MapType { fields: BTreeMap::new(), element: Some(type_of(element)), atomic });
    }
    match text {
        "string" => TypeRef::scalar(Scalar::Text),
        "number" => TypeRef::scalar(Scalar::Number),
        "boolean" => TypeRef::scalar(Scalar::Truth),
        "scalar" => TypeRef::scalar(Scalar::Any),
        name => TypeRef::Named(name.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &TypeRef, found: &mut Vec<String>) {
        match of {
            TypeRef::Named(name) => found.push(name.to_string()),
            TypeRef::Inline(atom) => parts(&atom.0, found),
        }
    }

    fn parts(atom: &Atom, found: &mut Vec<String>) {
        atom.list.iter().for_each(|list| names(&list.element, found));
        if let Some(map) = &atom.map {
            map.fields.values().map(|field| &field.of).chain(&map.element).for_each(|of| names(of, found));
        }
    }

    #[test]
    fn every_type_that_is_named_is_declared() {
        for (name, atom) in DECLARED.iter() {
            let mut found = Vec::new();
            parts(atom, &mut found);
            found.iter().for_each(|part| assert!(DECLARED.contains_key(part), "{name} names {part}"));
        }
        assert!(DECLARED.len() > 250);
    }

    #[test]
    fn every_built_in_kind_is_declared_and_has_an_empty_object() {
        for def in crate::kinds::builtin() {
            assert!(TypeRef::of_kind(def.kind).is_some() && empty(def.kind).is_some(), "{}", def.kind);
        }
    }

    #[test]
    fn lists_of_a_pod_are_told_apart_by_their_keys() {
        let pod = &DECLARED["PodSpec"].map.as_ref().unwrap().fields;
        let items = |name: &str| pod[name].of.atom().list.as_ref().unwrap().items.clone();
        assert_eq!(items("containers"), Items::Keys(vec!["name".to_owned()]));
        assert_eq!(items("tolerations"), Items::Atomic);
        let port = &DECLARED["ContainerPort"].map.as_ref().unwrap().fields["protocol"];
        assert_eq!(port.default, Some("TCP".into()));
    }
}
