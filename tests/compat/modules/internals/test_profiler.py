"""``torch.profiler`` as PyTorch's programs use it, on top of ``retrograd.inspect.profile``."""

from __future__ import annotations

import gzip
import json

import pytest
from retrograd.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

import retrograd as rg


@pytest.fixture
def model():
    return rg.nn.Sequential(rg.nn.Linear(4, 8), rg.nn.ReLU(), rg.nn.Linear(8, 2))


def test_averages_count_operators_rules_and_named_parts(model):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        with record_function("inference"):
            y = model(rg.ones(3, 4))
        y.sum().backward()
    found = {event.key: event for event in prof.key_averages()}
    assert {key: event.count for key, event in found.items() if key != "ones"} == {
        "inference": 1, "linear": 2, "relu": 1, "sum": 1,
        "linear (backward)": 2, "relu (backward)": 1, "sum (backward)": 1,
    }  # fmt: skip
    inside = sum(found[key].cpu_time_total for key in ("ones", "linear", "relu"))
    whole = found["inference"]
    assert whole.cpu_time_total - inside == pytest.approx(whole.self_cpu_time_total) and whole.self_cpu_time_total > 0
    assert found["linear"].cpu_time == found["linear"].cpu_time_total / 2 > 0
    assert prof.self_cpu_time_total == pytest.approx(prof.total_average().self_cpu_time_total)
    by_shape = {(event.key, str(event.input_shapes)): event.count for event in prof.key_averages(True)}
    assert by_shape["linear", "[[3, 4], [8, 4], [8]]"] == by_shape["linear", "[[3, 8], [2, 8], [2]]"] == 1


def test_the_table_is_sorted_limited_and_has_a_column_of_memory():
    with profile(profile_memory=True) as prof:
        rg.zeros(1000).exp()
        rg.zeros(10)
    averages = prof.key_averages()
    assert [(e.key, e.self_cpu_memory_usage) for e in averages] == [("zeros", 4040), ("exp", 4000)]
    lines = averages.table(sort_by="count", row_limit=1).splitlines()
    assert "CPU Mem" in lines[1] and lines[3].split()[0] == "zeros" and "exp" not in "".join(lines[3:])
    assert lines[-1].startswith("Self CPU time total: ")
    with pytest.raises(AttributeError, match="speed"):
        averages.table(sort_by="speed")


def test_a_schedule_records_its_active_steps_and_calls_the_handler_after_each_cycle(model):
    found = []
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda prof: found.append((prof.step_num, [(e.key, e.count) for e in prof.key_averages()])),
    ) as prof:
        for _ in range(10):
            with rg.no_grad():
                model(rg.ones(3, 4))
            prof.step()
    calls = [("ones", 2), ("linear", 4), ("relu", 2)]
    assert found == [(4, calls), (8, calls)]


def test_a_decorated_function_is_named_in_every_profile_that_runs_and_in_no_other():
    @record_function("named")
    def function():
        return rg.ones(2)

    function()
    outer, inner, off = profile(), rg.autograd.profiler.profile(), rg.autograd.profiler.profile(enabled=False)
    with outer, inner, off:
        function()
        function()
    for prof in (outer, inner):
        assert [(e.key, e.count) for e in prof.key_averages()] == [("named", 2), ("ones", 2)]
    assert list(off.events()) == []
    with pytest.raises(RuntimeError, match="recorded nothing"):
        off.export_chrome_trace("trace.json")


@pytest.mark.parametrize("packed", [False, True])
def test_the_handler_of_traces_writes_them_into_its_folder(tmp_path, packed):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "runs"), "worker", packed)):
        rg.ones(2).exp()
    (written,) = (tmp_path / "runs").iterdir()
    assert written.name.startswith("worker.") and written.name.endswith(".pt.trace.json" + ".gz" * packed)
    text = gzip.decompress(written.read_bytes()) if packed else written.read_bytes()
    assert "exp" in {event["name"] for event in json.loads(text)["traceEvents"]}
