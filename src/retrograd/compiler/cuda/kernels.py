"""Generated kernels as functions of CuPy arrays, in one module of source, which NVRTC compiles at the first launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.devices import cupy_backend
from ..passes.expressions import row_major
from ..passes.fused_loops import Group
from ..program import Asked, Value
from .cpp_expressions import DTYPES, PRELUDE
from .source import MAX_POINTERS, NUMBERS, THREADS, Kernel, Operands, copying, elementwise, with_sums

OPTIONS = ("--std=c++14", "--fmad=false")


class Module:
    """The kernels of one program. CuPy caches machine code on disk by the source."""

    def __init__(self) -> None:
        self._names: dict[Kernel, str] = {}
        self._loaded: dict[tuple[int, int], Any] = {}  # the loaded module, by the number of its kernels and by device

    @property
    def source(self) -> str:
        """The complete source."""
        functions = dict.fromkeys(text for kernel in self._names for text in kernel.functions)
        return "\n".join([PRELUDE, *functions, *[kernel.text(name) for kernel, name in self._names.items()]])

    def __len__(self) -> int:
        return len(self._names)

    def enter(self, kernel: Kernel) -> str:
        """Add a kernel and return its name; kernels with equal text share a name."""
        return self._names.setdefault(kernel, f"k{len(self._names)}")

    def function(self, name: str) -> Any:
        """Return the compiled kernel for the current device."""
        xp = cupy_backend().xp
        key = len(self), int(xp.cuda.Device().id)
        loaded = self._loaded.get(key)
        if loaded is None:
            functions: dict[str, Any] = {}
            loaded = self._loaded[key] = xp.RawModule(code=self.source, options=OPTIONS), functions
        module, functions = loaded
        function = functions.get(name)
        if function is None:
            function = functions[name] = module.get_function(name)
        return function

    def launch(self, name: str, grid: tuple[int, int], args: Sequence[object]) -> None:
        """Run a kernel on the current stream."""
        self.function(name)(grid, (THREADS,), tuple(args))


class CudaLoop:
    """Compute a group on the GPU from its arrays and numbers; the results are those of ``passes.fused_loops.Loop``."""

    asked: tuple[Asked, ...] = ()  # requests no arrays: CuPy has a memory pool

    def __init__(self, group: Group, module: Module) -> None:
        self.group, self.module = group, module
        self.operands = operands = Operands(group)
        self.reads: tuple[Value, ...] = (*operands.arrays, *operands.numbers)
        self.__name__ = "+".join(dict.fromkeys(member.operator or member.name for member in group.members))[:60]
        self.partial: tuple[int, int] | None = None  # the shape of partial sums, if a second kernel adds them
        self.second: list[Kernel] = []
        if group.sums:
            self.first, tile, self.second = with_sums(group, operands)
            self.partial = (tile.shares, tile.kept) if self.second else None
        else:
            self.first = elementwise(group, operands)
        self.names = [module.enter(kernel) for kernel in (self.first, *self.second)]

    @property
    def note(self) -> str:
        """A description for ``explain``."""
        kernels = "one CUDA kernel" if not self.second else f"{1 + len(self.second)} CUDA kernels"
        return f"{kernels} ({', '.join(self.names)})"

    def __call__(self, *args: Any) -> Any:
        xp, group, width = cupy_backend().xp, self.group, len(self.operands.arrays)
        numbers = [NUMBERS[x.dtype][1](y) for x, y in zip(self.operands.numbers, args[width:], strict=True)]
        outs = [xp.empty(x.shape, x.dtype) for x in group.outs]
        sums = [xp.empty(total.out.shape, total.out.dtype) for total in group.sums]
        parts = sums if self.partial is None else [xp.empty(self.partial, np.float64) for _ in sums]
        self.module.launch(self.names[0], self.first.grid, [*args[:width], *numbers, *outs, *parts])
        for name, kernel, part, total in zip(self.names[1:], self.second, parts, sums, strict=False):
            self.module.launch(name, kernel.grid, [part, total])
        found = (*outs, *sums)
        return found if len(found) != 1 else found[0]


class Copies:
    """Copies of several arrays in as few launches as possible; CuPy copies views and unsupported dtypes."""

    def __init__(self, values: Sequence[Value], module: Module) -> None:
        self.module = module
        plain = [n for n, x in enumerate(values) if x.size and x.dtype in DTYPES and row_major(x)]
        self.launches: list[tuple[str, Kernel, list[int]]] = []
        for begin in range(0, len(plain), MAX_POINTERS // 2):
            some = plain[begin : begin + MAX_POINTERS // 2]
            kernel = copying([values[n] for n in some])
            self.launches.append((module.enter(kernel), kernel, some))

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        xp, made = cupy_backend().xp, list[Any](arrays)
        for name, kernel, some in self.launches:
            pairs = []
            for n in some:
                made[n] = xp.empty(arrays[n].shape, arrays[n].dtype)
                pairs += [made[n], arrays[n]]
            self.module.launch(name, kernel.grid, pairs)
        return [x.copy() if x is old else x for x, old in zip(made, arrays, strict=True)]
