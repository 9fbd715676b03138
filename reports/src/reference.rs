//! Citations of the behavioural reference, and links to the cited places.
//!
//! Messages, lists and reports cite the reference by a letter and a place: `A §5.4`, `K070`, `G GL10`, `B C1 to C3`. [`places`] finds the
//! citations in a text, [`url`] links to one, [`legend`] lists the links of a whole text, and [`html`] turns them into links. The meanings
//! of the letters and numbers are in `docs/reference/README.md`; a test of the repository checks that each of its citations has its place
//! there.
//!
//! ```
//! use ipam_reports::reference;
//!
//! let places = reference::places("the endpoint is written last (A §5.7, W1; K070)");
//! let anchors: Vec<_> = places.iter().map(|place| place.path()).collect();
//! assert_eq!(anchors, ["docs/reference/allocation.md#a-5-7", "docs/reference/allocation.md#a-w1", "docs/reference/kubernetes.md#k070"]);
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::ops::Range;

/// The URL of the repository's files.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// The number of places up to which they are listed one by one.
const FEW: usize = 3;

/// A document of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Document {
    /// `A`: allocation by Spiderpool.
    Allocation,
    /// `B`: the BYOM pool of cloud-api-adaptor.
    Byom,
    /// `D`: the hardened form and its deviations.
    Deviations,
    /// `G`: reclaim by Spiderpool.
    Reclaim,
    /// `K`: Kubernetes, from API servers to kubelets.
    Kubernetes,
}

impl Document {
    /// Every document, by its letter.
    pub const ALL: [Self; 5] = [Self::Allocation, Self::Byom, Self::Deviations, Self::Reclaim, Self::Kubernetes];

    /// The letter by which it is cited.
    pub const fn letter(self) -> char {
        match self {
            Self::Allocation => 'A',
            Self::Byom => 'B',
            Self::Deviations => 'D',
            Self::Reclaim => 'G',
            Self::Kubernetes => 'K',
        }
    }

    /// The path of its file, from the root of the repository.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Allocation => "docs/reference/allocation.md",
            Self::Byom => "docs/reference/byom.md",
            Self::Deviations => "docs/reference/deviations.md",
            Self::Reclaim => "docs/reference/reclaim.md",
            Self::Kubernetes => "docs/reference/kubernetes.md",
        }
    }

    fn of(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|document| document.letter() as u8 == letter)
    }
}

/// A place of the reference that a text cites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The position of the citation in the text, in bytes. Of several places that share a letter, the first includes it.
    pub span: Range<usize>,
    /// The document that is cited.
    pub document: Document,
    /// The anchor in its file, without the `#`.
    pub anchor: String,
}

impl Place {
    /// The file and anchor, from the root of the repository.
    pub fn path(&self) -> String {
        format!("{}#{}", self.document.file(), self.anchor)
    }

    /// The URL of the place, for a browser.
    pub fn url(&self) -> String {
        format!("{REPOSITORY}{}", self.path())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

/// The URL of the first place that a text cites; `None` if it cites none.
pub fn url(text: &str) -> Option<String> {
    places(text).first().map(Place::url)
}

/// The place that describes a deviation.
pub fn deviation(name: &str) -> Place {
    Place { span: 0..0, document: Document::Deviations, anchor: name.to_owned() }
}

/// "see" and the URL of a citation, as the end of a sentence; the URL of the reference if it cites no place.
pub fn see(citation: &str) -> String {
    format!("see {}", url(citation).unwrap_or_else(|| format!("{REPOSITORY}docs/reference/README.md")))
}

/// The URLs of all cited places, a line each; only those of the documents if there are more than a few.
pub fn legend<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut cited: BTreeMap<(Document, String), String> = BTreeMap::new();
    for text in texts {
        for place in places(text) {
            let name = &text[place.span.clone()];
            let lettered = name.starts_with(place.document.letter());
            let name = if lettered { name.to_owned() } else { format!("{} {name}", place.document.letter()) };
            cited.entry((place.document, place.url())).or_insert(name);
        }
    }
    if cited.len() <= FEW {
        return cited.into_iter().map(|((_, url), name)| format!("{name}: {url}")).collect();
    }
    let documents: BTreeSet<Document> = cited.into_keys().map(|(document, _)| document).collect();
    documents.into_iter().map(|document| format!("{}: {REPOSITORY}{}", document.letter(), document.file())).collect()
}

/// Markup in which each citation is a link to its place.
pub fn html(markup: &str) -> String {
    let mut out = String::with_capacity(markup.len());
    let mut at = 0;
    for place in places(markup) {
        let _ = write!(out, "{}<a href=\"{}\">{}</a>", &markup[at..place.span.start], place.url(), &markup[place.span.clone()]);
        at = place.span.end;
    }
    out + &markup[at..]
}

/// Text in which each citation is a Markdown link to its place; `docs` is the path from the page to the folder `docs`.
pub fn markdown(text: &str, docs: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for place in places(text) {
        let file = place.document.file().trim_start_matches("docs/");
        let _ = write!(out, "{}[{}]({docs}{file}#{})", &text[at..place.span.start], &text[place.span.clone()], place.anchor);
        at = place.span.end;
    }
    out + &text[at..]
}

/// The places that a text cites, in the order of the text.
pub fn places(text: &str) -> Vec<Place> {
    let mut places = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if !text.is_char_boundary(at) || !starts_word(text, at) {
            at += 1;
            continue;
        }
        let scan = Scan { text };
        let (document, item) = match scan.letter(at) {
            Some((document, next)) => (Some(document), scan.item(next, Context::First)),
            None => (None, scan.unique(at)),
        };
        let Some(item) = item else {
            at += 1;
            continue;
        };
        at = scan.chain(at, document, item, &mut places);
    }
    places
}

/// Whether a word can start at a byte of a text.
fn starts_word(text: &str, at: usize) -> bool {
    !text[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || matches!(before, '_' | '-' | '/' | '.' | '§'))
}

/// The text that an item follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    /// The letter of its document.
    First,
    /// Another item and a separator.
    Next,
}

/// One item of a citation: the byte at which it ends, and its name.
struct Item {
    end: usize,
    name: Name,
}

#[derive(Clone, PartialEq, Eq)]
enum Name {
    /// A section: `§5.4`, as `5-4`.
    Section(String),
    /// A number such as `W13` or `P-8`, in lower case.
    Number(String),
    /// A number such as `K070` that names its document: the document and the anchor.
    Unique(Document, String),
}

#[derive(Clone, Copy)]
struct Scan<'a> {
    text: &'a str,
}

impl Scan<'_> {
    fn rest(&self, at: usize) -> &str {
        &self.text[at..]
    }

    /// The length of a run of white space, in bytes.
    fn blanks(&self, at: usize) -> usize {
        self.rest(at).bytes().take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    /// The letter of a document and the byte after the white space that follows it.
    fn letter(&self, at: usize) -> Option<(Document, usize)> {
        let document = Document::of(*self.text.as_bytes().get(at)?)?;
        let blanks = self.blanks(at + 1);
        (blanks > 0).then_some((document, at + 1 + blanks))
    }

    /// Reads all items that share the letter of the first one.
    fn chain(&self, start: usize, document: Option<Document>, first: Item, places: &mut Vec<Place>) -> usize {
        let mut section = None;
        let mut span = start..first.end;
        let mut item = first;
        loop {
            let mut end = item.end;
            let (of, anchor) = match (&item.name, document) {
                (Name::Unique(of, anchor), _) => (*of, anchor.clone()),
                (Name::Section(number), Some(of)) => {
                    let letter = of.letter().to_ascii_lowercase();
                    let (rule, next) = self.rule(of, number, end);
                    end = self.qualifier(next);
                    section = Some(number.clone());
                    (of, format!("{letter}-{number}{rule}"))
                }
                (Name::Number(number), Some(of)) => {
                    let letter = of.letter().to_ascii_lowercase();
                    // The disagreements between documents and code have the same numbers as the steps of a DEL.
                    let table = of == Document::Allocation && section.as_deref() == Some("12") && number.starts_with('d');
                    (of, format!("{letter}-{}{number}", if table { "12-" } else { "" }))
                }
                _ => return item.end,
            };
            span.end = end;
            places.push(Place { span: span.clone(), document: of, anchor });
            let after_section = matches!(item.name, Name::Section(_));
            match self.next(end, document.is_some(), after_section) {
                Some((begin, next)) => {
                    span = begin..next.end;
                    item = next;
                }
                None => return end,
            }
        }
    }

    /// Reads `rule 9` after `A §3`, which has its own anchor.
    fn rule(&self, document: Document, section: &str, at: usize) -> (String, usize) {
        if document != Document::Allocation || section != "3" {
            return (String::new(), at);
        }
        let blanks = self.blanks(at);
        let Some(rest) = self.rest(at + blanks).strip_prefix("rule ").filter(|_| blanks > 0) else {
            return (String::new(), at);
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return (String::new(), at);
        }
        (format!("-rule-{}", &rest[..digits]), at + blanks + "rule ".len() + digits)
    }

    /// Skips `step 5` or `hazard (a)`, which name a place within a section.
    fn qualifier(&self, at: usize) -> usize {
        let begin = at + self.blanks(at);
        for word in ["step ", "hazard (", "hazard "] {
            let Some(rest) = self.rest(begin).strip_prefix(word).filter(|_| begin > at) else { continue };
            let length = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
            let closed = usize::from(word.ends_with('(') && rest[length..].starts_with(')'));
            let is_one = length <= 2 && rest.starts_with(|first: char| first.is_ascii_digit() || first.is_ascii_lowercase());
            if is_one {
                return begin + word.len() + length + closed;
            }
        }
        at
    }

    /// The next item of a list, and its beginning.
    fn next(&self, at: usize, lettered: bool, after_section: bool) -> Option<(usize, Item)> {
        let blanks = self.blanks(at);
        let rest = self.rest(at + blanks);
        let separator = ["to ", "and ", "or "].into_iter().find(|word| blanks > 0 && rest.starts_with(word));
        let begin = match separator {
            Some(word) => at + blanks + word.len(),
            None if blanks == 0 && rest.starts_with([',', ';', '/', ':']) => {
                let mut begin = at + 1 + self.blanks(at + 1);
                for word in ["and ", "also "] {
                    begin += if self.rest(begin).starts_with(word) { word.len() } else { 0 };
                }
                begin
            }
            // "A §5.2 A10", "A §5.2, step A8"
            None if after_section && blanks > 0 => at + blanks,
            None => return None,
        };
        let mut begin = begin + self.blanks(begin);
        if let Some(word) = ["steps ", "step ", "steps\n", "step\n"].into_iter().find(|word| self.rest(begin).starts_with(word)) {
            let inner = begin + word.len();
            let inner = inner + self.blanks(inner);
            // "step 5" is within its section.
            if self.rest(inner).starts_with(|first: char| first.is_ascii_uppercase()) {
                begin = inner;
            }
        }
        // Another letter begins another citation.
        if self.letter(begin).is_some_and(|(_, next)| self.item(next, Context::First).is_some()) {
            return None;
        }
        let item = match self.unique(begin) {
            Some(item) => item,
            None if lettered => self.item(begin, Context::Next)?,
            None => return None,
        };
        let plain = separator.is_none() && blanks > 0 && after_section;
        (!plain || matches!(item.name, Name::Number(_) | Name::Unique(..))).then_some((begin, item))
    }

    /// Reads a section or a number.
    fn item(&self, at: usize, context: Context) -> Option<Item> {
        if let Some(item) = self.unique(at) {
            return Some(item);
        }
        let rest = self.rest(at);
        if let Some(number) = rest.strip_prefix('§') {
            let length = dotted(number)?;
            let name = Name::Section(number[..length].replace('.', "-"));
            return Some(Item { end: at + '§'.len_utf8() + length, name });
        }
        if rest.starts_with(|first: char| first.is_ascii_digit()) {
            let length = dotted(rest)?;
            let number = &rest[..length];
            // A bare number counts as a section only where nothing else can be meant.
            let after = &rest[length..];
            let ends = after.is_empty()
                || after.starts_with([')', ',', ';', ':', '"'])
                || after.starts_with(" to ")
                || after.starts_with(" rule ");
            let ends = ends || (after.starts_with('.') && !after[1..].starts_with(|next: char| next.is_ascii_digit()));
            let is_section = match number.contains('.') {
                true => ends || (context == Context::First && after.starts_with(' ') && !after.starts_with(" %")),
                false => ends && number.len() <= 2,
            };
            let number_of_more = context == Context::Next && !number.contains('.') && after.starts_with('.');
            return (is_section && !number_of_more).then(|| Item { end: at + length, name: Name::Section(number.replace('.', "-")) });
        }
        let letters = rest.bytes().take_while(u8::is_ascii_uppercase).count();
        let digits = rest[letters..].bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=2).contains(&letters) || !(1..=2).contains(&digits) {
            return None;
        }
        let mut length = letters + digits;
        length += rest[length..].bytes().take_while(|byte| (b'a'..=b'd').contains(byte)).count();
        (!goes_on(&rest[length..])).then(|| Item { end: at + length, name: Name::Number(rest[..length].to_lowercase()) })
    }

    /// Reads a number that names its document.
    fn unique(&self, at: usize) -> Option<Item> {
        let rest = self.rest(at);
        let digits = |skip: usize| rest.get(skip..).map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        let item = |length: usize, document: Document, anchor: String| {
            (!goes_on(&rest[length..])).then_some(Item { end: at + length, name: Name::Unique(document, anchor) })
        };
        if rest.starts_with('K') && digits(1) == 3 {
            return item(4, Document::Kubernetes, rest[..4].to_lowercase());
        }
        if rest.starts_with('G') && digits(1) == 5 {
            return item(6, Document::Reclaim, rest[..6].to_lowercase());
        }
        for prefix in ["GS", "GL", "EX"] {
            let count = digits(2);
            if rest.starts_with(prefix) && (1..=2).contains(&count) {
                return item(2 + count, Document::Reclaim, format!("g-{}", rest[..2 + count].to_lowercase()));
            }
        }
        let letters = rest.bytes().take_while(u8::is_ascii_uppercase).count();
        let prefix = &rest[..letters];
        let row = rest[letters..].strip_prefix('-')?;
        let count = row.bytes().take_while(u8::is_ascii_digit).count();
        let word = row[count..].bytes().take_while(u8::is_ascii_lowercase).count();
        let length = letters + 1 + count + word;
        match prefix {
            "I" | "S" | "P" | "U" | "E" | "TD" | "XD" | "DC" if (1..=2).contains(&count) => {
                item(length, Document::Reclaim, format!("g-{}", rest[..length].to_lowercase()))
            }
            "G" if count == 0 => {
                let known = ["over", "trace", "inside", "crash"].contains(&&row[..word]);
                let length = letters + 1 + row.bytes().take_while(|byte| byte.is_ascii_lowercase() || *byte == b'-').count();
                known.then(|| Item {
                    end: at + length,
                    name: Name::Unique(Document::Reclaim, format!("g-{}", rest[..length].to_lowercase())),
                })
            }
            _ => None,
        }
    }
}

/// The length of a number with points, such as `14.25`, in bytes.
fn dotted(text: &str) -> Option<usize> {
    let mut length = 0;
    loop {
        let digits = text[length..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return (length > 0).then(|| length - 1);
        }
        length += digits;
        if !text[length..].starts_with('.') {
            return (!goes_on(&text[length..])).then_some(length);
        }
        length += 1;
    }
}

/// Whether a word goes on, so that the text before it is not a number of the reference.
fn goes_on(rest: &str) -> bool {
    let mut chars = rest.chars();
    match chars.next() {
        Some('-' | '_') => true,
        Some(first) => first.is_alphanumeric(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors(text: &str) -> Vec<String> {
        places(text).into_iter().map(|place| place.anchor).collect()
    }

    #[test]
    fn a_citation_is_a_letter_and_a_place() {
        assert_eq!(anchors("(A §5.4)"), ["a-5-4"]);
        assert_eq!(anchors("K §2.13: 34 s"), ["k-2-13"]);
        assert_eq!(anchors("see B W13."), ["b-w13"]);
        assert_eq!(anchors("(A 14.25, 14.26)"), ["a-14-25", "a-14-26"]);
        assert_eq!(anchors("(D §1.3.1)"), ["d-1-3-1"]);
    }

    #[test]
    fn several_places_share_a_letter() {
        assert_eq!(anchors("(A §6.2, W8, §14.25)"), ["a-6-2", "a-w8", "a-14-25"]);
        assert_eq!(anchors("(B C1 to C3, §3.2)"), ["b-c1", "b-c3", "b-3-2"]);
        assert_eq!(anchors("(G 1.6, 4.4, 8, R1, 12: G00008)"), ["g-1-6", "g-4-4", "g-8", "g-r1", "g-12", "g00008"]);
        assert_eq!(anchors("(A §2.1; K §4.4, K070)"), ["a-2-1", "k-4-4", "k070"]);
        assert_eq!(anchors("(A 8.4 U3 and U4)"), ["a-8-4", "a-u3", "a-u4"]);
        assert_eq!(anchors("(A §5.2, steps\n    A8 to A16)"), ["a-5-2", "a-a8", "a-a16"]);
    }

    #[test]
    fn some_numbers_need_no_letter() {
        assert_eq!(
            anchors("(K124), GS7, G GL10 and EX1: P-8off, G-over-static"),
            ["k124", "g-gs7", "g-gl10", "g-ex1", "g-p-8off", "g-g-over-static"]
        );
    }

    #[test]
    fn rules_and_disagreements_have_anchors_of_their_own() {
        assert_eq!(anchors("(A §3 rule 9)"), ["a-3-rule-9"]);
        assert_eq!(anchors("(A §12 D7, §7.1 D9)"), ["a-12", "a-12-d7", "a-7-1", "a-d9"]);
    }

    #[test]
    fn a_step_of_a_section_is_passed_over() {
        assert_eq!(anchors("(A §2.2 step 1, §14.8)"), ["a-2-2", "a-14-8"]);
        assert_eq!(anchors("(A §1.6 hazard (a), §9.1: so)"), ["a-1-6", "a-9-1"]);
        assert_eq!(anchors("B §8.3: 9.7 % of five"), ["b-8-3"]);
    }

    #[test]
    fn prose_is_no_citation() {
        for text in [
            "A 60-second tour",
            "A 2xx answer",
            "A 409 takes longer",
            "A 5 % chance",
            "pool-A 5.4",
            "WORKER9",
            "web-S-3",
            "B is 7",
            "K",
            "A §",
        ] {
            assert!(places(text).is_empty(), "{text}: {:?}", places(text));
        }
    }

    #[test]
    fn a_place_can_be_read() {
        assert_eq!(url("(G §10.2)").unwrap(), "https://github.com/ipam-sim/ipam-sim/blob/main/docs/reference/reclaim.md#g-10-2");
        assert_eq!(url("nothing"), None);
        assert_eq!(deviation("ties-in-any-order").path(), "docs/reference/deviations.md#ties-in-any-order");
    }

    #[test]
    fn a_legend_tells_places_or_documents() {
        let base = "https://github.com/ipam-sim/ipam-sim/blob/main/docs/reference";
        assert_eq!(
            legend(["so (G §10.2)", "and (G §10.2)", "so (GL4)"]),
            [format!("G §10.2: {base}/reclaim.md#g-10-2"), format!("GL4: {base}/reclaim.md#g-gl4"),]
        );
        let many = ["A S1", "A S2", "B I1", "K070"];
        assert_eq!(legend(many), [format!("A: {base}/allocation.md"), format!("B: {base}/byom.md"), format!("K: {base}/kubernetes.md"),]);
        assert!(legend(["nothing"]).is_empty());
    }

    #[test]
    fn citations_become_links() {
        let link = |anchor: &str, name: &str| {
            format!("<a href=\"https://github.com/ipam-sim/ipam-sim/blob/main/docs/reference/byom.md#{anchor}\">{name}</a>")
        };
        assert_eq!(html("so (B §8.2, W1) &amp; so"), format!("so ({}, {}) &amp; so", link("b-8-2", "B §8.2"), link("b-w1", "W1")));
        assert_eq!(html("nothing"), "nothing");
    }

    #[test]
    fn spans_are_those_of_the_citations() {
        let text = "is (A §6.2, W8) so";
        let spans: Vec<_> = places(text).into_iter().map(|place| &text[place.span]).collect();
        assert_eq!(spans, ["A §6.2", "W8"]);
    }
}
