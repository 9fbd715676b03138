//! Open watches, and their records.

use std::pin::pin;

use futures_util::future::{Either, select};

use crate::json::{Json, Map};
use crate::server::{EventStream, Server};
use crate::step::{Collect, Until};

/// A watch that was opened and not hung up.
pub(crate) struct Open<S> {
    stream: S,
    ended: bool,
    /// Whether bookmarks were asked for.
    asked: bool,
}

impl<S: EventStream> Open<S> {
    pub(crate) fn new(stream: S, asked: bool) -> Self {
        Self { stream, ended: false, asked }
    }

    /// Waits for the events of a step, then listens for a while: an additional event is a difference as well.
    pub(crate) async fn collect(&mut self, server: &impl Server, collect: &Collect) -> Map {
        let mut lines = Vec::new();
        {
            let mut counted = 0;
            let mut limit = pin!(server.sleep(collect.max));
            while !self.ended && (collect.until == Some(Until::End) || counted < collect.count) {
                let Some(line) = self.next(limit.as_mut()).await else { break };
                counted += usize::from(counts(&line));
                lines.push(line);
            }
        }
        let mut quiet = pin!(server.sleep(collect.quiet));
        while !self.ended
            && let Some(line) = self.next(quiet.as_mut()).await
        {
            lines.push(line);
        }
        let mut result = Map::from([("events".to_owned(), Json::Array(self.events(collect, lines)))]);
        if self.ended {
            result.insert("ended".to_owned(), Json::Bool(true));
        }
        result
    }

    /// The next line; `None` = the stream has ended, or `limit` has passed without one.
    async fn next(&mut self, mut limit: impl Future<Output = ()> + Unpin) -> Option<Vec<u8>> {
        loop {
            match select(pin!(self.stream.next()), &mut limit).await {
                Either::Left((Some(line), _)) if line.trim_ascii().is_empty() => {}
                Either::Left((Some(line), _)) => return Some(line),
                Either::Left((None, _)) => {
                    self.ended = true;
                    return None;
                }
                Either::Right(_) => return None,
            }
        }
    }

    /// The events to record. The number and place of bookmarks depends on timing: in a case about them, the last one counts if nothing
    /// follows it; elsewhere requested ones are dropped, and others are kept.
    fn events(&self, collect: &Collect, lines: Vec<Vec<u8>>) -> Vec<Json> {
        let mut events: Vec<Json> = lines.iter().map(|line| Json::read(line).unwrap_or_else(|_| no_json(line))).collect();
        if collect.bookmark {
            let last = events.pop();
            events.retain(|event| !is_plain_bookmark(event));
            events.extend(last);
        } else if self.asked {
            events.retain(|event| !is_plain_bookmark(event));
        }
        let first = collect.sort_first.min(events.len());
        events[..first].sort_by_key(by_name);
        events
    }
}

fn no_json(line: &[u8]) -> Json {
    let text = String::from_utf8_lossy(line).into_owned();
    Json::Object(Map::from([("type".to_owned(), "<no JSON>".into()), ("object".to_owned(), text.into())]))
}

/// Whether a line counts: bookmarks do not, except the one that ends the initial events.
fn counts(line: &[u8]) -> bool {
    let has = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
    !has(&line[..line.len().min(40)], b"\"BOOKMARK\"") || has(line, b"initial-events-end")
}

fn metadata(event: &Json) -> Option<&Json> {
    event.get("object")?.get("metadata")
}

/// A bookmark that does not end the initial events.
fn is_plain_bookmark(event: &Json) -> bool {
    let mark = metadata(event).and_then(|metadata| metadata.get("annotations")?.get("k8s.io/initial-events-end"));
    event.get("type").and_then(Json::as_str) == Some("BOOKMARK") && mark.is_none()
}

/// The sort key of an event; the bookmark that ends the initial events has no name, and comes last.
fn by_name(event: &Json) -> (bool, String, String) {
    let of = |name: &str| metadata(event).and_then(|metadata| metadata.get(name));
    let text = |name: &str| of(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    (of("name").is_none(), text("namespace"), text("name"))
}
