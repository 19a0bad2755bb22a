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
  for (const [name, text, some] of rows) {
    add(element, "dt", name);
    add(element, "dd", text, some === false ? "none" : "");
  }
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
    add(told, "h3", "Rule");
    add(told, "pre", WALK.rules[event.rule]);
    list("The rule read", event.read);
    list("Gradient of", event.went);
  } else add(told, "p", step ? "All gradients are computed." : `${count} operators; the next one is the last that ran forward.`);
  if (event && $("follow").checked) follow(event.vertex);
  colour(step);
  if (event) reveal(seen(event.vertex));
}

function colour(step) {
  for (const element of world.querySelectorAll(".now, .done, .target")) element.classList.remove("now", "done", "target");
  WALK.steps.slice(0, Math.max(0, step - 1)).forEach(({ vertex }) => $(`v${vertex}`).classList.add("done"));
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
redraw = () => { redrawn(); colour(Number(range.value)); };
goTo(Math.min(1, WALK.steps.length));
if (window === window.parent) range.focus();
