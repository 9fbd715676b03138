// The address names the event at the cursor and the filters: who is given it sees the same.
function keepLink() {
  const parts = [String(state.cursor)];
  const add = (name, value) => value !== null && value !== "" && parts.push(`${name}=${encodeURIComponent(value)}`);
  add("text", state.text);
  add("hide", [...state.hidden].sort().join(","));
  add("lane", state.lane === null ? null : lanes[state.lane].name);
  add("object", state.object);
  if (state.followed) parts.push("followed");
  add("causes", state.chainOf);
  try { history.replaceState(null, "", `#${parts.join("&")}`); } catch { /* Some places do not let a page change its address. */ }
}
function resetFilters() {
  Object.assign(state, { text: "", hidden: new Set(), lane: null, object: null, followed: false });
  showCauses(null);
}
function takeLink() {
  const [number, ...parts] = location.hash.slice(1).split("&");
  if (/^\d+$/.test(number) && at(Number(number))) state.cursor = Number(number);
  const value = (text) => { try { return decodeURIComponent(text); } catch { return ""; } };
  for (const [name, text] of parts.map((part) => part.split("="))) {
    const said = value(text || "");
    if (name === "text") state.text = said;
    if (name === "hide") said.split(",").filter((kind) => toggles.has(kind)).forEach((kind) => state.hidden.add(kind));
    if (name === "lane" && lanes.some((lane) => lane.name === said)) state.lane = lanes.findIndex((lane) => lane.name === said);
    if (name === "object" && T.objects[Number(said)]) state.object = Number(said);
    if (name === "followed" && T.followed) state.followed = true;
    if (name === "causes") showCauses(/^\d+$/.test(said) && at(Number(said)) ? Number(said) : state.cursor);
  }
  showFilters();
}
