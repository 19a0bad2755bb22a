"""``profiler``: timing of operators as PyTorch does it is not had; naming a stretch of a program is."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import nullcontext
from enum import Enum
from typing import Any, NoReturn


class record_function(nullcontext[None]):
    """A context manager that names a stretch of the program for PyTorch's profiler."""

    def __init__(self, name: str, args: str | None = None) -> None:
        super().__init__()
        self.name = name


def profile(*args: Any, **kwargs: Any) -> NoReturn:
    """Not to be had.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("profile: PyTorch's profiler is not had here; Python's cProfile shows where time goes")


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, **options: Any
) -> Callable[[Any], None]:
    """What a profiler calls when a trace is ready: it writes the trace into a folder, for TensorBoard."""

    def write(profiler: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' * use_gzip}"
        profiler.export_chrome_trace(os.path.join(dir_name, name))

    return write


class ProfilerActivity(Enum):
    """What PyTorch's profiler watches."""

    CPU = 0
    CUDA = 2
    XPU = 1


class ProfilerAction(Enum):
    """What PyTorch's profiler does at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **options: Any) -> Any:
    """Which action comes at which step, as PyTorch's profiler is told."""

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        length = wait + warmup + active
        if step < 0 or repeat and step >= repeat * length:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action
