// What stands beside the list: the event at the cursor, its causes and effects, and the state.

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

// The button is gone after the leap: the list takes the focus.
const leap = (number, attributes, text) => el("button", { ...attributes, onclick: () => { go(number, true); stage.focus(); } }, text);

function objectCard(object, number) {
  const { version, lines, now, changed } = stateOf(object, number);
  if (version === null) return null;
  const body = el("table", {}, el("tbody", {}));
  // Of a path only what tells it from others. A name that is too long for its column stands in one line with a short value, above a long one.
  const short = (name) => name.replace(/^(?:data\.)?spec\.template\.(?:metadata\.|spec\.)?/, "\u2026").replace(/^(?:data\.)?spec\.selector\.matchLabels\./, "\u2026selector.");
  const line = (name, value, mark) => {
    const long = short(name).length > (aside.clientWidth < 330 ? 14 : 20), fits = short(name).length + value.length <= 34;
    body.firstChild.append(el("tr", { class: `${mark}${long ? (fits ? " tight" : " long") : ""}` }, [
      el("td", { title: name }, short(name)), el("td", {}, value === "" ? el("i", {}, "none") : value)]));
  };
  for (const [name, value, gone] of lines) {
    if (!gone && now && changed.get(name) !== undefined) line(name, changed.get(name), "old");
    line(name, value, gone ? "old" : now && changed.has(name) ? "new" : "");
  }
  const title = [el("span", { class: "kind" }, object.kind), el("b", { title: `${object.namespace}/${object.name}` }, object.name)];
  const origin = version.n === undefined ? [el("button", { disabled: "" }, `r${version.r}`)] : [leap(version.n, { title: "where it was written" }, `${version.gone ? "gone at " : ""}r${version.r}`)];
  return el("section", { class: `object${now ? " now" : ""}${version.gone ? " gone" : ""}` }, [el("div", {}, [...title, ...origin]), body]);
}

// Which claims the reader has opened, and whether all objects: that outlives the next step.
const opened = { claims: new Set(), objects: false };

function claimCard(told) {
  const { violation } = told, [said = "", ...rest] = violation.detail || [];
  const excuse = violation.excuse ? ` (excused by ${violation.excuse})` : "", when = told.at === at(violation.to).t ? "" : `, at ${seconds(violation.at_s)}`;
  const card = el("details", { class: "claim", open: opened.claims.has(violation.claim) ? "" : null, ontoggle: () => opened.claims[card.open ? "add" : "delete"](violation.claim) }, [
    el("summary", {}, [el("b", {}, `${claimOf(told)}${excuse}${when}`), el("br", {}), said]),
    ...rest.map((line) => el("p", {}, line)), violation.needs ? el("p", {}, `needs ${violation.needs}`) : null]);
  return card;
}

// Whether the detail of an event says what neither its line nor the heading does. Types are singular in lines, plural in details.
function addsTo(event) {
  const split = (text) => text.toLowerCase().split(/[^\w.-]+/).filter(Boolean);
  const names = [event.l, event.p].filter((lane) => lane !== undefined).map((lane) => lanes[lane].name);
  const line = split(event.x), namespaces = T.objects.filter((object) => line.includes(object.name.toLowerCase())).map((object) => object.namespace);
  const known = new Set([...line, ...split([...names, ...namespaces, "revision"].join(" "))].flatMap((word) => [word, `${word}s`, `${word}es`, word.replace(/y$/, "ies"), word.replace(/^r(?=\d+$)/, "")]));
  return !split(event.d).every((word) => known.has(word));
}

function drawAside() {
  const event = at(state.cursor), parts = [], top = aside.scrollTop;
  const list = (title, numbers, how) => numbers.length && parts.push(el("h2", {}, title), el("ul", {}, numbers.slice(0, 8).map((number, i) => {
    const said = [how(number, i), at(number) ? at(number).x : ""].filter(Boolean).join(": ");
    return el("li", {}, [leap(number, { class: "mono" }, `#${number}`), el("span", { title: said }, said)]);
  })), numbers.length > 8 ? el("div", { class: "detail" }, `and ${numbers.length - 8} more`) : null);
  if (event) {
    const way = { request: " \u2192 ", answer: " \u2190 ", deliver: " \u2190 " }[event.k], peer = way && event.p !== undefined ? way + lanes[event.p].name : "";
    parts.push(el("h2", {}, `#${state.cursor} at ${clock(event.t)} s, ${laneName(event)}${peer}`), el("div", { class: "said" }, event.x));
    if (event.d && addsTo(event)) parts.push(el("div", { class: "detail" }, event.d));
    parts.push(...(violatedAt.get(state.cursor) || []).map(claimCard));
    const causes = event.b || [];
    list("Causes", causes.map((cause) => cause.event), (_, i) => causes[i].how.replace(/ (in|since)$/, ""));
    list("Effects", effects.get(state.cursor) || [], whose);
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
    const fill = () => more.childElementCount === 1 && more.append(...ranked.slice(4, 204).map(({ object }) => objectCard(object, state.cursor)));
    const more = el("details", { open: opened.objects ? "" : null, ontoggle: () => { opened.objects = more.open; if (more.open) fill(); } },
      el("summary", {}, ranked.length === 5 ? "1 more object" : `${ranked.length - 4} more objects`));
    if (opened.objects) fill();
    parts.push(more);
  }
  const keys = [
    ["\u2191 \u2193 k j", "move"], ["Page Up Page Down", "by a page"], ["Home End", "first, last"], ["[ ]", "previous, next in this lane"], ["v", "violation"],
    ["c", "causes"], ["/", "filter"], ["Enter", "from the filter to the list"], ["Esc", "clear its text"], ["t", "theme"],
  ];
  parts.push(el("p", { class: "keys" }, keys.map(([key, does]) => el("span", {}, [el("kbd", {}, key), ` ${does}`]))));
  aside.replaceChildren(...parts.filter(Boolean));
  aside.scrollTop = top;
}
