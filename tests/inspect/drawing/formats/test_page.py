"""The page in a browser: what a person sees, does with keys alone, and finds; nothing is loaded from anywhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from tests.inspect.drawing.graphs import GRAPHS, drawn

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
browsing = pytest.mark.skipif(BROWSER is None, reason="no Chromium")

# Runs in the page after its own script; what it returns is written into the document.
HARNESS = """<script>
const errors = [];
window.addEventListener("error", (event) => errors.push(event.message));
const press = (key, element = stage) => element.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const shown = (g) => g.style.display !== "none";
const visible = (prefix) => [...world.querySelectorAll(`g[id^=${prefix}]`)].filter(shown).length;
const write = (text) => { $("search").value = text; $("search").dispatchEvent(new Event("input")); };
let result;
try { result = (() => { BODY })(); } catch (error) { errors.push(`${error}`); }
const pre = document.body.appendChild(document.createElement("pre"));
pre.id = "result";
pre.textContent = JSON.stringify({ result, errors });
</script></body>"""


def browse(drawing, tmp_path, body, width=1440, height=900):
    """What the body returns in the page of a drawing."""
    page = tmp_path / "page.html"
    page.write_text(drawing.to_html().replace("</body>", HARNESS.replace("BODY", body)), encoding="utf-8")
    run = subprocess.run(
        [
            BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},{height}",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    written = re.search(r'<pre id="result">(.*?)</pre>', run.stdout, re.S)
    assert written is not None, run.stderr[-2000:]
    text = written[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    found = json.loads(text)
    assert found["errors"] == []
    return found["result"]


@pytest.mark.parametrize("name", GRAPHS)
def test_nothing_is_loaded_and_nothing_runs_but_the_script(name):
    page = drawn(name, traced=True).to_html()
    assert page.count("<script") == page.count("</script") == 1
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", page)
    assert re.search(r"\son[a-z]+\s*=\s*[\"']", page) is None
    assert "{{" not in page


@pytest.mark.slow
@browsing
def test_it_opens_folded_and_is_unfolded_by_keys(tmp_path):
    drawing = drawn("gpt", traced=True, depth=1)
    keys = """
      const before = [visible("v"), visible("b")];
      for (let i = 0; i < 40 && !(selected < 0 && !opened.has(~selected)); i++) press("ArrowDown");
      const folded = nameOf(selected), label = $("said").textContent;
      press("Enter");
      const after = [visible("v"), visible("b")];
      press("Enter");
      return { before, folded, label, after, again: [visible("v"), visible("b")], panel: !$("panel").hidden };
    """
    found = browse(drawing, tmp_path, keys)
    assert found["before"] == found["again"] and found["after"][1] > found["before"][1]
    assert found["label"].startswith("module 0…3. path blocks.0. class TransformerBlock. repeated 4 times")
    assert found["panel"]
    scene = drawing._scene
    assert found["before"][0] == sum(
        all(box in scene.placed for box in scene.picture.around(vertex.box)) for vertex in scene.picture.vertices
    )


@pytest.mark.slow
@browsing
def test_arrows_reach_every_operator_of_a_chain_and_come_back(tmp_path):
    walk = """
      const walked = (key) => {
        const titles = [];
        for (let before = null; before !== selected && titles.length < 30; press(key)) {
          before = selected;
          titles.push(facts(selected).title);
        }
        return titles;
      };
      press("ArrowDown");
      const down = walked("ArrowDown"), up = walked("ArrowUp"), last = selected;
      press("ArrowRight");
      const moved = selected !== last;
      press("Escape");
      return { down, up, moved, selected };
    """
    found = browse(drawn("mlp", traced=False), tmp_path, walk)
    chain = ["linear", "relu", "linear", "relu", "linear", "cross_entropy", "output"]
    assert found["down"][1:] == chain and found["up"][:7] == chain[::-1]
    assert found["moved"] and found["selected"] is None


@pytest.mark.slow
@browsing
def test_search_finds_what_is_folded_and_opens_it(tmp_path):
    steps = """
      write("gelu");
      const hits = [$("hits").textContent, world.querySelectorAll(".folded.hit").length > 0];
      press("Enter", $("search"));
      const gelu = [facts(selected).title, scene.corner.has(selected), $("hits").textContent];
      write("no such thing");
      const none = $("hits").textContent;
      press("Escape", $("search"));
      return { hits, gelu, none, dimmed: world.classList.contains("searching") };
    """
    found = browse(drawn("gpt", traced=True, depth=0), tmp_path, steps)
    assert found["hits"] == ["1 found", True] and found["gelu"] == ["gelu", True, "1 of 1 found"]
    assert found["none"] == "0 found" and not found["dimmed"]


@pytest.mark.slow
@browsing
def test_depth_and_zoom_have_keys_and_buttons(tmp_path):
    steps = """
      const seen = [];
      for (const key of ["[", "[", "[", "]"]) { press(key); seen.push([$("depth").textContent, visible("v")]); }
      $("deeper").click();
      seen.push([$("depth").textContent, visible("v")]);
      press("1");
      const full = view.k;
      press("+");
      const larger = view.k;
      press("0");
      const root = scene.placed.get(-1), area = stage.getBoundingClientRect();
      press("?", document.body);
      const fits = root.height * view.k <= area.height && root.width * view.k <= area.width;
      return { seen, full, larger, fits, help: $("help").open };
    """
    found = browse(drawn("gpt", traced=True, depth=2), tmp_path, steps)
    depths, counts = zip(*found["seen"], strict=True)
    assert depths == ("blocks, 1 of 4", "model, 0 of 4", "model, 0 of 4", "blocks, 1 of 4", "blocks, 2 of 4")
    assert counts[1] == counts[2] < counts[3] == counts[0] < counts[4]
    assert found["full"] == 1 and found["larger"] > 1 and found["fits"] and found["help"]


@pytest.mark.slow
@browsing
def test_what_is_pointed_at_tells_its_values_as_text(tmp_path):
    steps = """
      const told = {};
      DATA.vertices.forEach((vertex, key) => { fill($("tip"), key, 99); told[vertex.label] = $("tip").textContent; });
      return { told, images: document.querySelectorAll("img").length, scripts: document.scripts.length };
    """
    found = browse(drawn("zoo", traced=True), tmp_path, steps)
    assert "values" in found["told"]["b & <b>"] and "gradient" in found["told"]["b & <b>"]
    assert "graphs.py:" in found["told"]["softmax"] and "<script>alert(1)</script>" in found["told"]
    assert found["images"] == 0 and found["scripts"] == 2  # the page's own, and this test's


@pytest.mark.slow
@browsing
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (500, 844)])
def test_all_controls_are_within_the_window_and_reached_by_tab(width, height, tmp_path):
    steps = """
      const wide = document.documentElement.scrollWidth <= window.innerWidth;
      const controls = [...document.querySelectorAll("header button, header input, #stage")];
      const boxes = controls.map((element) => element.getBoundingClientRect());
      return {
        wide, inside: boxes.every((box) => box.left >= 0 && box.right <= window.innerWidth + 0.5),
        focusable: controls.every((element) => element.tabIndex >= 0),
        named: controls.every((element) => element.getAttribute("aria-label") || element.textContent.trim()),
        height: stage.getBoundingClientRect().height / window.innerHeight,
      };
    """
    found = browse(drawn("gpt", traced=True), tmp_path, steps, width, height)
    assert found["wide"] and found["inside"] and found["focusable"] and found["named"] and found["height"] > 0.75


@pytest.mark.slow
@browsing
def test_a_frame_that_gets_its_size_later_shows_the_whole_and_one_that_was_moved_stays(tmp_path):
    body = """
        const whole = view.k, resize = () => refit(); // as when the stage has another size
        document.body.style.display = "none";
        resize();
        const hidden = view.k;
        document.body.style.display = "";
        resize();
        const later = view.k;
        press("+");
        const zoomed = view.k;
        resize();
        return [whole, hidden, later, zoomed, view.k];
    """
    whole, hidden, later, zoomed, kept = browse(drawn("mlp", traced=True), tmp_path, body)
    assert hidden < whole == later < zoomed == kept
