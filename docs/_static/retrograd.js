/* Formulas are set as they come near; what is wider than the screen scrolls by keys, too; tables of many columns become
   cards on a phone; "/" searches. */
function reachable() {
  for (const printed of document.querySelectorAll(".highlight-text pre"))  // text, not a table that is a little too wide
    if (printed.scrollWidth > 1.7 * printed.clientWidth) printed.classList.add("long");
  for (const box of document.querySelectorAll(".table-wrapper, .highlight pre, .wide, div.math, .math.long")) {
    if (box.scrollWidth > box.clientWidth + 1) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }
}

for (const picture of document.querySelectorAll("img.picture")) {
  const box = document.createElement("div");
  box.className = "wide";
  picture.replaceWith(box);
  box.append(picture);
}

for (const table of document.querySelectorAll("article table")) {
  const titles = [...table.querySelectorAll("thead th")].map((title) => title.textContent);
  if (titles.length < 5) continue;
  table.classList.add("cards");
  if (titles[0] === "operator") table.classList.add("operator");
  for (const row of table.querySelectorAll("tbody tr"))
    [...row.cells].forEach((cell, number) => {
      cell.dataset.title = titles[number];
      cell.classList.toggle("none", cell.textContent.trim() === "");
    });
}

// Where a name in a narrow column may go on on the next line.
for (const name of document.querySelectorAll("article td code .pre"))
  name.innerHTML = name.innerHTML.replace(/([._(=,/])(?=\w)/g, "$1<wbr>");

for (const part of document.querySelectorAll("dt.sig .sig-prename, dt.sig .sig-name + .sig-paren"))
  part.after(document.createElement("wbr"));

// Cards are higher than rows: what the address names is somewhere else now.
if (location.hash) addEventListener("load", () => document.getElementById(location.hash.slice(1))?.scrollIntoView({ behavior: "instant" }));

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = document.querySelector("input.sidebar-search");
  if (!field) return;
  event.preventDefault();
  const drawer = document.getElementById("__navigation");
  if (drawer && field.getBoundingClientRect().right <= 0) drawer.checked = true;  // the sidebar of a phone
  field.focus();
});

// What has no place to break a line, and needs more than one.
function fit() {
  for (const formula of document.querySelectorAll("span.math:has(mjx-container)")) {
    let box = formula.parentElement;
    while (getComputedStyle(box).display === "inline") box = box.parentElement;
    if (formula.getBoundingClientRect().width > box.clientWidth) formula.classList.add("long");
  }
  reachable();
}

// Two thousand formulas at once would hold a page for seconds.
addEventListener("load", () => {
  const near = new IntersectionObserver((seen) => {
    const formulas = seen.filter((one) => one.isIntersecting).map((one) => one.target);
    formulas.forEach((formula) => near.unobserve(formula));
    if (formulas.length)
      MathJax.startup.promise = MathJax.startup.promise.then(() => MathJax.typesetPromise(formulas)).then(fit);
  }, { rootMargin: "100%" });
  for (const formula of document.querySelectorAll(".math")) near.observe(formula);
});
addEventListener("beforeprint", () => window.MathJax?.typeset());

addEventListener("load", reachable);
addEventListener("resize", reachable);

// The front page: an expression at a time.
for (const stepper of document.querySelectorAll(".stepper")) {
  const buttons = [...stepper.querySelectorAll("button")], programs = stepper.querySelectorAll("pre");
  const choose = (chosen) => {
    buttons.forEach((button, number) => {
      button.setAttribute("aria-pressed", number === chosen);
      programs[number].hidden = number !== chosen;
    });
    stepper.querySelector("iframe").src = buttons[chosen].dataset.page;
  };
  buttons.forEach((button, number) => button.addEventListener("click", () => choose(number)));
}

// Excerpts of pages that a search has found, from texts in a script: pages opened as files cannot fetch each other.
const results = document.getElementById("search-results");
if (results) {
  const root = new URL(".", location.href);  // the search page lies at the site's root
  const words = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\W+/).filter((word) => word);
  const excerpt = (text) => {
    const lower = text.toLowerCase();
    const stems = words.map((word) => (word.length > 5 ? word.slice(0, -2) : word));
    let from = 0, most = 0;  // where most of the words are near each other
    for (const stem of stems)
      for (let place = lower.indexOf(stem); place >= 0; place = lower.indexOf(stem, place + 1)) {
        const near = lower.slice(Math.max(0, place - 60), place + 180);
        const found = stems.filter((one) => near.includes(one)).length;
        if (found > most) [from, most] = [place, found];
      }
    from = Math.max(0, text.lastIndexOf(" ", Math.max(0, from - 60)) + 1);
    const shown = document.createElement("p");
    shown.className = "excerpt";
    const stop = text.length > from + 240 ? text.lastIndexOf(" ", from + 240) : text.length;
    const cut = (from ? "… " : "") + text.slice(from, stop).trim() + (text.length > stop ? " …" : "");
    const pattern = stems.length ? new RegExp(`(${stems.join("|")})\\w*`, "gi") : null;
    let end = 0;
    for (const match of pattern ? cut.matchAll(pattern) : []) {
      shown.append(cut.slice(end, match.index), Object.assign(document.createElement("mark"), { textContent: match[0] }));
      end = match.index + match[0].length;
    }
    shown.append(cut.slice(end));
    return shown;
  };
  const add = () => {
    for (const item of results.querySelectorAll("ul.search > li:not([data-excerpt])")) {
      const link = item.querySelector("a");
      if (!link || !window.searchTexts) continue;
      item.dataset.excerpt = "";
      const address = new URL(link.href).href.replace(root.href, "").replace(/[?#].*/, "");
      const text = window.searchTexts[decodeURIComponent(address)];
      if (text) item.append(excerpt(text));
    }
  };
  const script = document.createElement("script");
  script.src = new URL("_static/search_texts.js", root);
  script.addEventListener("load", add);
  document.head.append(script);
  new MutationObserver(add).observe(results, { childList: true, subtree: true });
}

// The versions of the published site: a script beside their folders calls versions({"0.1": address, ...}), newest first.
const listed = document.querySelector('meta[name="versions"]');
if (listed) {
  window.versions = (addresses) => {
    const here = document.querySelector(".sidebar-brand-text").textContent.trim().split(" ").pop();
    const choice = document.createElement("select");
    choice.className = "versions";
    choice.setAttribute("aria-label", "Version");
    for (const [version, address] of Object.entries({ ...(here in addresses ? {} : { [here]: "" }), ...addresses }))
      choice.add(new Option(version, address, false, version === here));
    choice.addEventListener("change", () => choice.value && location.assign(choice.value));
    document.querySelector(".sidebar-brand").after(choice);
  };
  const script = document.createElement("script");
  script.src = listed.content;
  document.head.append(script);
}
