// Drawing, pointing, moving, keys and search.
const opened = new Set(DATA.opened);
const world = $("world"), stage = $("stage");
let scene, view = { x: 0, y: 0, k: 1 }, selected = null, found = [], at = -1;

unpack(DATA);

const nameOf = (item) => (item >= 0 ? `v${item}` : `b${~item}`);
const boxesAround = (box) => { const all = []; for (; box >= 0; box = DATA.boxes[box].parent) all.push(box); return all; };
const boxOf = (item) => (item >= 0 ? DATA.vertices[item].box : DATA.boxes[~item].parent);
// The visible item of a vertex: itself, or the outermost folded box around it.
function seen(key) {
  const folded = boxesAround(DATA.vertices[key].box).filter((box) => !opened.has(box));
  return folded.length ? ~folded[folded.length - 1] : key;
}

function redraw() {
  scene = arranged(DATA, opened);
  bring();
  const { placed, origin, corner } = scene;
  DATA.vertices.forEach((_, key) => {
    const spot = corner.get(key), element = $(`v${key}`);
    show(element, spot);
    if (spot) element.setAttribute("transform", `translate(${spot.x.toFixed(1)} ${spot.y.toFixed(1)})`);
  });
  DATA.boxes.forEach((_, key) => {
    const spot = corner.get(~key);
    for (const element of [$(`b${key}`), $(`t${key}`)]) {
      show(element, spot);
      if (!spot) continue;
      const open = placed.has(key);
      element.setAttribute("transform", `translate(${spot.x.toFixed(1)} ${spot.y.toFixed(1)})`);
      element.classList.toggle("opened", open);
      element.classList.toggle("folded", !open);
      for (const rect of element.querySelectorAll("rect")) {
        const tab = rect.classList.contains("tab");
        rect.setAttribute("width", (spot.width - (tab ? 2 : 0)).toFixed(1));
        if (!tab) rect.setAttribute("height", spot.height.toFixed(1));
      }
      const arc = element.querySelector(".arc");
      if (arc) arc.setAttribute("d", arcPath(spot.width, spot.height));
      const sign = element.querySelector(".sign");
      if (sign) sign.textContent = open ? "−" : "+";
    }
  });
  DATA.levels.forEach((level) => {
    const group = $(`l${level.box}`), result = placed.get(level.box);
    show(group, result);
    if (!result) return;
    group.setAttribute("transform", `translate(${origin.get(level.box).map((v) => v.toFixed(1)).join(" ")})`);
    level.nets.forEach((net, i) => {
      const [path, head, text] = $(`e${level.box}.${i}`).children;
      path.setAttribute("d", result.paths[i]);
      head.setAttribute("d", result.heads[i]);
      if (!text) return;
      show(text, !result.items[net.source].inside);
      text.setAttribute("x", result.labels[i][0].toFixed(1));
      text.setAttribute("y", (result.labels[i][1] + 12).toFixed(1));
    });
  });
  mark();
  sketch(true);
}

// Put into the picture what is open for the first time.
const waiting = new Map([...$("later").content.querySelectorAll("g[id]")].map((element) => [element.id, element]));
function bring() {
  const fresh = [...scene.placed.keys()].filter((key) => waiting.has(`l${key}`)).sort((a, b) => a - b);
  const put = (id, layer) => { $(layer).append(waiting.get(id)); waiting.delete(id); };
  for (const key of fresh) {
    put(`l${key}`, "w1");
    for (const item of scene.placed.get(key).level.items) {
      if (item >= 0) put(`v${item}`, "w3");
      else { put(`b${~item}`, "w0"); put(`t${~item}`, "w2"); }
    }
  }
  if (!fresh.length) return;
  recolor();
  for (const item of found) $(nameOf(item))?.classList.add("hit");
}

// The same as arc_path of svg.py.
function arcPath(width, height) {
  const n = (value) => value.toFixed(1);
  return `M${n(width)} ${n(height - 12)}h7q7 0 7 -7V19q0 -7 -7 -7h-5M${n(width + 6)} 8l-5 4l5 4`;
}

// ---- Steps: the colors of another step ------------------------------------------------------------------------

let when = DATA.step;
const flowOf = (item) => (item >= 0 ? DATA.vertices[item] : DATA.boxes[~item]).flows[when];

function setStep(step) {
  when = step;
  $("when").value = step;
  $("which").textContent = DATA.steps[step] || "";
  $("when").setAttribute("aria-valuetext", DATA.steps[step] || "");
  if (!DATA.scale.known) return;
  recolor();
  if (selected !== null) select(selected, false);
  sketch(true);
}

function recolor() {
  if (DATA.scale.known) DATA.levels.forEach((level) => $(`l${level.box}`) && level.nets.forEach((net, i) => {
    const { flows, ends, repeated, kept, wide } = DATA.vertices[net.vertex], element = $(`e${level.box}.${i}`);
    const name = levelOf((ends && !boxesAround(level.box).includes(repeated) ? ends : flows)[when], DATA.scale);
    element.classList.remove(...LEVELS.map((other) => `g-${other}`));
    element.classList.add(`g-${name}`);
    if (kept) element.firstChild.style.strokeWidth = Math.max(wide, DATA.widths[name]);
  }));
  DATA.boxes.forEach((box, key) => {
    const norm = box.flows[when], title = $(`t${key}`);
    if (!title || !DATA.scale.known) return;
    title.querySelector(".bar").setAttribute("class", `bar g-${levelOf(norm, DATA.scale)}`);
    title.querySelector(".inside").textContent = `${box.count} inside${norm === undefined || norm === null ? "" : `, gradient ${short(norm)}`}`;
  });
}

// ---- The minimap -------------------------------------------------------------------------------------------------

let mapScale = null, mapBase = null; // the items, drawn again after a change of the picture
let mapWaits = false;
function sketch(changed) {
  if (changed) mapBase = null;
  if (mapWaits) return;
  mapWaits = true;
  requestAnimationFrame(() => { mapWaits = false; drawMap(); });
}

function drawMap() {
  const map = $("map"), area = stage.getBoundingClientRect(), root = scene.placed.get(-1);
  const needed = root.width * view.k > area.width || root.height * view.k > area.height;
  show(map, needed && $("panel").hidden && area.height > 260);
  if (map.style.display) return;
  const size = map.getBoundingClientRect(), ratio = window.devicePixelRatio || 1, pen = map.getContext("2d");
  const wide = Math.round(size.width * ratio), high = Math.round(size.height * ratio);
  if (!wide) return;
  if (map.width !== wide || map.height !== high) { map.width = wide; map.height = high; mapBase = null; }
  const k = Math.min((size.width - 8) / root.width, (size.height - 8) / root.height);
  const left = (size.width - root.width * k) / 2, top = (size.height - root.height * k) / 2;
  mapScale = { k, left, top };
  if (!mapBase) mapBase = itemsOfMap(wide, high, ratio);
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, wide, high);
  pen.drawImage(mapBase, 0, 0);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.strokeStyle = getComputedStyle(document.body).getPropertyValue("--accent");
  pen.lineWidth = 2;
  const x = left + (-view.x / view.k) * k, y = top + (-view.y / view.k) * k, w = (area.width / view.k) * k, h = (area.height / view.k) * k;
  const x0 = Math.max(1, x), y0 = Math.max(1, y);
  pen.strokeRect(x0, y0, Math.max(3, Math.min(size.width - 1, x + w) - x0), Math.max(3, Math.min(size.height - 1, y + h) - y0));
}

function itemsOfMap(wide, high, ratio) {
  const base = document.createElement("canvas"), pen = base.getContext("2d"), { k, left, top } = mapScale;
  base.width = wide;
  base.height = high;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const style = getComputedStyle(stage), colors = Object.fromEntries(LEVELS.map((name) => [name, style.getPropertyValue(`--g-${name}`) || "#888"]));
  for (const [item, spot] of scene.corner) {
    const open = item < 0 && scene.placed.has(~item), norm = flowOf(item);
    pen.fillStyle = pen.strokeStyle = colors[DATA.scale.known && norm !== undefined ? levelOf(norm, DATA.scale) : "even"];
    const box = [left + spot.x * k, top + spot.y * k, Math.max(1, spot.width * k), Math.max(1, spot.height * k)];
    pen.globalAlpha = open ? 0.5 : 0.9;
    if (open) pen.strokeRect(...box); else pen.fillRect(...box);
  }
  return base;
}

function travel(event) {
  if (event.type === "pointermove" && !event.buttons) return;
  drawMap();
  const size = $("map").getBoundingClientRect(), area = stage.getBoundingClientRect();
  view.x = area.width / 2 - ((event.clientX - size.left - mapScale.left) / mapScale.k) * view.k;
  view.y = area.height / 2 - ((event.clientY - size.top - mapScale.top) / mapScale.k) * view.k;
  apply();
}
$("map").addEventListener("pointerdown", (event) => { $("map").setPointerCapture(event.pointerId); travel(event); });
$("map").addEventListener("pointermove", travel);

// ---- Moving ----------------------------------------------------------------------------------------------------

function apply() {
  world.setAttribute("transform", `translate(${view.x.toFixed(2)} ${view.y.toFixed(2)}) scale(${view.k.toFixed(4)})`);
  $("scale").textContent = `${Math.round(view.k * 100)} %`;
  if (shownAt !== view.k) titles();
  sketch();
}

// Far away, only the titles of boxes are shown, in a size that stays readable and fits the box.
let shownAt = null;
const READABLE = 0.62;
function titles() {
  shownAt = view.k;
  const far = view.k < READABLE;
  world.classList.toggle("far", far);
  const taken = []; // the places of the titles, outer boxes first
  for (let key = 0; key < DATA.boxes.length; key++) {
    const spot = scene.corner.get(~key), title = $(`t${key}`);
    if (!spot || !title) continue;
    const name = title.querySelector(".name"), sign = title.querySelector(".sign"), note = title.querySelector("text.note");
    if (!far) { name.removeAttribute("transform"); show(name, true); show(sign, true); show(note, true); continue; }
    const letters = Math.max(1, name.textContent.length), fits = (spot.width - 12) / (letters * 7.9);
    const size = Math.min(0.95 / view.k, fits), tall = spot.height * view.k;
    const open = scene.placed.has(key);
    show(sign, false);
    show(note, false);
    const y = open ? 5 + 12 * size : spot.height / 2 + 4.5 * size;
    const place = [spot.x + 6, spot.y + y - 11 * size, spot.x + 8 + 7.9 * letters * size, spot.y + y + 3 * size];
    // A title that would be too small, or that would cover another one, is left out.
    const free = !taken.some((other) => place[0] < other[2] && other[0] < place[2] && place[1] < other[3] && other[1] < place[3]);
    const readable = size * view.k * 13 >= 9 && tall >= 14 && free;
    show(name, readable);
    if (readable) taken.push(place);
    name.setAttribute("transform", `translate(${(8 - 24 * size).toFixed(1)} ${(y - 18 * size).toFixed(1)}) scale(${size.toFixed(2)})`);
  }
}

function zoom(factor, x, y) {
  const area = stage.getBoundingClientRect();
  x = x === undefined ? area.width / 2 : x - area.left;
  y = y === undefined ? area.height / 2 : y - area.top;
  const k = Math.min(4, Math.max(0.02, view.k * factor));
  view = { x: x - ((x - view.x) * k) / view.k, y: y - ((y - view.y) * k) / view.k, k };
  apply();
}

let fitted = {};  // the choice of fit() and its argument: resizing the window fits again, unless the user has moved the picture

function fit(least) {
  const area = stage.getBoundingClientRect(), root = scene.placed.get(-1), margin = 28;
  const wide = (area.width - 2 * margin) / root.width, high = (area.height - 2 * margin) / root.height;
  const k = Math.min(1.25, Math.max(Math.min(wide, high), Math.min(least, Math.max(wide, 0.02)), least ? 0.87 : 0)); // the smallest text has 9 px
  const spare = area.height - root.height * k;
  // Where not all is visible, begin at the first operator.
  const top = [...scene.corner].filter(([item, spot]) => spot.level < 0 && !(item >= 0 && DATA.vertices[item].leaf)).map(([, spot]) => spot).sort((a, b) => a.y - b.y)[0];
  const center = root.width * k > area.width && top ? Math.max(Math.min(top.x + top.width / 2, root.width - area.width / 2 / k + margin), area.width / 2 / k - margin) : root.width / 2;
  view = { k, x: area.width / 2 - center * k, y: spare > 0 ? Math.min(spare / 2, 60) : margin };
  fitted = { ...view, least, hidden: area.width < 50 || area.height < 50 };
  apply();
}

// Show all; what would be a line of a few pixels is folded first.
function overview() {
  fit(0);
  while (view.k < 0.12 && depth > 0) { setDepth(depth - 1); fit(0); }
}

// Notebooks set the size of a frame after the page has loaded.
function refit() {
  const moved = view.k !== fitted.k || view.x !== fitted.x || view.y !== fitted.y;
  moved && !fitted.hidden ? apply() : fit(fitted.least);
}

// Move so that an item is visible, and not behind the panel.
function reveal(item) {
  const spot = scene.corner.get(item), area = stage.getBoundingClientRect();
  if (!spot) return;
  const margin = 48, panel = $("panel").getBoundingClientRect(), narrow = area.width < 700;
  const right = area.width - margin - (!narrow && !$("panel").hidden ? panel.width : 0);
  const bottom = area.height - margin - (narrow && !$("panel").hidden ? panel.height : 0);
  const height = Math.min(spot.height * view.k, 60), width = Math.min(spot.width * view.k, right - margin);
  const left = spot.x * view.k + view.x, top = spot.y * view.k + view.y;
  view.x += left < margin ? margin - left : left + width > right ? right - left - width : 0;
  view.y += top < margin ? margin - top : top + height > bottom ? bottom - top - height : 0;
  apply();
}

const pointers = new Map();
let moved = 0;
stage.addEventListener("pointerdown", (event) => {
  if (event.pointerType === "mouse" && event.button) return;
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  moved = 0;
});
stage.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) { if (event.pointerType === "mouse") hover(event); return; }
  const other = [...pointers].find(([id]) => id !== event.pointerId);
  const dx = event.clientX - before[0], dy = event.clientY - before[1];
  moved += Math.abs(dx) + Math.abs(dy);
  if (moved > 4 && !stage.hasPointerCapture(event.pointerId)) stage.setPointerCapture(event.pointerId);
  if (other) {
    const [, [ox, oy]] = other, far = (x, y) => Math.max(10, Math.hypot(x - ox, y - oy));
    zoom(far(event.clientX, event.clientY) / far(...before), ox, oy);
  } else { view.x += dx; view.y += dy; apply(); }
  show($("tip"), false);
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
});
const release = (event) => pointers.delete(event.pointerId);
stage.addEventListener("pointerup", release);
stage.addEventListener("pointercancel", release);
stage.addEventListener("pointerleave", () => show($("tip"), false));
stage.addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = event.deltaMode ? 18 : 1;
  if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY * unit * 0.004), event.clientX, event.clientY);
  else { view.x -= (event.shiftKey ? event.deltaY : event.deltaX) * unit; view.y -= (event.shiftKey ? 0 : event.deltaY) * unit; apply(); }
}, { passive: false });

// ---- Pointing and choosing -------------------------------------------------------------------------------------

function itemAt(target) {
  const group = target.closest && target.closest("g.v, g.b");
  return group ? (group.id[0] === "v" ? +group.id.slice(1) : ~+group.id.slice(1)) : null;
}

function facts(item) {
  if (item >= 0) {
    const { kind, label, details } = DATA.vertices[item];
    return { kind: DATA.kinds[kind], title: label, details };
  }
  const box = DATA.boxes[~item], kind = { part: "consecutive operators" }[box.kind] || box.kind, norm = flowOf(item);
  const details = [["path", box.path], ["class", box.path ? box.note : ""],  ["repeated", box.times > 1 ? `${box.times} times` : ""],
    ["inside", `${box.count} operators and leaves`], ["gradient", norm === undefined || norm === null ? "" : `norm ${short(norm)}`]].filter(([, text]) => text);
  return { kind, title: box.title || `× ${box.times}`, details };
}

function fill(element, item, most) {
  const { kind, title, details } = facts(item);
  element.replaceChildren();
  const head = element.appendChild(document.createElement("h2"));
  head.textContent = title;
  element.appendChild(document.createElement("p")).textContent = kind;
  const list = element.appendChild(document.createElement("dl"));
  for (const [name, text] of details.slice(0, most)) {
    list.appendChild(document.createElement("dt")).textContent = name;
    list.appendChild(document.createElement("dd")).textContent = text;
  }
}

// Where the numbers of an item came from: its gradient from its readers, its value from what it read.
function origins(element, item) {
  for (const [title, forward] of [["Its gradient came from", true], ["Its values came from", false]]) {
    const ends = neighbors(item, forward);
    if (!ends.length || (forward && !DATA.scale.known)) continue;
    html("h3", title, element);
    const list = html("div", undefined, element, "links");
    for (const end of ends.slice(0, 12)) {
      const norm = flowOf(end), button = html("button", undefined, list), known = norm !== undefined && norm !== null;
      const name = html("span", undefined, button);
      if (DATA.scale.known) html("i", undefined, name, "flow").style.background = `var(--g-${levelOf(norm, DATA.scale)})`;
      name.append((end < 0 && DATA.boxes[~end].path) || facts(end).title);
      html("u", DATA.scale.known ? (known ? `gradient ${short(norm)}` : "no gradient") : "", button);
      button.addEventListener("click", () => select(end));
    }
    if (ends.length > 12) html("p", `and ${ends.length - 12} more`, element);
  }
}

// Earlier steps: the norm of the gradient over the steps; a click goes to the step.
function earlier(element, item) {
  const { flows } = item >= 0 ? DATA.vertices[item] : DATA.boxes[~item];
  if (flows.length < 2 || !flows.some((norm) => norm !== null)) return;
  html("h3", "Gradient norm over the steps", element);
  stepCurve(element, flows, true);
}

function stepCurve(element, values, log) {
  const W = 320, H = 96, across = (index) => 46 + (index / Math.max(1, values.length - 1)) * (W - 56);
  const positive = log && values.some((x) => x > 0), scale = upScale(values, positive, 8, H - 8);
  if (!scale) return;
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot" }, element);
  ruled(plot, scale, 46, W - 10);
  svg("path", { d: curvePath(values, scale, across), style: "stroke:var(--c0)" }, plot);
  svg("line", { x1: across(when), x2: across(when), y1: 4, y2: H - 4, class: "cursor" }, plot);
  plot.addEventListener("click", (event) => {
    const box = plot.getBoundingClientRect(), x = ((event.clientX - box.left) / box.width) * W;
    setStep(Math.max(0, Math.min(values.length - 1, Math.round(((x - 46) / (W - 56)) * (values.length - 1)))));
  });
}

function hover(event) {
  const item = itemAt(event.target), tip = $("tip");
  show(tip, item !== null && (item >= 0 || !scene.placed.has(~item) || event.target.closest(".tab, text")));
  if (item === null || tip.style.display === "none") return;
  fill(tip, item, 8);
  const area = stage.getBoundingClientRect(), size = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 16, area.right - size.width - 8)}px`;
  const below = event.clientY + 18;
  tip.style.top = `${below + size.height > area.bottom ? event.clientY - size.height - 12 : below}px`;
}

// Both ends of an item's edges, as currently visible.
function neighbors(item, forward) {
  const inside = (key) => (item >= 0 ? key === item : boxesAround(DATA.vertices[key].box).includes(~item));
  const ends = new Set();
  for (const [source, target] of DATA.edges) {
    const [here, there] = forward ? [source, target] : [target, source];
    if (inside(here) && !inside(there)) ends.add(seen(there));
  }
  return [...ends].filter((end) => scene.corner.has(end));
}

function mark() {
  for (const element of world.querySelectorAll(".on, .near")) element.classList.remove("on", "near");
  if (selected === null || !scene.corner.has(selected)) return;
  for (const element of [$(nameOf(selected)), selected < 0 && $(`t${~selected}`)]) if (element) element.classList.add("on");
  const spot = scene.corner.get(selected);
  const touches = (net, place) => net.source === place || net.targets.includes(place);
  scene.placed.get(spot.level).level.nets.forEach((net, i) => {
    if (touches(net, spot.place)) $(`e${spot.level}.${i}`).classList.add("on");
  });
  for (const end of [...neighbors(selected, true), ...neighbors(selected, false)]) $(nameOf(end)).classList.add("near");
}

function select(item, move = true) {
  selected = item;
  $("panel").hidden = item === null;
  if (item !== null) {
    fill($("facts"), item);
    origins($("facts"), item);
    earlier($("facts"), item);
    const box = item < 0;
    show($("fold"), box);
    if (box) $("fold").textContent = opened.has(~item) ? "Fold (Enter)" : "Unfold (Enter)";
    const { kind, title, details } = facts(item);
    $("said").textContent = `${kind} ${title}. ${details.slice(0, 4).map(([name, text]) => `${name} ${text}`).join(". ")}`;
    if (move) reveal(item);
  } else $("said").textContent = "";
  mark();
  sketch();
}

function toggle(box) {
  const before = scene.corner.get(~box);
  if (opened.has(box)) opened.delete(box); else opened.add(box);
  redraw();
  const after = scene.corner.get(~box);
  view.x += (before.x + before.width / 2 - after.x - after.width / 2) * view.k;
  view.y += (before.y - after.y) * view.k;
  apply();
  select(~box);
}

stage.addEventListener("click", (event) => {
  if (moved > 4) return;
  const item = itemAt(event.target);
  const onTitle = item !== null && item < 0 && (!scene.placed.has(~item) || event.target.closest("g[id^=t]"));
  if (onTitle) toggle(~item);
  else select(item, false);
});

// ---- Depth and search ------------------------------------------------------------------------------------------

let depth = DATA.depth;
function tellDepth() {
  const name = depth === DATA.deepest ? "operators" : depth ? "blocks" : "model";
  $("depth").textContent = DATA.deepest > 1 ? `${name}, ${depth} of ${DATA.deepest}` : name;
}
function setDepth(value) {
  depth = Math.max(0, Math.min(DATA.deepest, value));
  opened.clear();
  DATA.boxes.forEach((box, key) => { if (box.depth < depth || box.kind === "repetition") opened.add(key); });
  tellDepth();
  redraw();
  if (selected !== null && !scene.corner.has(selected)) select(null);
  fit(1);
}

function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [...DATA.boxes.map((_, key) => ~key), ...DATA.vertices.keys()];
  // Operators and leaves are found by their names, modules by their path and class; an operator whose module has no
  // box of its own is found by the module as well.
  const says = (item) => {
    const { title, details } = facts(item), of = (name) => (details.find(([key]) => key === name) || ["", ""])[1];
    const around = item >= 0 && boxOf(item) >= 0 ? DATA.boxes[boxOf(item)].path : "";
    const module = of("module") === around ? "" : of("module");
    return [title, of("name"), of("path"), of("class"), module].join("\n").toLowerCase();
  };
  const fits = (text) => words.every((word) => text.includes(word));
  found = words.length ? all.filter((item) => fits(says(item))) : [];
  found.sort((a, b) => (a < 0) - (b < 0) || a - b);
  at = -1;
  world.classList.toggle("searching", words.length > 0);
  for (const element of world.querySelectorAll(".hit")) element.classList.remove("hit");
  for (const item of found) {
    $(nameOf(item))?.classList.add("hit");
    for (const box of boxesAround(boxOf(item))) if (!opened.has(box)) $(`b${box}`)?.classList.add("hit");
  }
  count();
}
const count = () => { $("hits").textContent = $("search").value.trim() ? `${at < 0 ? found.length : `${at + 1} of ${found.length}`} found` : ""; };

function next(step) {
  if (!found.length) return;
  at = (at + step + found.length) % found.length;
  const folded = boxesAround(boxOf(found[at])).filter((box) => !opened.has(box));
  folded.forEach((box) => opened.add(box));
  if (folded.length) redraw();
  if (view.k < 0.6) { zoom(0.9 / view.k); }
  select(found[at]);
  count();
}

// ---- Keys ------------------------------------------------------------------------------------------------------

// The next item of the same row, and past its end the nearest on that side.
function beside(item, step) {
  const here = scene.corner.get(item), x = here.x + here.width / 2, y = here.y + here.height / 2;
  const distance = (other) => {
    const spot = scene.corner.get(other), dx = (spot.x + spot.width / 2 - x) * step, dy = spot.y + spot.height / 2 - y;
    return other === item || dx <= 1 || (other < 0 && opened.has(~other)) ? Infinity : dx + 3 * Math.abs(dy);
  };
  const best = [...scene.corner.keys()].reduce((a, b) => (distance(b) < distance(a) ? b : a), item);
  return distance(best) < 900 ? best : null;
}

function along(item, forward) {
  const ends = neighbors(item, forward), spot = scene.corner.get(item), middle = spot.x + spot.width / 2;
  const far = (end) => { const to = scene.corner.get(end); return Math.abs(to.x + to.width / 2 - middle) + 2 * Math.abs(to.y - spot.y); };
  return ends.sort((a, b) => (DATA.vertices[a]?.leaf || 0) - (DATA.vertices[b]?.leaf || 0) || far(a) - far(b))[0];
}

stage.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const top = () => [...scene.corner.keys()].filter((item) => item >= 0 || !opened.has(~item))
    .reduce((a, b) => (scene.corner.get(b).y < scene.corner.get(a).y ? b : a));
  const go = (item) => { if (item !== null && item !== undefined) select(item); };
  const pan = (x, y) => { view.x += x; view.y += y; apply(); };
  const keys = {
    ArrowDown: () => (event.shiftKey ? pan(0, -80) : go(selected === null ? top() : along(selected, true))),
    ArrowUp: () => (event.shiftKey ? pan(0, 80) : go(selected === null ? top() : along(selected, false))),
    ArrowLeft: () => (event.shiftKey ? pan(80, 0) : go(selected === null ? top() : beside(selected, -1))),
    ArrowRight: () => (event.shiftKey ? pan(-80, 0) : go(selected === null ? top() : beside(selected, 1))),
    Enter: () => { if (selected !== null && selected < 0) toggle(~selected); },
    p: () => { if (selected !== null && boxOf(selected) >= 0) go(~boxOf(selected)); },
    Escape: () => select(null),
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: overview, 1: () => zoom(1 / view.k),
    "[": () => setDepth(depth - 1), "]": () => setDepth(depth + 1),
  };
  keys[" "] = keys.Enter;
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
document.addEventListener("keydown", (event) => {
  const typing = event.target === $("search");
  if (event.key === "/" && !typing) { event.preventDefault(); $("search").focus(); $("search").select(); }
  if (event.key === "?" && !typing) { event.preventDefault(); $("help").open ? $("help").close() : $("help").showModal(); }
});
$("search").addEventListener("input", () => search($("search").value));
$("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") { event.preventDefault(); next(event.shiftKey ? -1 : 1); }
  if (event.key === "Escape") { $("search").value = ""; search(""); stage.focus(); }
});
$("shallower").addEventListener("click", () => setDepth(depth - 1));
$("deeper").addEventListener("click", () => setDepth(depth + 1));
$("out").addEventListener("click", () => zoom(0.8));
$("in").addEventListener("click", () => zoom(1.25));
$("all").addEventListener("click", overview);
$("helper").addEventListener("click", () => $("help").showModal());
$("help").addEventListener("click", (event) => { if (event.target === $("help")) $("help").close(); });
$("fold").addEventListener("click", () => toggle(~selected));
$("close").addEventListener("click", () => { select(null); stage.focus(); });
for (const element of document.querySelectorAll(".folding")) show(element, DATA.deepest > 0);
for (const element of document.querySelectorAll(".stepping")) show(element, DATA.steps.length > 1);
$("when").max = Math.max(0, DATA.steps.length - 1);
$("when").addEventListener("input", () => setStep(Number($("when").value)));
const narrow = matchMedia("(max-width:760px)"), openKey = () => { $("key").open = !narrow.matches; };
narrow.addEventListener("change", openKey);
openKey();
show($("key"), DATA.scale.known);
tellDepth();
redraw();
fit(1);
setStep(when);
new ResizeObserver(() => refit()).observe(stage);
