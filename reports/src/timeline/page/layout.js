// The parts of the page, and how wide the columns are.

const stage = el("div", { id: "stage", tabindex: "0", "aria-label": "events" });
const canvas = el("div", { id: "canvas" });
const view = el("div", { id: "window" });
const aside = el("aside", { "aria-live": "polite" });
const overview = svg(null, "svg", { id: "overview", role: "img", "aria-label": "the whole run by time" });

const ROW = 22, HEAD = 146, NO_W = 52, TIME_W = 88, STORE_W = 58;
// Below this width of the list the lanes are left out.
const NARROW = 560;
// And below this one they take less of it.
const MEDIUM = 860;
// How tall the head of the list is: without lanes it has no names.
const head = () => (document.body.classList.contains("narrow") ? 24 : HEAD);

const shownSlots = Math.min(faultSlots.count, 6);
const gutter = T.faults.length ? shownSlots * 14 + 10 : 4;
const LEFT = TIME_W + NO_W;
// The column of names; in a list that is not wide it leaves room to the texts.
const whoWidth = () => Math.min(stage.clientWidth < MEDIUM ? 76 : 116, Math.max(40, ...lanes.map((lane) => lane.name.length * 6.4 + 8)));
let widths = [], lefts = [], lanesWidth = 0;
const xOf = (lane) => lefts[lane] + widths[lane] / 2;
// The lanes take what the texts can spare; those in which nothing happens take little.
function layout() {
  // Where there is no room for both, the text is what counts.
  const narrow = stage.clientWidth < NARROW;
  document.body.classList.toggle("narrow", narrow);
  if (narrow) {
    widths = lanes.map(() => 0);
    lefts = lanes.map(() => 0);
    lanesWidth = 0;
    return;
  }
  const quiet = lanes.filter((lane, i) => lane.role !== "store" && !busy.has(i)).length, loud = Math.max(1, lanes.length - quiet - 1);
  const medium = stage.clientWidth < MEDIUM;
  const room = (stage.clientWidth - LEFT) * (medium ? 0.36 : 0.5) - gutter - STORE_W - quiet * 16;
  const each = clamp(Math.floor(room / loud), medium ? 13 : 19, 46);
  widths = lanes.map((lane, i) => (lane.role === "store" ? STORE_W : busy.has(i) ? each : 16));
  lefts = widths.map((_, i) => gutter + widths.slice(0, i).reduce((sum, width) => sum + width, 0));
  lanesWidth = gutter + widths.reduce((sum, width) => sum + width, 0) + 6;
}
