"""What the site is in a browser: on a phone, without a network, by keys, by search. `make docs` runs it."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache

import pytest

from tools.pages import site

pytestmark = pytest.mark.slow

HTML = site.BUILD / "html"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@cache
def pages() -> list[str]:
    return sorted(str(file.relative_to(HTML)) for file in HTML.rglob("*.html") if "_modules" not in file.parts)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if BROWSER is None or not (HTML / "index.html").exists():
        pytest.skip("no browser, or no site: make docs builds it")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser):
    """Open a page of the site in a window of a size; what goes wrong there is in ``opened.complaints``."""
    contexts = []

    def open_page(name, width=1440, query=""):
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and open_page.complaints.append(message.text))
        page.on("pageerror", lambda error: open_page.complaints.append(str(error)))
        page.on("request", lambda request: outside(request.url))
        page.goto((HTML / name).as_uri() + query)
        return page

    def outside(url):
        if not url.startswith(("file:", "data:", "blob:")):
            open_page.complaints.append(url)

    open_page.complaints = []
    yield open_page
    for context in contexts:
        context.close()
    assert open_page.complaints == []


# All formulas of a page, near or not; how many there are, and those that MathJax has not set, or set as an error.
SET = """() => MathJax.startup.promise.then(() => MathJax.typesetPromise()).then(() => {
  fit();
  const math = [...document.querySelectorAll(".math")];
  const error = "mjx-merror, [data-mjx-error]";
  const wrong = math.filter(one => !one.querySelector("mjx-container") || one.querySelector(error));
  return [math.length, wrong.map(one => one.innerText)];
})"""
# Formulas that were not understood as such leave their marks in the text.
MARKS = """() => [...document.querySelectorAll("article p, article li")]
  .some(one => /[$]|[\\\\][a-z]/.test(one.innerText))"""
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.mark.parametrize("share", range(4))  # for several processes
def test_every_page_fits_a_phone_with_its_formulas_set_and_asks_no_network(share, opened):
    page = opened("index.html", 390)
    page.set_default_timeout(300_000)
    count, unset, wide = 0, {}, []
    chosen = [name for name in pages() if not name.startswith("reference/operators/")]
    # The table of operators has the formulas of all of them: a page of each dozen shows how pages are set.
    chosen += [name for name in pages() if name.startswith("reference/operators/")][::12]
    assert len(chosen) > 250
    for name in chosen[share::4]:
        page.goto((HTML / name).as_uri())
        if page.query_selector(".math"):
            formulas, wrong = page.evaluate(SET)
            count += formulas
            if wrong or name.startswith("learn/") and page.evaluate(MARKS):
                unset[name] = wrong
        if page.evaluate(WIDE):
            wide.append(name)
    assert wide == []
    assert count > 400 and unset == {}


CUT = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.innerText)"


@pytest.mark.parametrize("width", [1100, 1280, 1440])
def test_on_a_desk_nothing_printed_and_no_table_is_cut_off(opened, width):
    for name in (
        "guides/finding_a_nan.html",
        "guides/coming_from_pytorch.html",
        "learn/08_derivatives_of_every_kind.html",
    ):
        page = opened(name, width)
        assert page.eval_on_selector_all(".highlight-text pre, .table-wrapper", CUT) == [], name


def test_a_phone_breaks_long_messages_and_keeps_tables_in_line(opened):
    page = opened("guides/coming_from_numpy.html", 390)
    cut = page.eval_on_selector_all(".highlight-text pre", CUT)
    assert cut and not any("RuntimeError" in text for text in cut)


def test_a_formula_that_mathjax_refuses_is_seen(opened):
    page = opened("reference/retrograd_scalar.html")
    page.evaluate("document.querySelector('.math').textContent = '\\\\(\\\\frac{a\\\\)'")
    assert len(page.evaluate(SET)[1]) == 1


NAMES = [
    *("Tensor", "matmul", "logsumexp", "nn.Linear", "nn.MultiheadAttention", "cross_entropy", "optim.AdamW"),
    *("vmap", "memory_budget", "guard", "explain", "compile", "DataLoader", "DistributedDataParallel"),
    *("gradcheck", "Function", "Primitive", "einsum", "NeuralNetClassifier", "check_layer"),
]


def test_the_search_finds_public_names(opened):
    page = opened("search.html")
    for name in NAMES:
        page.goto((HTML / "search.html").as_uri() + f"?q={name}")
        page.wait_for_selector("#search-results ul.search li a")
        lines = "all => all.slice(0, 5).map(one => one.innerText)"
        found = page.eval_on_selector_all("#search-results ul.search li", lines)
        assert any(name.rpartition(".")[2] in line for line in found), json.dumps(found)


def test_a_page_is_used_by_keys_alone(opened):
    page = opened("learn/02_the_backward_pass.html")
    focused = "document.activeElement"
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.innerText") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.url.endswith("#furo-main-content")
    page.keyboard.press("/")
    assert page.evaluate(f"{focused}.name") == "q"
    page.keyboard.type("a/b")
    assert page.evaluate(f"{focused}.value") == "a/b"

    solution = page.query_selector("details")
    solution.query_selector("summary").focus()
    page.keyboard.press("Enter")
    assert solution.evaluate("details => details.open")
    page.keyboard.press("Space")
    assert not solution.evaluate("details => details.open")

    theme = page.evaluate("document.body.dataset.theme")
    page.query_selector(".content-icon-container button.theme-toggle, button.theme-toggle >> visible=true").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.body.dataset.theme") != theme

    visited = []
    page.evaluate("document.activeElement.blur()")
    for _ in range(120):
        page.keyboard.press("Tab")
        visited.append(page.evaluate(f"{focused}.getBoundingClientRect().width > 0 && {focused} !== document.body"))
    assert sum(visited) > 100


def test_the_sidebar_of_a_phone_opens_for_a_search_by_key(opened):
    page = opened("index.html", 390)
    page.keyboard.press("/")
    page.wait_for_function("document.querySelector('input.sidebar-search').getBoundingClientRect().left >= 0")
    page.keyboard.type("vmap")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results ul.search li a")
    assert "search.html" in page.url


SUBJECTS = {
    "backpropagation": "learn/|glossary",
    "fine-tune": "guides/fine_tuning",
    "install": "guides/installation",
    "custom operator": "guides/(writing_an_operator|custom_functions)",
    "CSV": "guides/|learn/|index",
    "NaN": "guides/finding_a_nan|learn/07",
    "vanishing gradient": "learn/07|guides/why",
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_search_finds_subjects_with_excerpts(opened, subject):
    page = opened("search.html", query=f"?q={subject}")
    page.wait_for_selector("#search-results p.excerpt")
    links = page.eval_on_selector_all("#search-results ul.search li a", "all => all.slice(0, 6).map(one => one.href)")
    assert any(re.search(SUBJECTS[subject], link) for link in links), links
    word = subject.split()[0].split("-")[0].lower()
    excerpts = page.eval_on_selector_all(
        "#search-results p.excerpt", "all => all.slice(0, 6).map(one => one.innerText)"
    )
    assert any(word[:6] in excerpt.lower() for excerpt in excerpts), excerpts


def test_the_front_pages_stepper_steps_through_each_expression(opened):
    page = opened("index.html")
    for number in range(6):
        page.locator(".stepper button").nth(number).click()
        frame = page.frame_locator(".stepper iframe")
        assert "step 1 of" in frame.locator("#where").inner_text()
        before = frame.locator("#event").inner_text()
        frame.locator("#next").click()
        assert "step 2 of" in frame.locator("#where").inner_text() and frame.locator("#event").inner_text() != before
        assert page.locator(".stepper pre:visible").count() == 1


def test_the_table_of_operators_leads_to_their_pages(opened):
    page = opened("operators.html")
    page.locator("table.operator a", has_text=re.compile("^relu$")).first.click()
    assert page.url.endswith("reference/operators/relu.html")
    page.locator("svg.curves").wait_for()
    assert page.locator('meta[name="description"]').get_attribute("content").startswith("max")


def test_figures_fit_their_column(opened):
    for width in (390, 1440):
        for name in ("index.html", "results.html", "guides/quickstart.html"):
            page = opened(name, width)
            page.wait_for_load_state()
            wider = "one => one.offsetParent && one.width > one.closest('article').clientWidth + 1"
            wide = f"all => all.filter({wider}).map(one => one.src)"
            assert page.eval_on_selector_all("article img:not(.picture)", wide) == [], (name, width)


def test_a_published_site_offers_its_versions(opened, tmp_path):
    (tmp_path / "versions.js").write_text('versions({"9.9": "9.9/", "0.0.1": "0.0.1/"});', encoding="utf-8")
    address = (tmp_path / "versions.js").as_uri()
    page = opened("index.html")
    assert page.locator("select.versions").count() == 0  # built without DOCS_BASEURL
    body = (HTML / "index.html").read_text(encoding="utf-8")
    page.route(
        "**/index.html",
        lambda route: route.fulfill(
            body=body.replace("<head>", f'<head><meta name="versions" content="{address}">', 1),
            content_type="text/html",
        ),
    )
    page.reload()
    choice = page.locator("select.versions")
    choice.wait_for()
    here = choice.evaluate("choice => choice.selectedOptions[0].text")
    assert choice.locator("option").all_text_contents() == [here, "9.9", "0.0.1"]
    assert page.locator(".sidebar-brand-text").inner_text().endswith(here)
