// The doctor's page: the finding and its proof above the picture, and what the history says of a selected parameter.

const W = 330, H = 190;
const PLOT = { left: 52, right: 12, top: 10, bottom: H - 24 };
const NAMED = 92; // the width of names beside the ends of curves

function axes(parent, values, xs, label, right = PLOT.right) {
  const known = values.flat().filter((x) => typeof x === "number"), low = Math.min(...known), high = Math.max(...known);
  const scale = upScale(known, low > 0 && high / low > 20, PLOT.top, PLOT.bottom);
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img", "aria-label": label }, parent);
  const across = (x) => PLOT.left + ((x - xs[0]) / Math.max(1e-9, xs[1] - xs[0])) * (W - PLOT.left - right);
  if (scale) ruled(plot, scale, PLOT.left, W - right);
  for (const x of niceTicks(xs[0], xs[1], 5).filter(Number.isInteger)) {
    svg("text", { x: across(x), y: H - 7, "text-anchor": across(x) > W - 30 ? "end" : "middle" }, plot, x);
  }
  return { plot, scale, across };
}

function caption(figure, title, note) {
  const head = html("figcaption", title, figure);
  if (note) html("small", ` ${note}`, head);
}

// The two curves of the proof, named at their ends.
function proof(curves) {
  const figure = $("proof");
  figure.replaceChildren();
  if (!curves.with || !curves.without) {
    show(figure, false);
    $("report").classList.add("plain");
    return;
  }
  show(figure, true);
  $("report").classList.remove("plain");
  caption(figure, "The loss, from the same state", "by step");
  const most = Math.max(curves.with.length, curves.without.length) - 1;
  const { plot, scale, across } = axes(figure, [curves.with, curves.without], [0, most], "loss with and without the edit", NAMED);
  if (!scale) return;
  const ends = ["without", "with"].map((name) => {
    const values = curves[name], color = name === "with" ? "var(--c0)" : "var(--c1)";
    svg("path", { d: curvePath(values, scale, across), style: `stroke:${color};stroke-width:2.4;${name === "with" ? "" : "stroke-dasharray:6 4"}` }, plot);
    const last = values.findLastIndex((x) => typeof x === "number" && (!scale.log || x > 0));
    const odd = values.find((x) => typeof x === "string");
    return { name: name === "with" ? "edited" : "as written", color, at: last < 0 ? PLOT.top : scale.place(values[last]), value: odd || short(values[values.length - 1]) };
  });
  const [upper, lower] = ends.toSorted((a, b) => a.at - b.at), apart = Math.max(0, 32 - (lower.at - upper.at)) / 2;
  upper.at = Math.min(Math.max(upper.at - apart, PLOT.top + 4), PLOT.bottom - 44);
  lower.at = Math.min(Math.max(lower.at + apart, upper.at + 32), PLOT.bottom - 8);
  for (const { name, color, at, value } of ends) {
    const x = W - NAMED + 6, text = svg("text", { x, y: at, class: "end", style: `fill:${color}` }, plot, `${name} `);
    svg("tspan", { x, y: at + 14 }, text, value);
  }
}

// The loss of the run with the step shown; a click goes to a step.
let lossCursor = null;
function losses() {
  const figure = $("losses");
  const { steps, loss } = RUN.curve;
  if (!steps.length) { caption(figure, "No step of an optimizer was watched"); return; }
  const first = steps[0], last = steps[steps.length - 1];
  const sum = RUN.passes > 1 ? `: the sum of up to ${RUN.passes} backward passes per step` : "";
  caption(figure, `The loss of this run${sum}`, "a click shows the step");
  const { plot, scale, across } = axes(figure, [loss], [first, Math.max(last, first + 1)], "loss of the run");
  if (!scale) return;
  svg("path", { d: curvePath(loss, scale, (index) => across(steps[index])), style: "stroke:var(--c1)" }, plot);
  loss.forEach((y, index) => {
    if (typeof y === "string") svg("text", { x: across(steps[index]), y: PLOT.top + 4, "text-anchor": "middle", style: "fill:var(--bad)" }, plot, "\u00d7");
  });
  lossCursor = svg("line", { y1: PLOT.top, y2: PLOT.bottom, class: "cursor" }, plot);
  plot.style.cursor = "pointer";
  plot.addEventListener("click", (event) => {
    const box = plot.getBoundingClientRect(), x = ((event.clientX - box.left) / box.width) * W;
    const distance = (index) => Math.abs(across(RUN.steps[index]) - x);
    setStep(RUN.steps.reduce((best, _, index) => (distance(index) < distance(best) ? index : best), 0));
  });
  moveCursor = () => { const x = across(RUN.steps[Math.min(when, RUN.steps.length - 1)]); lossCursor.setAttribute("x1", x); lossCursor.setAttribute("x2", x); };
}
let moveCursor = () => {};

// Where the gradient dies: its norm by layer from the input to the loss, or by repetition of a recurrent block,
// whichever differs more. A click selects the layer.
const vertexOf = new Map(DATA.vertices.flatMap(({ names }, key) => names.map((name) => [name, key])));

function normOf(names, step) {
  const found = names.map((name) => RUN.parameters[name].gradients[step]).filter((x) => x !== null && x !== undefined);
  const odd = found.find((x) => typeof x === "string");
  return odd || (found.length ? Math.hypot(...found) : null);
}

// The last step up to one at which gradients were measured.
function measuredBefore(step) {
  while (step > 0 && !Object.values(RUN.parameters).some(({ gradients }) => gradients[step] !== null)) step--;
  return step;
}

function spreadOf(norms) {
  const known = norms.filter((x) => x !== null);
  if (known.length < 2 || known.some((x) => typeof x === "string" || x === 0)) return known.length < 2 ? 0 : Infinity;
  return Math.max(...known) / Math.min(...known);
}

function layers() {
  const figure = $("layers"), step = measuredBefore(when);
  const at = (index) => RUN.layers.map(([, names]) => normOf(names, index));
  let now = at(step), first = step ? at(0) : [], names = RUN.layers.map(([module]) => module);
  let items = RUN.layers.map(([, found]) => vertexOf.get(found[0])), title = "Gradient by layer", note = `${DATA.steps[step]}${step ? `; gray: ${DATA.steps[0]}` : ""}`;
  const loop = DATA.boxes.findIndex(({ runs }) => runs && spreadOf(runs) > spreadOf(now));
  if (loop >= 0) {
    [now, first, title, note] = [DATA.boxes[loop].runs, [], `Gradient by repetition${DATA.boxes[loop].title ? ` of ${DATA.boxes[loop].title}` : ""}`, "the last: next to the loss"];
    names = now.map((_, index) => `repetition ${index + 1}`);
    items = now.map(() => ~loop);
  }
  figure.replaceChildren();
  show(figure, now.length > 1);
  if (now.length < 2) return;
  caption(figure, title, note);
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", role: "group", "aria-label": title }, figure);
  const scale = upScale([...now, ...first], true, PLOT.top, PLOT.bottom - 6);
  const across = (index) => PLOT.left + 6 + (index / (now.length - 1)) * (W - PLOT.left - PLOT.right - 12);
  if (scale) {
    ruled(plot, scale, PLOT.left, W - PLOT.right);
    svg("path", { d: curvePath(first, scale, across), class: "faint" }, plot);
    svg("path", { d: curvePath(now, scale, across), style: "stroke:var(--soft)" }, plot);
  }
  now.forEach((norm, index) => {
    const known = scale && typeof norm === "number" && norm > 0, y = known ? scale.place(norm) : typeof norm === "string" ? PLOT.top : PLOT.bottom;
    const point = svg("circle", { cx: across(index), cy: y, r: now.length > 40 ? 3 : 4.5, style: `fill:var(--g-${levelOf(norm, DATA.scale)})`, tabindex: 0, role: "button" }, plot);
    point.setAttribute("aria-label", `${names[index]}: ${norm === null ? "no gradient" : norm === 0 ? "gradient zero" : `gradient ${short(norm)}`}`);
    svg("title", {}, point, point.getAttribute("aria-label"));
    point.addEventListener("click", () => goTo(items[index]));
    point.addEventListener("keydown", (event) => { if (event.key === "Enter") goTo(items[index]); });
  });
  const cut = (name) => (name.length > 20 ? `…${name.slice(-19)}` : /^\d+$/.test(name) ? `layer ${name}` : name);
  svg("text", { x: PLOT.left, y: H - 7 }, plot, cut(names[0]));
  svg("text", { x: W - PLOT.right, y: H - 7, "text-anchor": "end" }, plot, cut(names[names.length - 1]));
}

function goTo(item) {
  const folded = boxesAround(boxOf(item)).filter((box) => !opened.has(box));
  if (folded.length) { folded.forEach((box) => opened.add(box)); redraw(); }
  if (view.k < READABLE) zoom(0.9 / view.k);
  select(item);
}

function tellFinding(index) {
  const finding = RUN.findings[index], sentence = $("sentence");
  sentence.replaceChildren();
  if (!finding) {
    html("span", "nothing found", sentence, "kind fine");
    sentence.append(`No cause was found: ${RUN.watched}.`);
    for (const name of ["code", "fix", "figures", "others"]) show($(name), false);
    proof({});
    return;
  }
  html("span", finding.kind, sentence, "kind");
  const end = finding.message.search(/[.:](?= [A-Z])/) + 1 || finding.message.length;
  sentence.append(finding.message.slice(0, end).replaceAll("->", "\u2192"));
  $("rest").textContent = finding.message.slice(end).trim().replaceAll("->", "\u2192");
  $("code").textContent = finding.place ? `${finding.place}   ${finding.code}` : "";
  show($("code"), finding.place);
  $("fix").replaceChildren();
  html("b", "Edit: ", $("fix"));
  $("fix").append(finding.fix);
  const list = $("figures").querySelector("dl");
  list.replaceChildren();
  for (const [name, text] of finding.evidence) { html("dt", name, list); html("dd", text, list); }
  show($("figures"), finding.evidence.length);
  proof(finding.curves);
  [...$("others").children].forEach((button, at) => button.setAttribute("aria-current", at === index));
}

if (RUN.findings.length > 1) {
  RUN.findings.forEach((finding, index) => {
    const button = html("button", `${index + 1}. ${finding.kind}${finding.place ? `, ${finding.place}` : ""}`, $("others"));
    button.addEventListener("click", () => tellFinding(index));
  });
}

// ---- The history of a selected parameter ---------------------------------------------------------------------------

const parametersOf = (item) => (item < 0 ? [] : DATA.vertices[item].names.filter((name) => RUN.parameters[name]));

const fillPlain = earlier;
earlier = (element, item) => {
  const names = parametersOf(item);
  if (!names.length) { fillPlain(element, item); return; }
  for (const name of names.slice(0, 6)) {
    const { gradients, weights, updates } = RUN.parameters[name], known = (step) => gradients[step] !== null && gradients[step] !== undefined;
    let last = when; // norms are not measured at each step
    while (last > 0 && !known(last)) last--;
    const change = updates[last], size = weights[last];
    html("h3", `${names.length > 1 ? `${name}, at` : "At"} ${DATA.steps[last]}${last === when ? "" : ", the last one measured"}`, element);
    const list = html("dl", undefined, element);
    const row = (title, text) => { html("dt", title, list); html("dd", text, list); };
    row("gradient", known(last) ? `norm ${short(gradients[last])}` : "none");
    if (typeof change === "number") row("update", `norm ${short(change)}, by the optimizer, rate ${short(RUN.rates[last])}${size ? `; ${short(change / size)} of the weights` : ""}`);
    if (typeof size === "number") row("weights", `norm ${short(size)} before the update`);
    for (const [title, values] of [["Gradient norm over the steps", gradients], ["Update norm over the steps", updates], ["Weight norm over the steps", weights]]) {
      if (values.filter((x) => typeof x === "number").length < 2) continue;
      html("h3", title, element);
      stepCurve(element, values, true);
    }
    const before = gradients.map((_, step) => step).filter((step) => step < last && known(step)).slice(-5).reverse();
    if (!before.length) continue;
    html("h3", "Earlier steps", element);
    const links = html("div", undefined, element, "links");
    for (const step of before) {
      const button = html("button", undefined, links), norm = gradients[step];
      const text = html("span", undefined, button);
      html("i", undefined, text, "flow").style.background = `var(--g-${levelOf(norm, DATA.scale)})`;
      text.append(DATA.steps[step]);
      html("u", `gradient ${short(norm)}${typeof updates[step] === "number" ? `, update ${short(updates[step])}` : ""}`, button);
      button.addEventListener("click", () => setStep(step));
    }
  }
};

const setPlain = setStep;
setStep = (step) => { setPlain(step); moveCursor(); tellStep(); layers(); };
// Operators' gradients are those of the nearest step that was recorded in full, which the legend names.
const recorded = html("li", "", document.querySelector("#key ul"));
function tellStep() {
  const step = RUN.steps[when], near = RUN.recorded.reduce((best, one) => (Math.abs(one - step) < Math.abs(best - step) ? one : best), RUN.recorded[0]);
  recorded.textContent = near === undefined ? "" : near === step ? "all at this step" : `operators as at step ${near}`;
  const loss = RUN.loss[when];
  if (loss !== undefined && loss !== null) $("which").textContent = `${DATA.steps[when]}: loss ${short(loss)}${RUN.rates[when] === null ? "" : `, rate ${short(RUN.rates[when])}`}`;
}

losses();
tellFinding(0);
setStep(when);
