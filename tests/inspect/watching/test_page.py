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


@pytest.mark.slow
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


@pytest.mark.slow
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


def jumped(rate=25.0, step=30, count=45):
    """A run whose learning rate jumps at a step."""
    rg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = rg.optim.SGD(model.parameters(), lr=0.05)
    x = rg.randn(32, 4)
    y = x.sum(1, keepdim=True)
    with inspect.watch(model, optimizer, every=1, live=False) as w:
        for number in range(count):
            if number == step:
                optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
    return w


def test_the_cause_names_the_setting_that_changed_before_the_first_alarm():
    w = jumped()
    assert w.alarms and w.cause.startswith("lr 0.05 -> 25 at step 30; the first alarm came at step 3")
    assert jumped(rate=0.05).cause == ""


def test_without_a_change_the_first_alarm_is_the_cause():
    rg.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.01)
    with inspect.watch(model, optimizer, every=1, live=False) as w:
        for number in range(12):
            optimizer.zero_grad()
            model(rg.full((6, 4), math.nan if number > 8 else 1.0)).square().mean().backward()
            optimizer.step()
    assert w.cause.startswith("step 9: loss is nan")


@pytest.mark.slow
@browsing
def test_a_click_on_an_alarm_shows_its_step_and_its_curve_alone(tmp_path):
    w = jumped()
    w.save(tmp_path / "watch.html")
    body = """
      const button = [...document.querySelectorAll("#alarms button")].find((x) => x.textContent.includes("2.weight"));
      const cause = $("cause").textContent;
      $("cause").firstChild.click();
      const before = $("step").textContent;
      button.click();
      return { cause, before, step: $("step").textContent, told: button.textContent,
               ticked: [...document.querySelectorAll("#parameters input")].map((x) => x.checked),
               names: texts("#parameters td:nth-child(2)"), which: $("which").selectedOptions[0].textContent,
               chosen: texts(".chosen figcaption"), pressed: button.getAttribute("aria-pressed") };
    """
    found = browse((tmp_path / "watch.html").read_text(encoding="utf-8"), tmp_path, body)
    assert found["cause"] == w.cause and found["before"] == "step 30"
    assert found["told"].startswith(found["step"]) and found["pressed"] == "true"
    shown = [name for name, tick in zip(found["names"], found["ticked"], strict=True) if tick]
    assert shown == [found["which"]] == ["2.weight"] and found["chosen"]


def test_two_models_are_watched_at_once_with_the_losses_of_both(tmp_path):
    rg.manual_seed(0)
    models = {"generator": nn.Linear(2, 3), "discriminator": nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))}
    optimizers = [rg.optim.SGD(model.parameters(), lr=0.01) for model in models.values()]
    with inspect.watch(models, optimizers, every=1, live=False) as w:
        for _ in range(5):
            fake = models["generator"](rg.randn(6, 2))
            for optimizer, x, sign in ((optimizers[1], fake.detach(), 1), (optimizers[0], fake, -1)):
                w.model.zero_grad()
                (sign * models["discriminator"](x)).mean().backward()
                optimizer.step()
    assert repr(w).startswith("<watch of generator and discriminator: 5 records")
    assert {"generator.weight", "discriminator.0.weight"} <= w.records[-1].weights.keys()
    assert {"discriminator.1", "generator"} <= w.records[2].activations.keys()
    w.save(tmp_path / "watch.json")
    data = json.loads((tmp_path / "watch.json").read_text())
    assert len(data["losses"]) == 2 and all(isinstance(x, float) for curve in data["losses"] for x in curve[1:-1])
    with pytest.raises(TypeError, match="model must be a Module"):
        inspect.watch({"generator": 3}, optimizers)
