"""The page of a watched run: one file, safe with any name, and read by keys alone in a browser."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess

import pytest

import retrograd as rg
from retrograd import inspect, nn

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
browsing = pytest.mark.skipif(BROWSER is None, reason="no Chromium")

# Runs in the page after its own script; what it returns is written into the document.
HARNESS = """<script>
const errors = [];
window.addEventListener("error", (event) => errors.push(event.message));
const press = (key, element) => element.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const texts = (selector) => [...document.querySelectorAll(selector)].map((x) => x.textContent);
let result;
try { result = (() => { BODY })(); } catch (error) { errors.push(`${error}`); }
const pre = document.body.appendChild(document.createElement("pre"));
pre.id = "result";
pre.textContent = JSON.stringify({ result, errors });
</script></body>"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A healthy run, a sick one with names that are HTML, and a run of one step."""
    found = {}
    for name, steps, poison in (("healthy", 30, False), ("sick", 12, True), ("one", 1, False)):
        rg.manual_seed(0)
        layers = {"first": nn.Linear(4, 8), "relu": nn.ReLU(), "<script>alert(1)</script>": nn.Linear(8, 1)}
        model = nn.ModuleDict(layers)
        optimizer = rg.optim.SGD(model.parameters(), lr=0.01)
        with inspect.watch(model, optimizer, every=1) as w:
            for number in range(steps):
                optimizer.zero_grad()
                x = rg.randn(6, 4) if not poison or number < 9 else rg.full((6, 4), math.nan)
                for layer in model.values():
                    x = layer(x)
                x.square().mean().backward()
                optimizer.step()
        path = tmp_path_factory.mktemp("pages") / f"{name}.html"
        w.save(path)
        found[name] = path.read_text(encoding="utf-8")
    return found


def browse(page, tmp_path, body, width=1440, height=900):
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", HARNESS.replace("BODY", body)), encoding="utf-8")
    run = subprocess.run(
        [
            BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},{height}",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", "--dump-dom", path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    written = re.search(r'<pre id="result">(.*?)</pre>', run.stdout, re.S)
    assert written is not None, run.stderr[-2000:]
    found = json.loads(written[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert found["errors"] == []
    return found["result"]


@pytest.mark.parametrize("name", ["healthy", "sick", "one"])
def test_nothing_is_loaded_and_nothing_runs_but_the_script(name, pages):
    page = pages[name]
    assert page.count("<script") == page.count("</script") == 1
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", page)
    assert re.search(r"\son[a-z]+\s*=\s*[\"']", page) is None
    assert "{{" not in page


@browsing
@pytest.mark.parametrize("width", [1440, 390])
def test_keys_move_through_the_steps_of_all_charts(pages, tmp_path, width):
    keys = """
      const chart = document.querySelector(".plot");
      const seen = () => [$("step").textContent, chart.getAttribute("aria-valuetext"), texts(".legend output")[0]];
      const lines = () => [...document.querySelectorAll(".cursor")].map((x) => x.getAttribute("x1"));
      const end = seen(), cursors = () => new Set(lines());
      press("Home", chart);
      const home = seen();
      press("ArrowRight", chart);
      return { end, home, next: seen(), cursors: cursors().size, charts: texts("figcaption").length,
               wide: document.documentElement.scrollWidth <= innerWidth, focus: chart.tabIndex };
    """
    found = browse(pages["healthy"], tmp_path, keys, width)
    assert (found["end"][0], found["home"][0], found["next"][0]) == ("step 29", "step 0", "step 1")
    assert found["home"][1].startswith("step 0: loss ") and found["home"][2] != found["end"][2]
    assert found["cursors"] == 1 and found["charts"] >= 9 and found["wide"] and found["focus"] == 0


@browsing
def test_alarms_stand_on_top_and_names_are_text(pages, tmp_path):
    body = """
      const tick = document.querySelector("#parameters input");
      const before = document.querySelectorAll(".faint").length;
      tick.click();
      return { alarms: texts("#alarms li"), names: texts("#parameters td:nth-child(2)"),
               scripts: document.scripts.length,
               crosses: texts(".plot text").filter((x) => x === "\\u00d7").length,
               faint: document.querySelectorAll(".faint").length - before };
    """
    found = browse(pages["sick"], tmp_path, body)
    assert found["alarms"][0].startswith("step 9") and "loss is nan" in found["alarms"][0]
    assert "<script>alert(1)</script>.weight" in found["names"] and found["scripts"] == 2  # the page's and this one
    assert found["crosses"] >= 3 and found["faint"] == 3  # update ratio, gradients, weights
    one = browse(pages["one"], tmp_path, "return texts('#alarms li');")
    assert one == ["no alarm"]
