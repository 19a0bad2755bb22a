"""CUDA's sources run by a processor, in the place of ``cupy.RawModule``: g++ compiles them with what CUDA adds to C++.

Blocks run one after the other. The threads of a block that waits for all of them (``__syncthreads``) are contexts of
their own, which go on in turns from one such place to the next; others are a loop.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

HEAD = r"""
#include <cmath>
#include <cstring>
#include <ucontext.h>
using namespace std;
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
struct Index { unsigned int x, y, z; };
static Index threadIdx, blockIdx;
static ucontext_t scheduler, contexts[1024];
static bool ended[1024], waits;
static void (*body)(void**);
static void** given;
static char stacks[1024][16384];
static void __syncthreads() { swapcontext(&contexts[threadIdx.x], &scheduler); }
static void begin() { body(given); ended[threadIdx.x] = true; }
static void run(void (*kernel)(void**), void** args, int x, int y, int threads, bool together) {
  body = kernel, given = args;
  for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++) {
      if (!together) {
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) kernel(args);
        continue;
      }
      for (int t = 0; t < threads; t++) {
        getcontext(&contexts[t]);
        contexts[t].uc_stack.ss_sp = stacks[t], contexts[t].uc_stack.ss_size = sizeof stacks[t];
        contexts[t].uc_link = &scheduler;
        ended[t] = false;
        makecontext(&contexts[t], begin, 0);
      }
      for (bool left = true; left;) {
        left = false;
        for (int t = 0; t < threads; t++)
          if (!ended[t]) {
            threadIdx.x = t;
            swapcontext(&scheduler, &contexts[t]);
            left = left || !ended[t];
          }
      }
    }
}
struct half16;
static float wide(half16 x);
static half16 narrow(float x);
static half16 narrow(double x);
"""
HALF = r"""
static float wide(half16 x) {
  int exponent = x.bits >> 10 & 31, digits = x.bits & 1023;
  double size = exponent == 31 ? (digits ? NAN : INFINITY)
                : exponent ? ldexp(1024 + digits, exponent - 25) : ldexp(digits, -24);
  return (float)(x.bits & 0x8000 ? -size : size);
}
static half16 narrow(double x) {
  half16 y;
  y.bits = signbit(x) ? 0x8000 : 0;
  double size = fabs(x);
  if (size != size) y.bits |= 0x7e00;
  else if (size >= 65520) y.bits |= 0x7c00;
  else if (size > 0) {
    int exponent = max(ilogb(size), -14);
    y.bits |= ((exponent + 14) << 10) + (int)nearbyint(ldexp(size, 10 - exponent));
  }
  return y;
}
static half16 narrow(float x) { return narrow((double)x); }
"""
TYPES = {
    "half16": "e", "float": "f", "double": "d", "bool": "?", "signed char": "b", "short": "h", "int": "i",
    "long long": "q", "unsigned char": "B", "unsigned short": "H", "unsigned int": "I", "unsigned long long": "Q",
}  # fmt: skip
_SIGNATURE = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\) \{')


@cache
def compiler() -> str | None:
    """The C++ compiler, or None."""
    return shutil.which("g++") if sys.platform == "linux" else None


@cache
def library(source: str) -> ctypes.CDLL:
    """The shared library of a module's source."""
    found = compiler()
    assert found is not None
    parts = [
        HEAD,
        source.replace(
            "struct half16 { unsigned short bits; };", f"struct half16 {{ unsigned short bits; }};{HALF}", 1
        ),
    ]
    for name, parameters in _SIGNATURE.findall(source):
        text = source[source.index(f" {name}(") :]
        text = text[: text.index("\n}\n")]
        types = [parameter.rpartition(" ")[0] for parameter in parameters.split(", ")]
        args = ", ".join(f"*({kind}*)args[{n}]" for n, kind in enumerate(types))
        parts.append(
            f"static void call_{name}(void** args) {{ {name}({args}); }}\n"
            f'extern "C" void launch_{name}(void** args, int x, int y, int threads) '
            f"{{ run(call_{name}, args, x, y, threads, {'true' if '__syncthreads' in text else 'false'}); }}\n"
        )
    folder = Path(tempfile.gettempdir()) / f"retrograd_cuda_on_processor_{os.getuid()}"
    folder.mkdir(0o700, exist_ok=True)
    found_folder = folder.lstat()  # what is in it is executed
    assert found_folder.st_uid == os.getuid() and not found_folder.st_mode & 0o022, f"others may write to {folder}"
    text = "\n".join(parts)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.so"
    if not path.exists():
        draft = Path(tempfile.mkdtemp(dir=folder))
        (draft / "source.cpp").write_text(text)
        command = [
            found,
            "-std=c++17",
            "-O1",
            "-ffp-contract=off",
            "-w",
            "-shared",
            "-fPIC",
            "-o",
            str(draft / "made.so"),
        ]
        made = subprocess.run([*command, str(draft / "source.cpp")], capture_output=True, text=True, check=False)
        assert made.returncode == 0, f"{made.stderr}\n{text}"
        (draft / "made.so").rename(path)
        shutil.rmtree(draft)
    return ctypes.CDLL(str(path))


class RawModule:
    """``cupy.RawModule`` of guarded arrays, as far as the compiler uses it."""

    sources: list[str] = []  # of all modules that were loaded

    def __init__(self, *, code: str, options: tuple[str, ...] = ()) -> None:
        self.code = code
        self.signatures = dict(_SIGNATURE.findall(code))
        self.library = library(code)
        RawModule.sources.append(code)

    def get_function(self, name: str) -> Any:
        parameters = self.signatures[name].split(", ")
        launch = getattr(self.library, f"launch_{name}")

        def run(grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...]) -> None:
            assert len(args) == len(parameters), (name, len(args), parameters)
            assert block[0] <= 1024 and grid[0] < 1 << 31 and all(n < 1 << 16 for n in grid[1:]) and min(grid) > 0
            held, places = [], (ctypes.c_void_p * len(args))()
            for number, (parameter, x) in enumerate(zip(parameters, args, strict=True)):
                kind = parameter.replace("const ", "").replace("__restrict__ ", "").rpartition(" ")[0]
                assert x.dtype == np.dtype(TYPES[kind.rstrip("*")]), (parameter, x.dtype)
                assert isinstance(x, np.generic) is not kind.endswith("*"), (parameter, type(x))
                held.append(ctypes.c_void_p(x.data.ptr) if kind.endswith("*") else np.array(x))
                item = held[-1]
                places[number] = item.ctypes.data if isinstance(item, np.ndarray) else ctypes.addressof(item)
            launch(places, grid[0], grid[1] if len(grid) > 1 else 1, block[0])

        return run
