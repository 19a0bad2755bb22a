"""The profile: times and bytes by line, operator and module, and the files that other viewers read."""

from __future__ import annotations

import gc
import json
import math
import re
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.core.graph.modes import watchers
from retrograd.core.source_location import stack_of
from retrograd.inspect.profiling import outside_time

HERE = Path(__file__).name


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3)])
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)  # residual
        return self.head(x)


def step(model, x):
    loss = (model(x) ** 2).mean()  # the loss
    loss.backward()


@pytest.fixture
def measured():
    model, x = Model(), rg.randn(8, 16)
    with inspect.profile() as p:
        step(model, x)
    assert not watchers
    return p


@pytest.mark.parametrize("what", ["line", "operator", "module"])
def test_groups_come_slowest_first_and_add_up(measured, what):
    groups = measured.by(what)
    seconds = [group.seconds + group.other for group in groups.values()]
    assert seconds == sorted(seconds, reverse=True)
    assert sum(group.seconds for group in groups.values()) == pytest.approx(measured.seconds)
    assert sum(group.kept for group in groups.values()) == measured.kept
    assert all(group.seconds == group.forward + group.backward for group in groups.values())


def test_backward_time_belongs_to_the_line_that_ran_the_operator():
    w = rg.randn(1000, 1000, requires_grad=True)
    x = rg.randn(1000, 1000, requires_grad=True)
    with inspect.profile() as p:
        slow = x @ w  # slow
        y = slow.sum() * 2
        y.backward()  # walk
    lines = p.by("line")
    assert next(iter(lines)) == f"{HERE}:{line_of('slow')}"
    assert lines[f"{HERE}:{line_of('slow')}"].backward > 0
    walk = lines[f"{HERE}:{line_of('walk')}"]
    assert walk.backward == walk.forward == 0 < walk.other


def test_what_sleeps_in_an_operator_is_measured_and_observers_are_not():
    class Sleeps(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            time.sleep(0.05)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            time.sleep(0.1)
            return g * 2

    x = rg.ones(3, requires_grad=True)
    with inspect.profile() as p, inspect.trace():
        Sleeps.apply(x).sum().backward()
    group = p.by("operator")["Sleeps"]
    assert 0.05 <= group.forward < 0.09 and 0.1 <= group.backward < 0.3
    assert next(iter(p.by("operator"))) == "Sleeps"


def test_the_listing_has_the_programs_lines_with_their_figures(measured, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    text = str(measured)
    row = next(line for line in text.splitlines() if line.endswith("# residual"))
    assert re.search(rf"([\d.]+ [mu]s +){{3}}[\d.]+ (B|KiB) +\S+ +{line_of('residual')} +x = x \+ block", row)
    assert __file__ in text and "# the loss" in text and "peak memory " in text
    monkeypatch.setenv("COLUMNS", "80")
    first = str(measured).partition("\n\n")[0]
    assert first.endswith(" kept") and max(map(len, first.splitlines())) <= 80
    assert str(inspect.profile()) == "no operator ran"


def test_the_peak_says_what_waits_for_the_walk():
    model, x = Model(), rg.randn(64, 16)
    with inspect.profile() as p:
        loss = model(x).sum()
    assert "saved for backward" in str(p)
    del loss


def test_the_peak_is_what_was_alive_when_most_was():
    x = rg.randn(1000, requires_grad=True)
    with inspect.profile() as p:
        y = x.exp()  # kept: 4000 bytes
        for _ in range(3):
            rg.ones(5000)  # dropped at once: 20000 bytes
        z = rg.ones(2000) * 2  # with what it is made of: 16000 bytes
        del z
        y.sum().backward()
    assert p.most == 4000 + 20000
    found = {(part.operator, part.kind): part.nbytes for part in p.peak}
    assert found == {("ones", "output"): 20000, ("exp", "saved for backward"): 4000}
    with inspect.profile() as p:
        a = x * 1
        b = a.reshape(10, 100).T[1:]
        a.sin_()
    assert p.most == 8000, "a view is no memory of its own, and a write to what is saved has a fresh buffer"
    assert b.shape == (99, 10)


def test_the_sampling_thread_keeps_no_array_alive_beyond_its_time(monkeypatch):
    def slow(*args):
        time.sleep(0.01)
        return stack_of(*args)

    def dropped_at_return():
        _array = rg.ones(5000)
        time.sleep(0.003)

    monkeypatch.setattr(outside_time, "stack_of", slow)
    with inspect.profile() as p:
        for _ in range(5):
            dropped_at_return()
    assert p.most == 20000


def test_chromes_trace_nests(measured, tmp_path):
    measured.to_chrome(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text(), parse_constant=pytest.fail)["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C", "s", "f"}
    complete = [event for event in events if event["ph"] == "X"]
    assert all({"name", "cat", "ts", "dur", "pid", "tid"} <= event.keys() for event in complete)
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in complete)
    names = {(event["name"], event["cat"]) for event in complete}
    assert {("blocks.1.0", "module"), ("tanh", "forward"), ("tanh (backward)", "backward")} <= names
    threads = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"forward", "backward"} <= set(threads.values())
    for thread, name in threads.items():
        around = []
        inside = [event for event in complete if event["tid"] == thread]
        assert {event["cat"] for event in inside} <= {name, "module"}
        for event in sorted(inside, key=lambda event: (event["ts"], -event["dur"])):
            end = event["ts"] + event["dur"]
            while around and around[-1] <= event["ts"] + 1e-3:
                around.pop()
            assert not around or end <= around[-1] + 1e-3, event
            around.append(end)
    counters = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert max(counters) == measured.most


def test_a_flow_leads_from_each_operator_to_its_derivative_rule(measured, tmp_path):
    measured.to_chrome(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys() and starts
    names = {(event["ts"], event["tid"]): event["name"] for event in events if event["ph"] == "X"}
    for number, start in starts.items():
        end = ends[number]
        assert start["ts"] <= end["ts"] and end["bp"] == "e"
        rule = names[end["ts"], end["tid"]]
        assert rule == f"{names[start['ts'], start['tid']]} (backward)"


class Slow:
    """A data set whose examples take time."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        time.sleep(0.01)
        return rg.ones(3) * index


def test_phases_are_apart_with_the_optimizer_and_the_loader_among_them(tmp_path):
    model = nn.Linear(3, 1)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    with inspect.profile() as p:
        for x in rg.data.DataLoader(Slow(), batch_size=2):
            model(x).sum().backward()
            optimizer.step()
    p.save(tmp_path / "p.html")
    tree = json.loads(re.search(r"const DATA = (.*);", (tmp_path / "p.html").read_text())[1])["tree"]
    phases = {node["n"]: node for node in tree["c"]}
    assert {"forward", "backward", "optimizer", "data loading"} <= phases.keys()
    assert phases["data loading"]["o"] > 0.045, "six examples of ten milliseconds"
    assert (phases["forward"]["x"], phases["data loading"]["x"]) == (6, 15), "ones and mul per example, stack per batch"
    for key, name in (("f", "forward"), ("b", "backward")):
        only = sum(node[key] for other, node in phases.items() if other not in (name, "data loading"))
        assert phases[name][key] > 0 == only
    for key in "fbok":
        assert tree[key] == pytest.approx(sum(node[key] for node in tree["c"]))


def test_speedscopes_file_is_as_its_schema_says(measured, tmp_path):
    measured.to_speedscope(tmp_path / "p.speedscope.json")
    data = json.loads((tmp_path / "p.speedscope.json").read_text(), parse_constant=pytest.fail)
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert all({"name"} <= frame.keys() <= {"name", "file", "line", "col"} for frame in data["shared"]["frames"])
    times, kept = data["profiles"]
    for profile, unit, total in ((times, "seconds", measured.wall), (kept, "bytes", measured.kept)):
        assert profile.keys() == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled" and profile["unit"] == unit
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == pytest.approx(total) == sum(profile["weights"])
        assert all(0 <= index < len(data["shared"]["frames"]) for stack in profile["samples"] for index in stack)
    names = [[data["shared"]["frames"][index]["name"] for index in stack] for stack in times["samples"]]
    assert [
        f"step ({HERE}:{line_of('the loss')})",
        f"forward ({HERE}:{line_of('residual')})",
        "tanh in blocks.0.1",
    ] in [stack[-3:] for stack in names]


def test_the_page_is_one_file_that_loads_nothing_and_escapes_the_program(tmp_path):
    source = "def run(x):\n    return x.exp()  # </script><img src=x onerror=alert(1)>\n"
    file = tmp_path / "a<b>.py"
    file.write_text(source)
    space = {}
    exec(compile(source, str(file), "exec"), space)
    with inspect.profile() as p:
        space["run"](rg.ones(3))
    p.save(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert page.count("</script>") == 1 and "<img" not in page and "a<b>" not in page
    assert "default-src 'none'" in page and not re.search(r"<[a-z][^>]*\b(src|href)\s*=", page)
    assert "\\u003c/script\\u003e\\u003cimg" in page
    with pytest.raises(ValueError, match="end in .html, got"):
        p.save(tmp_path / "p.svg")


def test_a_profile_runs_once_at_a_time_adds_up_and_keeps_nothing_alive():
    x = rg.randn(50, requires_grad=True)
    p = inspect.profile()
    for _ in range(2):
        with p:
            y = x.exp()
            y.sum().backward()
    assert [record.operator for record in p] == ["exp", "sum"] * 2
    array, node = weakref.ref(y.array), weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert array() is None and node() is None
    with p, pytest.raises(RuntimeError, match="already active"), p:
        pass


def test_gradients_are_those_without_a_profile():
    model, x = Model(), rg.randn(8, 16)
    step(model, x)
    plain = [parameter.grad.numpy().copy() for parameter in model.parameters()]
    model.zero_grad()
    with inspect.profile():
        step(model, x)
    for parameter, wanted in zip(model.parameters(), plain, strict=True):
        np.testing.assert_array_equal(parameter.grad.numpy(), wanted)


def slow_loader():
    time.sleep(0.06)  # sleeps
    number = 0
    for i in range(600_000):
        number += i  # counts
    return rg.randn(8, 16)


class SlowStep(rg.optim.SGD):
    def step(self, closure=None):
        time.sleep(0.04)
        return super().step(closure)


def test_all_of_the_time_is_accounted_for_by_the_lines_that_took_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    model = Model()
    optimizer = SlowStep(model.parameters(), lr=0.1)
    seconds, interval = 0.0, sys.getswitchinterval()
    p = inspect.profile()
    for _ in range(2):
        began = time.perf_counter()
        with p:
            loss = model(slow_loader()).square().mean()
            loss.backward()  # back
            optimizer.step()  # steps
            time.sleep(0.03)  # rests
        seconds += time.perf_counter() - began
    assert sys.getswitchinterval() == interval
    lines = p.by("line")
    assert math.fsum(group.seconds + group.other for group in lines.values()) == pytest.approx(p.wall)
    assert 0.5 * seconds < p.wall <= seconds, "the measuring alone is left out"
    other = {text: lines[f"{HERE}:{line_of(text)}"].other for text in ("sleeps", "steps", "rests", "back")}
    assert other["sleeps"] > 0.1 and other["steps"] > 0.07 and other["rests"] > 0.05 and other["back"] > 0
    loop = [lines[name].other for name in (f"{HERE}:{line_of('counts') - i}" for i in (0, 1)) if name in lines]
    assert sum(loop) > 0.01, "a loop in Python that calls nothing"
    assert sum(other.values()) + sum(loop) > 0.8 * p.other
    text = str(p)
    assert "outside of operators" in text.splitlines()[0] and re.search(r"\d ms .*# sleeps", text)
    assert "outside of operators, " in str(p.by("operator"))


def test_what_is_measured_outside_of_operators_is_in_the_files(tmp_path):
    x = rg.ones(3)
    with inspect.profile() as p:
        x.exp()
        time.sleep(0.03)  # outside
        x.exp()
    p.save(tmp_path / "p.html")
    data = json.loads(re.search(r"const DATA = (.*);", (tmp_path / "p.html").read_text())[1])
    assert data["tree"]["o"] == pytest.approx(p.other) and data["tree"]["f"] == pytest.approx(p.forward)
    line = next(line for line in data["lines"] if line[0] == f"{HERE}:{line_of('outside')}")
    assert line[1].endswith("# outside") and line[4] > 0.025
    p.to_speedscope(tmp_path / "p.json")
    assert "outside of operators" in (tmp_path / "p.json").read_text()


def test_a_profile_that_sees_no_operator_has_the_time_all_the_same(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    with inspect.profile() as p:
        time.sleep(0.02)  # alone
    assert p.wall == p.other > 0.015 and "# alone" in str(p)


def test_a_profile_that_is_left_by_an_exception_leaves_nothing_behind():
    interval, threads = sys.getswitchinterval(), threading.active_count()
    with pytest.raises(KeyError), inspect.profile() as p:
        assert sys.getswitchinterval() < interval
        time.sleep(0.01)
        raise KeyError("left")
    assert sys.getswitchinterval() == interval and not watchers and p.wall > 0.005
    for _ in range(200):
        if threading.active_count() == threads:
            break
        time.sleep(0.01)
    assert threading.active_count() == threads


def without_line(function, line):
    """Take the line from the instructions of one line, as the compiler does at the end of some statements."""
    code, table, at = function.__code__, b"", 0
    lines = [position[0] for position in code.co_positions()]
    for entry in re.findall(rb"[\x80-\xff][\x00-\x7f]*", code.co_linetable, re.DOTALL):
        table += bytes([0xF8 | entry[0] & 7]) if lines[at] == line else entry
        at += (entry[0] & 7) + 1
    function.__code__ = code.replace(co_linetable=table)


def test_an_operator_at_an_instruction_without_a_line_has_the_line_before_it():
    def step():
        x = rg.ones(8).exp()  # has a line
        return x.sqrt()  # has none

    without_line(step, line_of("has none"))
    with inspect.profile() as p:
        step()
    assert {record.line for record in p.records} == {line_of("has a line")}
    assert f":{line_of('has a line')}" in str(p)
