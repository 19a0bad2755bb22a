"""Tensors and modules in notebooks: right numbers, sound HTML, and nothing of the user's that acts as markup."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.inspect.notebook.heatmap import MISSING, NEGATIVE, POSITIVE, heat_map, histogram
from retrograd.models import CharTransformer

VOID = {"img", "br", "meta"}


class Checked(HTMLParser):
    """The text of sound HTML, and the tags in it."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        assert not [name for name, _ in attributes if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def pixels(html):
    """The image of a heat map."""
    data = base64.b64decode(re.search(r"base64,([^\"]+)", html)[1])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT") + 4
    size = struct.unpack(">I", data[start - 8 : start - 4])[0]
    rows = np.frombuffer(zlib.decompress(data[start : start + size]), np.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3)


def test_a_tensor_says_what_it_is_and_holds():
    x = rg.tensor([[1.0, -2.0], [0.0, 4.0]], requires_grad=True)
    (x * x).sum().backward()
    text = Checked(x._repr_html_()).text
    assert text.startswith("Tensor (2, 2) · float32 · cpu · 16 bytes · requires grad")
    assert "values: -2 to 4, mean 0.75, norm 4.583, 25% zeros" in text
    assert "gradient: -4 to 8" in text and "elements [[ 1., -2.]," in text
    assert "result of mul" in Checked((x * 2)._repr_html_()).text
    assert Checked(nn.Parameter(rg.ones(2))._repr_html_()).text.startswith("Parameter (2,)")


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (rg.tensor(3.5), "values: 3.5"),
        (rg.zeros(0, 3), "values: no elements"),
        (rg.tensor([True, False, True]), "values: 2 of 3 true"),
        (rg.tensor([3 + 4j]), "magnitudes of values: 5"),
        (rg.tensor([float("nan"), float("inf"), 1.0]), "⚠ 1 NaN, 1 infinite"),
        (rg.tensor(float("nan")), "⚠ 1 NaN"),
        (rg.arange(10_000), "values: 0 to 9999"),
        (rg.ones(3, 2, 2).half(), "[0, :, :]"),
        (rg.ones(3, 0, 2), "no elements"),
        (rg.ones(40, 1), "1 to 1"),
        (nn.UninitializedParameter(), "not initialized: its shape is not known yet"),
    ],
)
def test_every_kind_of_tensor_is_shown(x, words):
    assert words in Checked(x._repr_html_()).text


def test_a_large_tensor_makes_a_small_page():
    assert len(rg.randn(300, 4000)._repr_html_()) < 20_000


def test_the_heat_map_has_blocks_means_and_colours_for_signs_and_for_what_is_missing():
    values = np.zeros((64, 64))
    values[:32], values[32:, :32] = -1.0, 2.0
    values[40, 50] = np.nan
    image = pixels(heat_map(values))
    assert image.shape == (32, 64, 3)
    assert tuple(image[20, 0]) == POSITIVE and tuple(image[20, 50]) == MISSING
    blue, grey = image[0, 0].astype(int), image[31, 63].astype(int)
    assert abs(blue - NEGATIVE).sum() < abs(grey - NEGATIVE).sum() and len(set(grey.tolist())) > 1


def test_the_histogram_counts_finite_values():
    counts, _ = np.histogram([0.0, 1.0, 1.0, 4.0], 32)
    heights = [float(h) for h in re.findall(r'height="([\d.]+)"/>', histogram(np.array([0, 1, 1, 4, np.nan, np.inf])))]
    np.testing.assert_allclose(heights, 46 * np.sqrt(counts[counts > 0] / counts.max()), atol=0.06)
    assert histogram(np.array([np.nan, 1.0])) == histogram(np.ones(5)) == ""


def test_a_module_is_a_table_of_its_tree():
    model = CharTransformer(11, context=6, layers=2, heads=2, channels=8)
    model.blocks[0].norm1.weight.requires_grad_(False)
    model(rg.zeros(1, 6, dtype=rg.int64)).sum().backward()
    page = Checked(model._repr_html_())
    total = sum(p.array.size for p in model.parameters())
    assert f"CharTransformer {total:,} ({8} frozen)" in page.text
    assert "shared" in page.text and "frozen" in page.text and "norm " in page.text
    modules = sum(1 for _ in model.modules())
    parameters = sum(len(m._parameters) - list(m._parameters.values()).count(None) for m in model.modules())
    rows = re.findall(r'class="row"', model._repr_html_())
    assert len(rows) == modules + parameters + 1
    empty = sum(not m._modules and all(p is None for p in m._parameters.values()) for m in model.modules())
    assert page.tags.count("details") == modules - empty


def test_lazy_modules_and_buffers_are_shown():
    text = Checked(nn.Sequential(nn.LazyLinear(3), nn.BatchNorm1d(3))._repr_html_()).text
    assert "6 + lazy" in text and "not initialized" in text and "running_mean (3,) · float32 · buffer" in text


def test_names_and_descriptions_are_escaped():
    class Evil(nn.Module):
        def extra_repr(self):
            return "<script>alert(1)</script>"

    model = Evil()
    model.add_module("<img src=x onerror=alert(1)>", nn.Linear(1, 1))
    model.register_buffer("<b>", rg.ones(1))
    page = Checked(model._repr_html_())
    assert not {"script", "img", "b"} & set(page.tags) - {"b"} and "<script>alert(1)</script>" in page.text
    assert "<img src=x onerror=alert(1)>" in page.text and "<b> (1,)" in page.text


def test_inside_vmap_a_tensor_shows_what_it_prints():
    shown = []
    rg.func.vmap(lambda x: (shown.append(x._repr_html_()), x * 2)[1])(rg.ones(3, 2))
    assert "BatchedTensor" in Checked(shown[0]).text


def inside(html):
    """The page inside a frame, whose script is kept apart from the notebook's."""
    assert html.startswith("<iframe ") and 'sandbox="allow-scripts"' in html
    Checked(html)
    return re.search(r'srcdoc="([^"]*)"', html)[1]


def test_a_trace_shows_its_operators_with_lines_gradients_and_alarms():
    x = rg.tensor([[-1.0, 4.0]], requires_grad=True)
    with rg.inspect.trace() as t:
        y = x.sqrt() * 2  # <b>a comment</b>
        y.nansum().backward()
    page = Checked(t._repr_html_())
    assert "sqrt" in page.text and "⚠ 1 NaN" in page.text and "<b>a comment</b>" in page.text
    assert f"{len(t)} operators" in page.text
    groups = Checked(t.by("operator")._repr_html_())
    assert {"sqrt", "forward", "share"} <= set(groups.text.split())
    assert "available" in Checked(t.filter(operator="tan")._repr_html_()).text
    with rg.inspect.trace() as many:
        for _ in range(201):
            x = x + 1
    assert "and 1 more operators" in Checked(many._repr_html_()).text


def test_a_mask_of_minus_infinity_is_no_alarm_and_log_of_zero_is():
    x = rg.randn(3, 3, requires_grad=True)
    with rg.inspect.trace() as t:
        x.masked_fill(rg.ones(3, 3).triu(1) == 1, float("-inf")).softmax(-1).sum()
    assert "⚠" not in t._repr_html_()
    with rg.inspect.trace() as t:
        (x * 0).log()
    assert "⚠ 9 infinite" in t._repr_html_()


def test_a_step_of_a_backward_pass_shows_its_formula_and_heat_maps():
    x, w = rg.randn(4, 3, requires_grad=True), rg.randn(3, 5, requires_grad=True)
    event = rg.inspect.step((x @ w).sum()).to(operator="mm")
    page = Checked(event._repr_html_())
    assert "input: g @ mat2^T" in page.text and "one element" not in page.text and "sum of g * y over 5" in page.text
    assert page.tags.count("img") == 5  # the upstream gradient, x and w, and the gradients of both


def test_profile_watch_and_doctor_show_their_pages():
    model, x = nn.Linear(3, 1), rg.randn(8, 3)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)

    def train():
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    with rg.inspect.profile() as p:
        train()
    assert "flame" in inside(p._repr_html_())
    watch = rg.inspect.watch(model, optimizer, every=1, live=False)
    assert Checked(watch._repr_html_()).text == "<watch of Linear: 0 records, 0 alarms>"
    with watch:
        train()
    assert "Training run" in inside(watch._repr_html_())
    with rg.inspect.doctor() as d:
        assert "not examined" in Checked(d._repr_html_()).text
        train()
    assert "const RUN = " in inside(d._repr_html_())
