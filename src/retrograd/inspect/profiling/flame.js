const flame = $("flame"), told = $("told");
const phone = matchMedia("(max-width:700px)");
let figure = "s", root = DATA.tree, rows = [];

function prepare(node, parent) {
  node.parent = parent;
  node.s = node.f + node.b + node.o;
  for (const child of node.c) prepare(child, node);
  node.own = {};
  for (const what of ["s", "k"]) node.own[what] = Math.max(0, node[what] - node.c.reduce((sum, child) => sum + child[what], 0));
}
prepare(DATA.tree, null);

const shown = (x) => (figure === "k" ? bytes(x) : seconds(x));

// The longest text that fits: the whole, the function or the end of the module's path, or nothing.
function label(node, width) {
  const [site, name] = node.t === "frame" ? node.n.split(" ") : [node.n, ""];
  const line = site.split(":").pop(), choices = { frame: [node.n, `${name}:${line}`, name], module: [node.n, node.n.split(".").slice(-2).join("."), node.n.split(".").pop()], phase: [node.n, node.n.split(" ")[0]] }[node.t] || [node.n];
  const letters = Math.floor((width * flame.clientWidth - 11) / 7.25);
  return choices.find((text) => text && text.length <= letters) || "";
}

let most = { s: 1, k: 1 };
function measure() {
  most = { s: 0, k: 0 };
  const walk = (node) => { for (const what of ["s", "k"]) most[what] = Math.max(most[what], node.own[what]); node.c.forEach(walk); };
  walk(DATA.tree);
  $("largest").textContent = shown(most[figure]);
}
const heat = (node) => `color-mix(in srgb, var(--hot) ${(100 * Math.sqrt(node.own[figure] / (most[figure] || 1))).toFixed(0)}%, var(--cool))`;

function place(node, depth, left, width, css) {
  const bar = document.createElement("button");
  const height = phone.matches ? 29 : 23;
  bar.textContent = label(node, width);
  bar.className = `${node.t} ${css} ${width * flame.clientWidth < 24 ? "narrow" : ""}`;
  bar.style.cssText = `background:${heat(node)};left:${left * 100}%;width:${width * 100}%;top:${depth * height}px`;
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
    const children = node === DATA.tree ? node.c : [...node.c].sort((a, b) => b[figure] - a[figure]);
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
  const parts = [[node.f, "forward"], [node.b, "backward"], [node.o, "outside of operators"]].filter(([x]) => x).map(([x, name]) => `${seconds(x)} ${name}`);
  html("div", `${share} % of ${figure === "k" ? "bytes kept" : "time"}: ${[...parts, `${bytes(node.k)} kept`, `${node.x} operators`].join(", ")}; itself ${shown(node.own[figure])}`, told);
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
  measure();
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
measure();
draw(false);
let drawnAt = flame.clientWidth;
window.addEventListener("resize", () => { if (flame.clientWidth !== drawnAt) { drawnAt = flame.clientWidth; draw(false); } });
