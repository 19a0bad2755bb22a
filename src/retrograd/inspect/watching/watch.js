const W = 460, H = 210, LEFT = 52, RIGHT = 10, TOP = 10, BOTTOM = 24;
const steps = DATA.steps, first = steps[0], last = steps[steps.length - 1];
const MOST = 8; // curves in color at first
let at = steps.length - 1;
const charts = [];

// Texts

const share = (x) => (typeof x === "number" ? `${Number((100 * x).toPrecision(3))} %` : short(x));

// Scales

const across = (step) => LEFT + (last > first ? (step - first) / (last - first) : 0.5) * (W - LEFT - RIGHT);

function frame(parent, scale, label) {
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", tabindex: 0, role: "slider", "aria-label": label, "aria-valuemin": first, "aria-valuemax": last }, parent);
  if (scale) ruled(plot, scale, LEFT, W - RIGHT);
  for (const step of niceTicks(first, last, 6).filter(Number.isInteger)) {
    svg("text", { x: across(step), y: H - 7, "text-anchor": across(step) > W - 30 ? "end" : "middle" }, plot, step);
  }
  return plot;
}

// Curves

const path = (values, scale) => curvePath(values, scale, (index) => across(steps[index]));

const dashes = (place) => (place % 8 < 4 ? "none" : place < 8 ? "6 3" : "2 3");
const ink = (place) => `stroke:var(--c${place % 8});stroke-dasharray:${dashes(place)}`;

class Chart {
  // series: [{name, values}]; those with a place among `shown` are drawn in color, the others faintly.
  constructor(title, note, series, options = {}) {
    Object.assign(this, { title, series, options });
    this.figure = html("figure", undefined, $("charts"));
    const caption = html("figcaption", title, this.figure);
    if (note) html("small", `  ${note}`, caption);
    this.holder = html("div", undefined, this.figure);
    this.legend = html("ul", undefined, this.figure, "legend");
    charts.push(this);
    this.draw();
  }

  draw() {
    const { log, fixed, guide, picked } = this.options;
    const values = this.series.flatMap((s) => s.values);
    const positive = values.every((x) => typeof x !== "number" || x >= 0) && values.some((x) => x > 0);
    const scale = upScale(values, log && positive, TOP, H - BOTTOM, fixed);
    const focused = document.activeElement === this.plot;
    this.holder.replaceChildren();
    this.legend.replaceChildren();
    this.plot = frame(this.holder, scale, this.title);
    if (scale && guide !== undefined && guide >= scale.low && guide <= scale.high) {
      svg("line", { x1: LEFT, x2: W - RIGHT, y1: scale.place(guide), y2: scale.place(guide), class: "guide" }, this.plot);
    }
    for (const alarm of DATA.alarms) {
      if (this.options.alarms && this.options.alarms.includes(alarm.reason)) {
        svg("line", { x1: across(alarm.step), x2: across(alarm.step), y1: TOP, y2: H - BOTTOM, class: "alarm" }, this.plot);
      }
    }
    const shown = picked ? picked() : this.series.map((s) => s.name);
    this.shown = this.series.filter((s) => shown.includes(s.name));
    if (scale) {
      for (const s of this.series) if (!this.shown.includes(s)) svg("path", { d: path(s.values, scale), class: "faint" }, this.plot);
      this.shown.forEach((s) => svg("path", { d: path(s.values, scale), style: ink(shown.indexOf(s.name)) }, this.plot));
      this.series.forEach((s) => s.values.forEach((y, index) => {
        if (typeof y === "string" && !(guide && y === "inf")) svg("text", { x: across(steps[index]), y: TOP + 4, "text-anchor": "middle", style: "fill:var(--bad)" }, this.plot, "\u00d7");
      }));
    }
    this.outputs = this.shown.map((s) => {
      const item = html("li", undefined, this.legend);
      const sample = svg("svg", { width: 22, height: 8, "aria-hidden": true }, item);
      svg("line", { x1: 1, x2: 21, y1: 4, y2: 4, "stroke-width": 2.5, style: ink(shown.indexOf(s.name)) }, sample);
      html("span", s.label || s.name, item);
      return html("output", "", item);
    });
    this.cursor = svg("line", { y1: TOP, y2: H - BOTTOM, class: "cursor" }, this.plot);
    listen(this.plot);
    this.move();
    if (focused) this.plot.focus();
  }

  move() {
    moveCursor(this);
    const tell = this.options.share ? share : short;
    this.shown.forEach((s, index) => (this.outputs[index].textContent = tell(s.values[at])));
    const told = this.shown.map((s) => `${s.name} ${tell(s.values[at])}`).join(", ");
    this.plot.setAttribute("aria-valuetext", `step ${steps[at]}: ${told}`);
  }
}

function moveCursor(chart) {
  const x = across(steps[at]);
  chart.cursor.setAttribute("x1", x);
  chart.cursor.setAttribute("x2", x);
  chart.plot.setAttribute("aria-valuenow", steps[at]);
}

function go(index) {
  index = Math.max(0, Math.min(steps.length - 1, index));
  if (index === at) return;
  at = index;
  for (const chart of charts) chart.move();
  tables();
}

function nearest(step) {
  let low = 0, high = steps.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= step) low = middle; else high = middle;
  }
  return step - steps[low] <= steps[high] - step ? low : high;
}

function listen(plot) {
  const point = (event) => {
    const box = plot.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * W;
    go(nearest(first + ((x - LEFT) / (W - LEFT - RIGHT)) * (last - first)));
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("keydown", (event) => {
    const by = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: at - by, ArrowRight: at + by, Home: 0, End: steps.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to);
  });
}

// Distributions: one column per record, on bins that all share

class HeatMap {
  constructor(title, what) {
    Object.assign(this, { title, what });
    this.figure = html("figure", undefined, $("maps"));
    html("figcaption", title, this.figure);
    this.holder = html("div", undefined, this.figure);
    this.told = html("p", "", this.figure, "told");
    charts.push(this);
    this.draw();
  }

  draw() {
    const parameter = this.parameter = DATA.parameters[Number($("which").value)];
    const found = parameter ? parameter[this.what] : [];
    const known = found.filter((x) => x && typeof x[0] === "number");
    this.holder.replaceChildren();
    const middle = (values, part) => values.sort((a, b) => a - b)[Math.floor(part * (values.length - 1))];
    let low = known.length ? middle(known.map((x) => x[0]), 0.05) : 0, high = known.length ? middle(known.map((x) => x[1]), 0.95) : 1;
    if (!(high > low)) { low -= Math.abs(low) / 2 || 0.5; high += Math.abs(high) / 2 || 0.5; }
    const scale = upScale([low, high], false, TOP, H - BOTTOM);
    this.plot = frame(this.holder, scale, this.title);
    const rows = 36, tall = (H - TOP - BOTTOM) / rows;
    const edges = DATA.columns.map((index, column) => {
      const before = column ? DATA.columns[column - 1] : index;
      return (across(steps[before]) + across(steps[index])) / 2;
    });
    edges.push(W - RIGHT);
    if (edges.length === 2) edges[0] = LEFT;
    found.forEach((one, column) => {
      if (!one || typeof one[0] !== "number") return;
      const density = spread(one, low, high, rows), most = Math.max(...density);
      density.forEach((x, row) => {
        if (x > 0) svg("rect", { x: edges[column].toFixed(2), y: (H - BOTTOM - (row + 1) * tall).toFixed(2), width: (edges[column + 1] - edges[column] + 0.3).toFixed(2), height: (tall + 0.3).toFixed(2), fill: "var(--c0)", "fill-opacity": (0.08 + 0.92 * Math.sqrt(x / most)).toFixed(2) }, this.plot);
      });
    });
    this.cursor = svg("line", { y1: TOP, y2: H - BOTTOM, class: "cursor" }, this.plot);
    listen(this.plot);
    this.move();
  }

  move() {
    moveCursor(this);
    const column = DATA.columns.findLastIndex((index) => index <= at);
    const p = this.parameter, one = p && p[this.what][column], key = this.what === "weights" ? "weight" : "gradient";
    const text = !one ? "no figures" : `from about ${short(one[0])} to ${short(one[1])}, mean ${short(p[`${key}_mean`][at])}, std ${short(p[`${key}_std`][at])}, ${share(p[`${key}_zeros`][at])} zeros`;
    this.told.textContent = `step ${steps[at]}: ${text}`;
    this.plot.setAttribute("aria-valuetext", this.told.textContent);
  }
}

function spread(one, low, high, rows) {
  const [from, to, ...counts] = one, density = new Array(rows).fill(0), tall = (high - low) / rows;
  counts.forEach((count, bin) => {
    if (!count) return;
    const begin = from + (bin * (to - from)) / counts.length, end = from + ((bin + 1) * (to - from)) / counts.length;
    const row = (x) => Math.max(0, Math.min(rows - 1, Math.floor((x - low) / tall)));
    const a = row(begin), b = Math.max(a, row(end - (end - begin) * 1e-6));
    for (let r = a; r <= b; r++) {
      const inside = end > begin ? Math.max(0, Math.min(end, low + (r + 1) * tall) - Math.max(begin, low + r * tall)) / (end - begin) : 1;
      density[r] += a === b ? count : count * inside;
    }
  });
  return density;
}

// What is shown

const alarmed = (name) => DATA.alarms.filter((alarm) => alarm.name === name && name !== "");

function chosen(things) {
  const most = Math.min(MOST, things.length), picked = new Set();
  for (const thing of things) if (alarmed(thing.name).length && picked.size < most) picked.add(thing.name);
  const rest = things.filter((thing) => !picked.has(thing.name) && !thing.name.endsWith("bias"));
  const left = most - picked.size, from = rest.length >= left ? rest : things.filter((thing) => !picked.has(thing.name));
  for (let index = 0; index < left; index++) {
    picked.add(from[Math.round((index * (from.length - 1)) / Math.max(1, left - 1))].name);
  }
  return picked;
}

const shownParameters = chosen(DATA.parameters), shownActivations = chosen(DATA.activations);
const inOrder = (things, picked) => () => things.map((thing) => thing.name).filter((name) => picked.has(name));
const curves = (things, what) => things.map((thing) => ({ name: thing.name, values: thing[what] }));

function rows(id, things, picked, cells) {
  const body = document.querySelector(`#${id} tbody`);
  if (!body.rows.length) {
    for (const thing of things) {
      const row = body.insertRow(), tick = html("input", undefined, row.insertCell());
      tick.type = "checkbox";
      tick.checked = picked.has(thing.name);
      tick.setAttribute("aria-label", `show ${thing.name}`);
      tick.addEventListener("change", () => {
        if (tick.checked) picked.add(thing.name); else picked.delete(thing.name);
        for (const chart of charts) if (chart.options && chart.options.picked) chart.draw();
      });
      row.insertCell().textContent = thing.name;
      for (let index = 0; index < 5; index++) row.insertCell();
      const bad = row.insertCell();
      bad.className = "bad";
      bad.textContent = [...new Set(alarmed(thing.name).map((alarm) => alarm.reason))].join(", ");
    }
  }
  things.forEach((thing, index) => cells(thing).forEach((text, cell) => (body.rows[index].cells[cell + 2].textContent = text)));
}

function tables() {
  $("step").textContent = `step ${steps[at]}`;
  rows("parameters", DATA.parameters, shownParameters, (p) => [
    p.size.toLocaleString("en"), short(p.gradient_rms[at]), share(p.gradient_zeros[at]), short(p.weight_rms[at]), short(p.ratio[at]),
  ]);
  rows("activations", DATA.activations, shownActivations, (a) => [
    a.kind, short(a.mean[at]), short(a.std[at]), share(a.saturated[at]), share(a.dead[at]),
  ]);
}

// A click on an alarm goes to its step, and shows what alarmed alone in color.
function choose(alarm, button) {
  for (const other of document.querySelectorAll("#alarms button")) other.setAttribute("aria-pressed", other === button);
  go(nearest(alarm.step));
  let first = null;
  for (const chart of charts) {
    if (!chart.options) continue;
    const own = (chart.options.alarms || []).includes(alarm.reason);
    chart.figure.classList.toggle("chosen", own);
    if (own && !first) first = chart;
  }
  for (const [things, picked, id] of [[DATA.parameters, shownParameters, "parameters"], [DATA.activations, shownActivations, "activations"]]) {
    const at = things.findIndex((thing) => thing.name === alarm.name);
    if (at < 0) continue;
    picked.clear();
    picked.add(alarm.name);
    [...document.querySelectorAll(`#${id} input`)].forEach((tick, index) => (tick.checked = index === at));
    if (id === "parameters") { $("which").value = at; maps.forEach((map) => map.draw()); }
  }
  for (const chart of charts) if (chart.options && chart.options.picked) chart.draw();
  if (first) first.figure.scrollIntoView({ block: "nearest" });
}

const FIRST = 5; // alarms shown before the others are folded
function alarms() {
  show($("cause"), DATA.cause.text);
  if (DATA.cause.text) html("button", DATA.cause.text, $("cause")).addEventListener("click", () => go(nearest(DATA.cause.step)));
  let list = $("alarms");
  DATA.alarms.forEach((alarm, index) => {
    if (index === FIRST && DATA.alarms.length > FIRST + 1) {
      const folded = html("details", undefined, html("li", undefined, list));
      folded.id = "rest";
      html("summary", `${DATA.alarms.length - FIRST} more alarms, which may follow from these`, folded);
      list = html("ul", undefined, folded);
      list.style.cssText = "list-style:none;padding:0;margin:0";
    }
    const button = html("button", undefined, html("li", undefined, list));
    html("b", `step ${alarm.step}`, button);
    button.append(alarm.text);
    button.addEventListener("click", () => choose(alarm, button));
  });
  if (!DATA.alarms.length) html("b", "no alarm", html("li", undefined, $("alarms"), "none"));
}

$("title").textContent = `Training of ${DATA.model}`;
document.title = $("title").textContent;
$("about").textContent = `${DATA.count} ${DATA.count === 1 ? "record" : "records"}, ${DATA.every === 1 ? "each step" : `every ${DATA.every} steps`}, ${DATA.optimizers.join(", ")}`;
alarms();
const parameters = { log: true, picked: inOrder(DATA.parameters, shownParameters) };
const activations = { picked: inOrder(DATA.activations, shownActivations) };
const lossCurves = DATA.losses.length > 1 ? DATA.losses.map((values, index) => ({ name: `backward pass ${index + 1}`, values })) : [{ name: "loss", values: DATA.loss }];
if (DATA.loss.some((x) => x !== null)) new Chart("Loss", "", lossCurves, { log: true, alarms: ["diverging loss", "not finite"] });
const rates = DATA.rates.map((values, index) => ({ name: DATA.rates.length > 1 ? `group ${index}` : "learning rate", values }));
const distinct = rates.filter((rate, index) => rates.findIndex((other) => String(other.values) === String(rate.values)) === index);
if (distinct.length === 1) distinct[0].name = "learning rate";
new Chart("Learning rate", "", distinct, {});
new Chart("Total gradient norm", "", [{ name: "before clipping", values: DATA.norm_before }, { name: "after", values: DATA.norm }], { log: true, alarms: ["exploding gradients", "clipping"] });
new Chart("Update ratio", "norm of the step / norm of the weights; 1e\u20113 is usual", curves(DATA.parameters, "ratio"), { ...parameters, guide: 1e-3, alarms: ["update ratio", "small updates"] });
new Chart("Gradients", "root mean square", curves(DATA.parameters, "gradient_rms"), { ...parameters, alarms: ["vanishing gradients", "exploding through layers", "no gradient"] });
new Chart("Weights", "root mean square", curves(DATA.parameters, "weight_rms"), { ...parameters, alarms: ["growing weights"] });
if (DATA.activations.length) new Chart("Activations", "standard deviation", curves(DATA.activations, "std"), { ...activations, log: true, alarms: ["huge activations"] });
const flat = ["saturated", "dead"].flatMap((what) => DATA.activations
  .filter((a) => a[what].some((x) => x !== null))
  .map((a) => ({ name: a.name, label: what === "dead" ? `${a.name}, dead units` : `${a.name}, saturated`, values: a[what] })));
if (flat.length) {
  const some = chosen(flat);
  new Chart("Flat activations", "share of saturated outputs, of dead units", flat, { picked: inOrder(flat, some), fixed: [0, 1], share: true, alarms: ["dead units", "saturated"] });
}
DATA.parameters.forEach((p, index) => (html("option", p.name, $("which")).value = index));
const worst = DATA.parameters.findIndex((p) => alarmed(p.name).length);
$("which").value = Math.max(0, worst);
const maps = [new HeatMap("Weights", "weights"), new HeatMap("Gradients", "gradients")];
$("which").addEventListener("change", () => maps.forEach((map) => map.draw()));
tables();
// What alarmed comes first; a change of the learning rate that caused it, too.
for (const chart of charts) {
  const own = chart.options && (chart.options.alarms || []).filter((reason) => DATA.alarms.some((alarm) => alarm.reason === reason));
  const cause = chart.title === "Learning rate" && DATA.cause.text.includes("lr ");
  if (chart.options && (own.length || cause)) { chart.figure.classList.add("alarmed"); chart.figure.style.order = cause ? -2 : -1; }
}
