"""The steps that benchmarks time compute the same in both libraries, and the runner tells one step from another."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import retrograd as rg
from benchmarks.__main__ import ROOT, keep, load, ratio, table
from benchmarks.page import BY_HAND, by_hand, written
from benchmarks.workloads import PARTS, STEPS

GRAPH_FIGURES = ("forward", "backward", "memory")
QUICK = ("mlp_small", "chain")
COMPILING = ("gpt_small", "lstm", "cnn")  # loops


@pytest.mark.every(3)
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in COMPILING)])
def test_both_libraries_compute_the_same_losses_over_three_steps(name):
    torch = pytest.importorskip("torch")
    ours, theirs = STEPS[name](rg), STEPS[name](torch)
    for _ in range(3):
        assert ours().item() == pytest.approx(theirs().item(), rel=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PARTS, "mlp_small"])
def test_a_worker_makes_steps_when_told_to(name):
    command = [sys.executable, "-m", "benchmarks.worker", "retrograd", name]
    run = subprocess.run(command, cwd=ROOT, input="0\nend\n", capture_output=True, text=True, check=True)
    first, times, result = run.stdout.splitlines()
    assert float(first) > 0 and json.loads(times)[0] > 0 and '"beyond_import"' in result


def test_the_table_gives_ratios_to_pytorch_and_their_geometric_mean():
    results = {
        "chain": {"retrograd": {"seconds_median": 1.0}, "torch": {"seconds_median": 2.0}},
        "cnn": {"retrograd": {"seconds_median": 8.0}, "torch": {"seconds_median": 1.0}},
    }
    assert ratio(results["chain"], "retrograd", "seconds_median") == 0.5
    assert table(results, "seconds_median").splitlines()[-1].split()[:2] == ["mean", "2.00"]


def test_the_page_tells_ratios_and_where_pytorch_is_faster():
    def figures(seconds):
        times = {f"seconds_{name}": seconds for name in ("lower", "median", "upper")}
        return times | {"peak": 100 * seconds}

    steps = {
        "chain": {"retrograd": figures(1.0), "torch": figures(2.0)},
        "cnn": {"retrograd": figures(6.0), "torch": figures(4.0)},
    }
    about = {"date": "2026-01-02", "cores": 2, "processor": "P", "system": "S", "versions": {"numpy": "2"}}
    language = {way: {"retrograd": figures(3.0), "torch": figures(2.0)} for way in ("before", "generation")}
    speeds = {"retrograd": figures(1.0) | {"cpu": 0.02}, "torch": figures(2.0) | {"cpu": 0.05}}
    llama = {"llama": speeds, "llama-int8": speeds}
    found = {
        "language": language,
        "llama": llama,
        "small": {"sort": 4.0, "add": 1.0},
        "graph": dict.fromkeys(GRAPH_FIGURES, 0.25),
    }
    text = written({"machine": about, "threads": 2, "steps": steps, "setup": {"import": {"retrograd": 0.05}}} | found)
    assert "| chain | 0.50 |" in text and "| cnn | 1.50 |" in text and "| geometric mean | 0.87 |" in text
    flat = " ".join(text.split())
    assert "Where PyTorch is faster: generation of the language model (1.50), cnn (1.50), before of the" in flat
    assert "language model (1.50), 1 of 2 small calls (below)." in flat
    assert "measured 2026-01-02, on 2 cores (P, S), numpy 2" in text and "50 ms" in text
    assert "| 1000, 1000, 1000 |" in text and "e+0" not in text
    assert text.count("| before | 1.50 |") == 2 and text.count("| generation | 1.50 |") == 1  # peak memory, and time
    assert "| float32 | 50 | 20 |  | 0.40 |" in text and "| int8 | 50 | 20 |  | 0.40 |" in text
    assert "the geometric mean is 2.00" in flat and "1 take more" in flat and "0.25 of its memory" in flat


def test_a_new_page_keeps_the_section_that_is_written_by_hand():
    section = f"\n{BY_HAND}\n\nText.\n"
    assert by_hand("# Performance\n" + section) == section
    assert by_hand("# Performance\n") == by_hand("") == ""
    assert by_hand((ROOT / "docs/performance.md").read_text())


def test_a_run_in_pieces_adds_to_what_the_file_has(tmp_path):
    path = tmp_path / "figures.json"
    record = load(path, 2)
    record["steps"]["chain"] = {"retrograd": {"seconds_median": 1.0}}
    keep(record, path)
    assert load(path, 2)["steps"] == record["steps"] and load(path, 1)["steps"] == {}


def test_times_are_compared_round_by_round():
    ours = {"rounds": [0.5, 2.0, 2.0], "seconds_median": 2.0}
    theirs = {"rounds": [1.0, 4.0, 4.0], "seconds_median": 4.0}
    assert ratio({"retrograd": ours, "torch": theirs}, "retrograd", "seconds_median") == 0.5
    assert ratio({"retrograd": ours}, "retrograd", "seconds_median") is None
    uneven = {"rounds": [0.5, 4.0, 4.0], "seconds_median": 4.0}
    assert ratio({"retrograd": uneven, "torch": theirs}, "retrograd", "seconds_median") == 1.0
