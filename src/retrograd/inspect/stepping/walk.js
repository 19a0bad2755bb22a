// The slider over the picture: the current operator, the upstream gradient, its rule, and the gradients of its inputs.

const range = $("at"), told = $("event");
range.max = WALK.steps.length + 1;

function add(parent, name, text, css) {
  const element = parent.appendChild(document.createElement(name));
  element.textContent = text;
  if (css) element.className = css;
  return element;
}

function list(title, rows) {
  if (!rows.length) return;
  add(told, "h3", title);
  const element = told.appendChild(document.createElement("dl"));
  for (const [name, text, some, map] of rows) {
    add(element, "dt", name);
    const cell = add(element, "dd", text, some === false ? "none" : "");
    if (map) heat(cell, map);
  }
}

// The values of an array as colors: blue below 0, orange above, like the heat maps of notebooks.
const BLUE = [0, 114, 178], GRAY = [208, 212, 218], ORANGE = [213, 94, 0], ODD = [204, 0, 153];
const SHADES = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno";
function heat(parent, [part, rows, columns, largest, letters]) {
  const canvas = html("canvas", undefined, parent), pen = canvas.getContext("2d");
  canvas.width = columns;
  canvas.height = rows;
  const cell = Math.max(4, Math.min(12, Math.floor(280 / columns)));
  canvas.style.cssText = `width:${columns * cell}px;height:${rows * cell}px`;
  canvas.setAttribute("role", "img");
  canvas.title = `${part ? `part ${part}, ` : ""}blue ${-Number(largest)}, gray 0, orange ${largest}`;
  canvas.setAttribute("aria-label", `heat map, ${canvas.title}`);
  const image = pen.createImageData(columns, rows);
  [...letters].forEach((letter, index) => {
    const share = SHADES.indexOf(letter) / 20 - 1, end = share < 0 ? BLUE : ORANGE;
    const color = letter === "z" ? ODD : GRAY.map((gray, channel) => Math.round(gray + (end[channel] - gray) * Math.abs(share)));
    image.data.set([...color, 255], 4 * index);
  });
  pen.putImageData(image, 0, 0);
}

// Opens the modules around the operator, and folds the modules that it opened before.
const unfolded = new Set();
function follow(vertex) {
  const around = boxesAround(DATA.vertices[vertex].box);
  const close = [...unfolded].filter((box) => !around.includes(box)), open = around.filter((box) => !opened.has(box));
  close.forEach((box) => { opened.delete(box); unfolded.delete(box); });
  open.forEach((box) => { opened.add(box); unfolded.add(box); });
  if (close.length || open.length) redraw();
}

function goTo(step) {
  step = Math.max(0, Math.min(WALK.steps.length + 1, step));
  range.value = step;
  const event = WALK.steps[step - 1];
  const count = WALK.steps.length;
  const where = event ? `step ${step} of ${count}` : step ? "the end of the backward pass" : "the start of the backward pass";
  $("where").textContent = where;
  range.setAttribute("aria-valuetext", event ? `${where}: ${event.title}` : where);
  told.replaceChildren();
  told.scrollTop = 0;
  if (event) {
    add(told, "h2", event.title);
    if (event.module) add(told, "p", `in ${event.module}`);
    if (event.code) add(told, "pre", event.code);
    list("Upstream gradient", event.came);
    add(told, "h3", "Derivative");
    if (event.formula) add(told, "p", event.formula, "formula");
    const source = html("details", undefined, told);
    source.open = !event.formula;
    html("summary", "the rule's source", source);
    add(source, "pre", WALK.rules[event.rule]);
    if (event.worked) { add(told, "h3", "One element, worked out"); add(told, "p", event.worked, "worked"); }
    list("The rule read", event.read);
    list("Gradient of", event.went);
  } else add(told, "p", step ? "All gradients are computed." : `${count} operators; the next one is the last that ran forward.`);
  if (event && $("follow").checked) follow(event.vertex);
  color(step);
  if (event) reveal(seen(event.vertex));
}

function color(step) {
  for (const element of world.querySelectorAll(".now, .done, .target")) element.classList.remove("now", "done", "target");
  WALK.steps.slice(0, Math.max(0, step - 1)).forEach(({ vertex }) => $(`v${vertex}`)?.classList.add("done"));
  const event = WALK.steps[step - 1];
  if (!event) return;
  const here = nameOf(seen(event.vertex));
  for (const [source, target] of DATA.edges) {
    const name = nameOf(seen(source));
    if (target === event.vertex && name !== here) $(name).classList.add("target");
  }
  $(here).classList.add("now");
}

const move = (by) => goTo(Number(range.value) + by);
range.addEventListener("input", () => goTo(Number(range.value)));
$("first").addEventListener("click", () => goTo(0));
$("back").addEventListener("click", () => move(-1));
$("next").addEventListener("click", () => move(1));
$("last").addEventListener("click", () => goTo(WALK.steps.length + 1));
document.addEventListener("keydown", (event) => {
  if (event.target === $("search") || event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const by = { n: 1, b: -1 }[event.key];
  if (by) { event.preventDefault(); move(by); }
});
const keys = document.querySelector("#help dl");
const key = document.createElement("dt"), meaning = document.createElement("dd");
add(key, "kbd", "n");
key.append(" ");
add(key, "kbd", "b");
meaning.textContent = "the next and the previous step of the backward pass";
keys.prepend(key, meaning);
$("follow").addEventListener("change", () => goTo(Number(range.value)));
for (const element of document.querySelectorAll(".following")) show(element, DATA.boxes.length > 0);
const redrawn = redraw;
redraw = () => { redrawn(); color(Number(range.value)); };
goTo(Math.min(1, WALK.steps.length));
const refitted = refit;
refit = () => {
  refitted();
  const event = WALK.steps[Number(range.value) - 1];
  if (event) reveal(seen(event.vertex));
};
if (window === window.parent) range.focus();
