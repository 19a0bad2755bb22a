"""Modes: thread-local, restored however they are left, usable as decorators."""

from __future__ import annotations

import pytest

import retrograd as rg


def recorded() -> bool:
    return (rg.ones(1, requires_grad=True) * 2).requires_grad


def test_context_managers():
    assert recorded()
    with rg.no_grad():
        assert not recorded()
        with rg.enable_grad():
            assert recorded()
        assert not recorded()
    with rg.inference_mode():
        assert not recorded() and rg.is_inference_mode_enabled()
    with rg.inference_mode(False):
        assert recorded()
    with rg.set_grad_enabled(False):
        assert not recorded()
    assert recorded()


MODES = {
    "no_grad": lambda: rg.no_grad,
    "no_grad()": lambda: rg.no_grad(),
    "inference_mode": lambda: rg.inference_mode,
    "inference_mode()": lambda: rg.inference_mode(),
    "set_grad_enabled": lambda: rg.set_grad_enabled(False),
}


@pytest.mark.parametrize("mode", list(MODES))
def test_decorators(mode):
    @MODES[mode]()
    def inside(depth: int) -> bool:
        return recorded() if depth == 0 else inside(depth - 1)

    assert recorded()
    assert not inside(3)
    assert recorded()


@pytest.mark.parametrize("mode", list(MODES))
def test_a_decorated_generator_is_inside_only_while_it_runs(mode):
    @MODES[mode]()
    def steps():
        total = 0
        try:
            while total < 100:
                assert not recorded()
                try:
                    total += yield total
                except KeyError:
                    total += 10
        finally:
            assert not recorded()
        return total

    generator = steps()
    assert next(generator) == 0 and recorded()
    assert generator.send(3) == 3 and recorded()
    assert generator.throw(KeyError()) == 13 and recorded()
    with pytest.raises(StopIteration) as stop:
        generator.send(100)
    assert stop.value.value == 113 and recorded()
    generator = steps()
    next(generator)
    generator.close()
    assert recorded()


def test_one_set_grad_enabled_decorates_several_functions():
    off = rg.set_grad_enabled(False)
    first, second = off(recorded), off(recorded)
    assert recorded() and not first() and not second()


def test_nothing_is_left_switched_off():
    from retrograd.core.graph.modes import unrecorded

    def interleaved():
        with rg.no_grad():
            yield

    outer, inner = interleaved(), interleaved()
    next(outer), next(inner)
    outer.close(), inner.close()
    rg.set_grad_enabled(True)
    with pytest.raises(ZeroDivisionError), rg.no_grad(), rg.enable_grad(), rg.inference_mode():
        raise ZeroDivisionError
    assert not unrecorded and recorded()


def test_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), rg.no_grad():
        raise ZeroDivisionError
    assert rg.is_grad_enabled()


def test_as_a_function():
    rg.set_grad_enabled(False)
    try:
        assert not rg.is_grad_enabled()
    finally:
        rg.set_grad_enabled(True)
    assert rg.is_grad_enabled()


def test_only_this_thread():
    import threading

    seen = []
    with rg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(rg.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_decorating_a_class_warns_and_reaches_its_construction():
    with pytest.warns(FutureWarning, match="no_grad: decorating the class Module affects only its construction"):

        @rg.no_grad()
        class Module:
            def __init__(self) -> None:
                self.inside = recorded()

            def method(self) -> bool:
                return recorded()

    assert not Module().inside and Module().method()
