// Drawing, pointing, moving, keys and search.
"use strict";

const $ = (id) => document.getElementById(id);
const show = (element, yes) => { if (element) element.style.display = yes ? "" : "none"; };
const opened = new Set(DATA.opened);
const world = $("world"), stage = $("stage");
let scene, view = { x: 0, y: 0, k: 1 }, selected = null, found = [], at = -1;

DATA.levels.forEach((level) => {
  level.nets = level.nets.map(([vertex, output, source, targets, leaves]) => (
    { vertex, output, source, targets, leaves: !!leaves, value: `${vertex}.${output}` }));
});

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
      for (const rect of element.querySelectorAll("rect:not(.tab)")) {
        rect.setAttribute("width", spot.width.toFixed(1));
        rect.setAttribute("height", spot.height.toFixed(1));
      }
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
}

// ---- Moving ----------------------------------------------------------------------------------------------------

function apply() {
  world.setAttribute("transform", `translate(${view.x.toFixed(2)} ${view.y.toFixed(2)}) scale(${view.k.toFixed(4)})`);
  $("scale").textContent = `${Math.round(view.k * 100)} %`;
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
  const k = Math.min(1.25, Math.max(Math.min(wide, high), Math.min(least, Math.max(wide, 0.02))));
  const spare = area.height - root.height * k;
  view = { k, x: (area.width - root.width * k) / 2, y: spare > 0 ? Math.min(spare / 2, 60) : margin };
  fitted = { ...view, least };
  apply();
}

// Notebooks set the size of a frame after the page has loaded.
function refit() {
  const moved = view.k !== fitted.k || view.x !== fitted.x || view.y !== fitted.y;
  moved ? apply() : fit(fitted.least);
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
  const box = DATA.boxes[~item], kind = box.path ? "module" : "repetition";
  const details = [["path", box.path], ["class", box.path ? box.note : ""], ["repeated", box.times > 1 ? `${box.times} times` : ""],
    ["inside", `${box.count} operators and leaves`]].filter(([, text]) => text);
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
function neighbours(item, forward) {
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
  for (const end of [...neighbours(selected, true), ...neighbours(selected, false)]) $(nameOf(end)).classList.add("near");
}

function select(item, move = true) {
  selected = item;
  $("panel").hidden = item === null;
  if (item !== null) {
    fill($("facts"), item);
    const box = item < 0;
    show($("fold"), box);
    if (box) $("fold").textContent = opened.has(~item) ? "Fold (Enter)" : "Unfold (Enter)";
    const { kind, title, details } = facts(item);
    $("said").textContent = `${kind} ${title}. ${details.slice(0, 4).map(([name, text]) => `${name} ${text}`).join(". ")}`;
    if (move) reveal(item);
  } else $("said").textContent = "";
  mark();
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
function setDepth(value) {
  depth = Math.max(0, Math.min(DATA.deepest, value));
  opened.clear();
  DATA.boxes.forEach((box, key) => { if (box.depth < depth || !box.path) opened.add(key); });
  $("depth").textContent = `${depth} of ${DATA.deepest}`;
  redraw();
  if (selected !== null && !scene.corner.has(selected)) select(null);
  fit(1);
}

function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [...DATA.boxes.map((_, key) => ~key), ...DATA.vertices.keys()];
  const told = new Set(["name", "module", "path", "class", "line"]);
  const says = (item) => {
    const { title, kind, details } = facts(item);
    return [title, kind, ...details.filter(([name]) => told.has(name)).map(([, text]) => text)].join("\n").toLowerCase();
  };
  const fits = (text) => words.every((word) => text.includes(word));
  found = words.length ? all.filter((item) => fits(says(item))) : [];
  found.sort((a, b) => (a < 0) - (b < 0) || a - b);
  at = -1;
  world.classList.toggle("searching", words.length > 0);
  for (const element of world.querySelectorAll(".hit")) element.classList.remove("hit");
  for (const item of found) {
    $(nameOf(item)).classList.add("hit");
    for (const box of boxesAround(boxOf(item))) if (!opened.has(box)) $(`b${box}`).classList.add("hit");
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
  const ends = neighbours(item, forward), spot = scene.corner.get(item), middle = spot.x + spot.width / 2;
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
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: () => fit(0), 1: () => zoom(1 / view.k),
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
$("all").addEventListener("click", () => fit(0));
$("helper").addEventListener("click", () => $("help").showModal());
$("help").addEventListener("click", (event) => { if (event.target === $("help")) $("help").close(); });
$("fold").addEventListener("click", () => toggle(~selected));
$("close").addEventListener("click", () => { select(null); stage.focus(); });
for (const element of document.querySelectorAll(".folding")) show(element, DATA.deepest > 0);
$("depth").textContent = `${depth} of ${DATA.deepest}`;
redraw();
fit(1);
window.addEventListener("resize", refit);
