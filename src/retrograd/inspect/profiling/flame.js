"use strict";

const $ = (id) => document.getElementById(id);
const flame = $("flame"), told = $("told");
const phone = matchMedia("(max-width:700px)");
let figure = "s", root = DATA.tree, rows = [];

function prepare(node, parent) {
  node.parent = parent;
  node.s = node.f + node.b + node.o;
  for (const child of node.c) prepare(child, node);
}
prepare(DATA.tree, null);

function seconds(x) {
  return x < 1e-3 ? `${(x * 1e6).toFixed(1)} us` : x < 1 ? `${(x * 1e3).toFixed(2)} ms` : `${x.toFixed(2)} s`;
}

function bytes(x) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (x < 1024) return `${unit === "B" ? x : x.toPrecision(3)} ${unit}`;
    x /= 1024;
  }
  return `${x.toPrecision(3)} GiB`;
}

const shown = (x) => (figure === "k" ? bytes(x) : seconds(x));

function place(node, depth, left, width, css) {
  const bar = document.createElement("button");
  const height = phone.matches ? 29 : 23;
  bar.textContent = width < 0.008 ? "" : node.n;
  bar.className = `${node.t} ${css} ${width < 0.02 ? "narrow" : ""}`;
  bar.style.cssText = `left:${left * 100}%;width:${width * 100}%;top:${depth * height}px`;
  bar.tabIndex = node === root ? 0 : -1;
  bar.setAttribute("role", "treeitem");
  bar.setAttribute("aria-level", depth + 1);
  bar.setAttribute("aria-label", `${node.n}, ${shown(node[figure])}`);
  bar.node = node;
  node.bar = bar;
  flame.append(bar);
  rows[depth] = true;
}

function draw(focus) {
  flame.replaceChildren();
  rows = [];
  const above = [];
  for (let node = root.parent; node; node = node.parent) above.unshift(node);
  above.forEach((node, depth) => place(node, depth, 0, 1, "above"));
  const total = root[figure] || 1;
  const walk = (node, depth, left) => {
    const width = node[figure] / total;
    if (node !== root && width < 0.0008) return;
    place(node, depth, left, width, "");
    const children = [...node.c].sort((a, b) => b[figure] - a[figure]);
    for (const child of children) {
      walk(child, depth + 1, left);
      left += child[figure] / total;
    }
  };
  walk(root, above.length, 0);
  flame.style.height = `${rows.length * (phone.matches ? 29 : 23)}px`;
  mark();
  tell(root);
  if (focus && root.bar) root.bar.focus();
}

function tell(node) {
  const whole = DATA.tree[figure] || 1;
  told.replaceChildren();
  const line = told.appendChild(document.createElement("strong"));
  line.textContent = node.n;
  const share = ((100 * node[figure]) / whole).toFixed(1);
  const figures = told.appendChild(document.createElement("div"));
  figures.textContent =
    `${share} % of ${{ s: "time", f: "time forward", b: "time backward", o: "time outside of operators", k: "bytes kept" }[figure]}: ` +
    `${seconds(node.f)} forward, ${seconds(node.b)} backward, ${seconds(node.o)} outside of operators, ${bytes(node.k)} kept, ${node.x} operators`;
  if (node.d && node.t === "frame") told.appendChild(document.createElement("code")).textContent = node.d;
}

function mark() {
  const text = $("search").value.trim().toLowerCase();
  flame.classList.toggle("searching", text !== "");
  for (const bar of flame.children) bar.classList.toggle("hit", text !== "" && `${bar.node.n} ${bar.node.d}`.toLowerCase().includes(text));
}

function zoom(node) {
  root = node;
  draw(true);
}

function visible(node) {
  return node && node.bar && node.bar.isConnected ? node : null;
}

function beside(node, step) {
  const bars = [...flame.children].filter((bar) => bar.getAttribute("aria-level") === node.bar.getAttribute("aria-level"));
  const found = bars.sort((a, b) => parseFloat(a.style.left) - parseFloat(b.style.left));
  return found[found.indexOf(node.bar) + step]?.node;
}

flame.addEventListener("click", (event) => {
  if (event.target.node) zoom(event.target.node);
});
flame.addEventListener("mouseover", (event) => event.target.node && tell(event.target.node));
flame.addEventListener("focusin", (event) => event.target.node && tell(event.target.node));
flame.addEventListener("keydown", (event) => {
  const node = event.target.node;
  if (!node) return;
  const down = () => [...node.c].sort((a, b) => b[figure] - a[figure]).find(visible);
  const moves = { ArrowUp: () => visible(node.parent), ArrowDown: down, ArrowLeft: () => beside(node, -1), ArrowRight: () => beside(node, 1) };
  const move = moves[event.key];
  if (!move) return;
  event.preventDefault();
  const next = move();
  if (next) next.bar.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== $("search")) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape") {
    if (document.activeElement === $("search")) {
      $("search").value = "";
      mark();
      root.bar.focus();
    } else if (root.parent) zoom(root.parent);
  }
});
$("search").addEventListener("input", mark);
$("out").addEventListener("click", () => zoom(DATA.tree));
$("figure").addEventListener("change", (event) => {
  figure = event.target.value;
  draw(false);
});
phone.addEventListener("change", () => draw(false));

function fill(id, cells) {
  const body = document.querySelector(`#${id} tbody`);
  for (const row of cells) {
    const line = body.insertRow();
    for (const [text, css] of row) {
      const cell = line.insertCell();
      cell.textContent = text;
      cell.className = css;
    }
  }
}

fill("lines", DATA.lines.map(([line, code, f, b, o, k, count]) => [
  [line, "left mono"], [f ? seconds(f) : "", ""], [b ? seconds(b) : "", ""], [o ? seconds(o) : "", ""], [k ? bytes(k) : "", ""], [count || "", ""], [code, "code"],
]));
$("most").textContent = `Arrays at the peak, ${bytes(DATA.most)}`;
fill("peak", DATA.peak.map(([operator, line, kind, count, times]) => [
  [bytes(count), ""], [`${((100 * count) / DATA.most).toFixed(1)} %`, ""],
  [times > 1 ? `${operator} x${times}` : operator, "left mono"], [line, "left mono"], [kind, "left"],
]));
draw(false);
