// What stands beside the list: the event at the cursor, the state, what it came of and led to.

function stateOf(object, number) {
  const fields = new Map();
  let version = null, changed = [], removed = [];
  for (const next of object.versions) {
    if (next.n !== undefined && next.n > number) break;
    version = next;
    changed = []; removed = [];
    for (const name of next.del || []) { removed.push([name, fields.get(name)]); fields.delete(name); }
    for (const [name, value] of next.set || []) { changed.push([name, fields.get(name)]); fields.set(name, value); }
  }
  const now = version !== null && version.n === number;
  const order = (name) => (name === "version" ? 0 : name === "list" ? 2 : 1);
  const lines = [...fields, ...(now ? removed.map(([name, value]) => [name, value === undefined ? "" : value, true]) : [])].sort(([a], [b]) => order(a) - order(b) || (a < b ? -1 : a > b ? 1 : 0));
  return { version, lines, now, changed: new Map(changed) };
}

const leap = (number) => el("button", { class: "mono", onclick: () => go(number, true) }, `#${number}`);

function objectCard(object, number) {
  const { version, lines, now, changed } = stateOf(object, number);
  if (version === null) return null;
  const body = el("table", {}, el("tbody", {}));
  // A long name stands above its value; where it comes from is cut to what tells it from others.
  const short = (name) => name.replace(/^spec\.template\.(?:metadata\.|spec\.)?/, "\u2026");
  const line = (name, value, mark) => body.firstChild.append(
    el("tr", { class: short(name).length > (aside.clientWidth < 330 ? 14 : 20) ? `${mark} long` : mark }, [el("td", { title: name }, short(name)), el("td", {}, value)]));
  for (const [name, value, gone] of lines) {
    if (!gone && now && changed.get(name) !== undefined) line(name, changed.get(name), "old");
    line(name, value, gone ? "old" : now && changed.has(name) ? "new" : "");
  }
  const title = [el("span", { class: "kind" }, object.kind), el("b", { title: `${object.namespace}/${object.name}` }, object.name)];
  const origin = version.n === undefined ? [el("button", { disabled: "" }, `r${version.r}`)] : [el("button", { title: "where it was written", onclick: () => go(version.n, true) }, `${version.gone ? "gone at " : ""}r${version.r}`)];
  return el("section", { class: `object${now ? " now" : ""}${version.gone ? " gone" : ""}` }, [el("div", {}, [...title, ...origin]), body]);
}

function drawAside() {
  const event = at(state.cursor), parts = [];
  if (event) {
    parts.push(el("h2", {}, `#${state.cursor} at ${clock(event.t)} s, ${laneName(event)}`), el("div", { class: "said" }, event.x));
    if (event.d) parts.push(el("div", { class: "detail" }, event.d));
    for (const violation of violatedAt.get(state.cursor) || []) {
      const [said, ...rest] = violation.detail || [];
      parts.push(el("details", { class: "claim" }, [
        el("summary", {}, [el("b", {}, `\u2717 ${violation.claim}${violation.excuse ? ` (excused by ${violation.excuse})` : ""}`), el("br", {}), said || ""]),
        ...rest.map((line) => el("p", {}, line)), violation.needs ? el("p", {}, `needs ${violation.needs}`) : null]));
    }
  }
  const ranked = T.objects.map((object, i) => {
    const last = object.versions.filter((version) => version.n === undefined || version.n <= state.cursor).pop();
    const pool = object.versions.some((version) => (version.set || []).some(([name]) => name === "list"));
    return last && { object, rank: (event && event.o === i ? 4e9 : 0) + (pool ? 2e9 : 0) + (last.gone ? -1e9 : 0) + (last.n === undefined ? -1 : last.n) };
  }).filter(Boolean).sort((a, b) => b.rank - a.rank);
  parts.push(el("h2", {}, `State at #${state.cursor}`));
  if (!ranked.length) parts.push(el("div", { class: "detail" }, "Nothing was written yet."));
  for (const { object } of ranked.slice(0, 4)) parts.push(objectCard(object, state.cursor));
  if (ranked.length > 4) {
    const more = el("details", { ontoggle: () => { if (more.open && more.childElementCount === 1) for (const { object } of ranked.slice(4, 204)) more.append(objectCard(object, state.cursor)); } },
      el("summary", {}, ranked.length === 5 ? "1 more object" : `${ranked.length - 4} more objects`));
    parts.push(more);
  }
  if (event) {
    const told = (number, how) => el("li", {}, [leap(number), el("span", { title: at(number) ? at(number).x : "" }, [how, at(number) ? `${how ? ": " : ""}${at(number).x}` : ""])]);
    if (event.b && event.b.length) parts.push(el("h2", {}, "Came of"), el("ul", {}, event.b.map((cause) => told(cause.event, cause.how.replace(/ (in|since)$/, "")))));
    const later = effects.get(state.cursor) || [];
    if (later.length) parts.push(el("h2", {}, "Led to"), el("ul", {}, later.slice(0, 8).map((number) => told(number, whose(number)))));
    if (later.length > 8) parts.push(el("div", { class: "detail" }, `and ${later.length - 8} more`));
  }
  const keys = [["\u2191 \u2193", "move"], ["[ ]", "in its lane"], ["v", "violation"], ["c", "causes"], ["/", "filter"], ["t", "theme"]];
  parts.push(el("p", { class: "keys" }, keys.map(([key, does]) => el("span", {}, [el("kbd", {}, key), ` ${does}`]))));
  aside.replaceChildren(...parts.filter(Boolean));
}
