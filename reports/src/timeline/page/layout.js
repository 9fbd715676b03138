// The parts of the page, and how wide the columns are.

const stage = el("div", { id: "stage", tabindex: "0", "aria-label": "events" });
const canvas = el("div", { id: "canvas" });
const view = el("div", { id: "window" });
const aside = el("aside", { "aria-live": "polite" });
const overview = svg(null, "svg", { id: "overview", role: "img", "aria-label": "the whole run by time" });

const ROW = 22, NO_W = 52, TIME_W = 88, STORE_W = 58;
// Where the lanes would leave less than this to the texts, they are left out.
const TEXT_MIN = 300;
// In a list narrower than this the lanes take less of it, in one wider than that the names may take more.
const MEDIUM = 860, WIDE = 1300;

const shownSlots = Math.min(faultSlots.count, 6);
const gutter = T.faults.length ? shownSlots * 14 + 10 : 4;
const LEFT = TIME_W + NO_W;
// The column of names; in a list that is not wide it leaves room to the texts.
const whoWidth = () => {
  const most = stage.clientWidth < MEDIUM ? 76 : stage.clientWidth > WIDE ? 170 : 116;
  return Math.min(most, Math.max(40, ...lanes.map((lane) => lane.name.length * 6.4 + 8)));
};
// `headHeight`: that of the names above the list. Without lanes there are none.
let widths = [], lefts = [], lanesWidth = 0, headHeight = 0;
const xOf = (lane) => lefts[lane] + widths[lane] / 2;
// The lanes take what the texts can spare; those in which nothing happens take little.
function layout() {
  const quiet = lanes.filter((lane, i) => lane.role !== "store" && !busy.has(i)).length, loud = Math.max(1, lanes.length - quiet - 1);
  const medium = stage.clientWidth < MEDIUM;
  const room = (stage.clientWidth - LEFT) * (medium ? 0.36 : 0.5) - gutter - STORE_W - quiet * 16;
  const each = clamp(Math.floor(room / loud), medium ? 13 : 19, 46);
  widths = lanes.map((lane, i) => (lane.role === "store" ? STORE_W : busy.has(i) ? each : 16));
  lefts = widths.map((_, i) => gutter + widths.slice(0, i).reduce((sum, width) => sum + width, 0));
  lanesWidth = gutter + widths.reduce((sum, width) => sum + width, 0) + 6;
  headHeight = Math.min(innerHeight < 700 ? 90 : 162, Math.max(...lanes.map((lane) => lane.name.length)) * 6.4 + 24);
  // Where there is no room for both, the text is what counts.
  const narrow = stage.clientWidth - LEFT - lanesWidth < TEXT_MIN;
  document.body.classList.toggle("narrow", narrow);
  if (narrow) {
    widths = lanes.map(() => 0);
    lefts = lanes.map(() => 0);
    lanesWidth = 0;
    headHeight = 24;
  }
}
