"""The layout: nothing overlaps, edges go down and keep clear of boxes, and the page's script computes the same."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import partial
from importlib.resources import files
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect
from retrograd.inspect.drawing.formats.page import data_of
from retrograd.inspect.drawing.layout import layering, placing
from retrograd.inspect.drawing.layout.nesting import Level, Net
from retrograd.inspect.drawing.layout.scene import LETTER, SMALL, columns, shortened
from tests.helpers.together import check_all
from tests.inspect.drawing.graphs import GRAPHS, drawn

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = [(name, depth) for name in GRAPHS for depth in (0, 1, 9)]


def random_level(seed: int) -> Level:
    """A level of random items and nets, some of which come in and go out."""
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 30))
    level = Level(0, list(range(count)))
    for value in range(int(random.integers(1, 40))):
        source = int(random.integers(-1, count - 1))
        targets = sorted({int(t) for t in random.integers(source + 1, count, 3)})
        level.nets.append(Net((value, 0), source, targets, bool(random.random() < 0.2)))
    return level


def rectangles(drawing, box):
    """Left, top, right and bottom of all items that stand in a box."""
    scene = drawing._scene
    level = scene.levels[box]
    return {
        item: (
            *(corner := scene.corner(level, i)),
            corner[0] + scene.size_of(item)[0],
            corner[1] + scene.size_of(item)[1],
        )
        for i, item in enumerate(level.items)
    }


@pytest.mark.parametrize(("name", "depth"), DRAWN)
def test_nothing_overlaps_and_boxes_hold_what_is_in_them(name, depth):
    drawing = drawn(name, traced=True, depth=depth)
    for box, placed in drawing._scene.placed.items():
        found = rectangles(drawing, box)
        for a, b in combinations(found.values(), 2):
            assert a[2] <= b[0] + 1e-6 or b[2] <= a[0] + 1e-6 or a[3] <= b[1] + 1e-6 or b[3] <= a[1] + 1e-6
        x, y = drawing._scene.origin[box]
        title = placing.HEADER if box >= 0 else 0
        for left, top, right, bottom in found.values():
            assert x - 1e-6 <= left and right <= x + placed.width + 1e-6
            assert y + title - 1e-6 <= top and bottom <= y + placed.height + 1e-6


@pytest.mark.parametrize(("name", "depth"), DRAWN)
def test_every_edge_goes_down_from_its_source_to_its_targets(name, depth):
    scene = drawn(name, traced=True, depth=depth)._scene
    for box, placed in scene.placed.items():
        level = scene.levels[box]
        heights = [scene.size_of(item)[1] for item in level.items]
        for net, path in zip(level.nets, placed.paths, strict=True):
            ends = []
            for piece in path.split("M")[1:]:
                ys = vertical(piece)
                assert ys == sorted(ys)
                ends.append(ys[-1])
            if net.source >= 0:
                start = min(vertical(piece)[0] for piece in path.split("M")[1:])
                assert start == pytest.approx(placed.tops[net.source] + heights[net.source], abs=0.06)
            for target in net.targets:
                opened = ~level.items[target] in scene.placed if level.items[target] < 0 else False
                wanted = placed.tops[target] - (0 if opened else 5)
                assert min(abs(end - wanted) for end in ends) < 0.11
                if net.source >= 0:
                    assert placed.tops[net.source] + heights[net.source] < placed.tops[target]


def vertical(piece: str) -> list[float]:
    """The heights that a piece of a path goes through: its start, upright parts, and the end of its curve."""
    start = float(piece.partition("V")[0].split()[1])
    numbers = [float(text) for text in re.findall(r"V(-?[\d.]+)", piece)]
    curve = [float(text) for text in re.search(r"C([^V]+)V", piece)[1].split()]
    return [start, numbers[0], curve[1], curve[3], curve[5], numbers[1]]


@pytest.mark.parametrize("name", GRAPHS)
def test_lines_that_pass_keep_clear_of_items(name):
    """In each row the items and passing lines follow each other with room between them."""
    scene = drawn(name, traced=True, depth=9)._scene
    for box, placed in scene.placed.items():
        level = scene.levels[box]
        for row in level.rows:
            items = [i for i in row if i >= 0]
            for a, b in zip(items, items[1:], strict=False):
                wide = (scene.size_of(level.items[a])[0] + scene.size_of(level.items[b])[0]) / 2
                lines = row.index(b) - row.index(a) - 1
                room = placing.APART + lines * placing.LINE
                assert placed.centers[b] - placed.centers[a] >= wide + room - 1e-6


@pytest.mark.parametrize("name", GRAPHS)
def test_texts_are_inside_their_boxes(name):
    svg = ElementTree.fromstring(drawn(name, traced=True, depth=9).to_svg())
    for group in svg.iter(f"{SVG}g"):
        if group.get("class", "").startswith("v "):
            rectangle = group.find(f"{SVG}rect")
            for i, text in enumerate(group.findall(f"{SVG}text")):
                assert columns(text.text) * (SMALL if i else LETTER) <= float(rectangle.get("width"))
                assert float(text.get("y")) < float(rectangle.get("height"))
        elif group.find(f"{SVG}rect[@class='tab']") is not None:
            tab = float(group.find(f"{SVG}rect[@class='tab']").get("width"))
            for text in group.findall(f"{SVG}text")[1:3]:
                letter = SMALL if text.get("class") else LETTER
                assert float(text.get("x")) + columns(text.text or "") * letter <= tab + 4


def test_long_names_are_shortened_in_their_middle():
    name = "encoder." * 20 + "weight"
    assert (
        columns(shortened(name)) <= 34 and shortened(name).startswith("encoder.") and shortened(name).endswith("weight")
    )
    x = rg.ones(2, requires_grad=True)
    (vertex,) = [v for v in inspect.draw(x.exp(), params={name: x}).picture.vertices if v.kind == "parameter"]
    assert dict(vertex.details)["name"] == name
    assert columns("層") == 2


@pytest.mark.parametrize("seed", range(40))
def test_rows_hold_every_item_once_below_all_it_reads(seed):
    level = random_level(seed)
    layering.arrange(level, leaves={0})
    row = {item: r for r, slots in enumerate(level.rows) for item in slots if item >= 0}
    assert sorted(item for slots in level.rows for item in slots if item >= 0) == level.items
    for number, net in enumerate(level.nets):
        passing = [r for r, slots in enumerate(level.rows) if ~number in slots]
        first = row[net.source] if net.source >= 0 else -1
        lowest = len(level.rows) - 1 if net.leaves else max(row[target] for target in net.targets) - 1
        assert passing == list(range(first + 1, lowest + 1))
        assert all(row[target] > first for target in net.targets)


def test_the_order_of_rows_has_few_crossings():
    """Two ladders whose rungs are named in the wrong order come apart without a crossing."""
    level = Level(-1, list(range(8)))
    for source, target in ((0, 3), (1, 2), (3, 4), (2, 5), (4, 7), (5, 6)):
        level.nets.append(Net((source, 0), source, [target]))
    layering.arrange(level, leaves=set())
    orders = [[item // 1 for item in row] for row in level.rows]
    assert orders in ([[0, 1], [3, 2], [4, 5], [7, 6]], [[1, 0], [2, 3], [5, 4], [6, 7]])


@pytest.mark.parametrize("seed", range(20))
def test_random_levels_have_no_overlaps(seed):
    level = random_level(seed)
    layering.arrange(level, leaves=set())
    random = np.random.default_rng(seed)
    items = [placing.Item((float(w), float(h))) for w, h in random.uniform(20, 200, (len(level.items), 2))]
    placed = placing.place(level, items, least=0.0)
    for row in level.rows:
        standing = [i for i in row if i >= 0]
        for a, b in zip(standing, standing[1:], strict=False):
            gap = placed.centers[b] - placed.centers[a] - (items[a].size[0] + items[b].size[0]) / 2
            assert gap >= placing.APART - 1e-6
    assert min(c - item.size[0] / 2 for c, item in zip(placed.centers, items, strict=True)) >= -1e-6


def test_a_chain_is_one_straight_line():
    x = rg.ones(2, requires_grad=True)
    y = x
    for function in (rg.exp, rg.sin, rg.cos, rg.tanh):
        y = function(y)
    (placed,) = inspect.draw(y)._scene.placed.values()
    assert np.ptp(placed.centers) < 1e-6


@pytest.mark.slow
def test_a_long_chain_is_laid_out_and_printed_without_recursion(capsys):
    x = rg.ones(2, requires_grad=True)
    for i in range(10_000):
        x = x.sin() if i % 3 else x * 0.5
    assert len(inspect.draw(x, repeats=False).picture.vertices) == 10_002
    assert len(inspect.draw(x).picture.vertices) < 10
    inspect.tree(x)
    assert len(capsys.readouterr().out.splitlines()) < 20


NODE = """
const { arranged, unpack } = require(process.argv[1]);
let text = "";
process.stdin.on("data", (part) => { text += part; }).on("end", () => {
  console.log(JSON.stringify(JSON.parse(text).map((data) => {
    unpack(data);
    const { placed, origin } = arranged(data, new Set(data.opened)), result = {};
    for (const [key, { width, height, centers, tops, paths, heads, labels }] of placed) {
      result[key] = { width, height, centers, tops, paths, heads, labels, origin: origin.get(key) };
    }
    return result;
  })));
});
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="no Node")
def test_the_script_of_the_page_puts_everything_where_python_does():
    """One process of Node, whose start takes longer than all of the layouts."""
    scenes = [drawn(name, traced=True, depth=depth)._scene for name, depth in DRAWN]
    script = str(files("retrograd.inspect.drawing.formats").joinpath("place.js"))
    given = json.dumps([data_of(scene) for scene in scenes])
    run = subprocess.run(["node", "-e", NODE, script], input=given, capture_output=True, text=True, check=True)
    check_all(
        (str(drawing), partial(assert_placed, scene, found))
        for drawing, scene, found in zip(DRAWN, scenes, json.loads(run.stdout), strict=True)
    )


def assert_placed(scene, found):
    assert found.keys() == {str(key) for key in scene.placed}
    for key, placed in scene.placed.items():
        theirs = found[str(key)]
        for ours, other in (
            ([placed.width, placed.height, *scene.origin[key]], [theirs["width"], theirs["height"], *theirs["origin"]]),
            (placed.centers, theirs["centers"]),
            (placed.tops, theirs["tops"]),
            (sum(placed.labels, ()), sum(theirs["labels"], [])),
            (figures_of(placed.paths), figures_of(theirs["paths"])),
            (figures_of(placed.heads), figures_of(theirs["heads"])),
        ):
            np.testing.assert_allclose(ours, other, atol=0.11)


def figures_of(paths: list[str]) -> list[float]:
    return [float(text) for path in paths for text in re.findall(r"-?\d+(?:\.\d+)?", path)]
