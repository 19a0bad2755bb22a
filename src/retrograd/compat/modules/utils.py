"""Contents of ``utils``, ``testing`` and ``_six``."""

from __future__ import annotations

import collections.abc as container_abcs
import os
import socket
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from io import BytesIO
from math import ceil, prod
from math import inf as inf
from math import nan as nan
from typing import Any, TypeAlias

import numpy as np

from ...core.arrays.dtypes import promote_types
from ...core.arrays.public_dtypes import dtype as public_dtype
from ...core.nests import replaced
from ...core.tensor.tensor import Tensor, new_tensor, to_array
from ...ops.make.filled import empty
from ...ops.make.random import randint
from ...ops.math.complex_numbers import view_as_real
from ...ops.table.types import DeviceLike, DTypeLike
from . import cuda
from .toplevel import finfo, iinfo

# ``utils.benchmark``: a timer of statements, built on ``timeit``


class Measurement:
    """The result of a timer.

    Args:
        times: seconds for one run of the statement, one number per repetition.
        number_per_run: number of runs per repetition.
        stmt: the statement.
    """

    def __init__(self, times: list[float], number_per_run: int, stmt: str) -> None:
        self.times, self.number_per_run, self.stmt = times, number_per_run, stmt

    @property
    def mean(self) -> float:
        """The mean over the repetitions, in seconds."""
        from statistics import fmean

        return fmean(self.times)

    @property
    def median(self) -> float:
        """The median over the repetitions, in seconds."""
        from statistics import median

        return median(self.times)

    @property
    def raw_times(self) -> list[float]:
        """The seconds of each whole repetition."""
        return [time * self.number_per_run for time in self.times]

    def __repr__(self) -> str:
        unit, factor = next((u, f) for u, f in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)) if self._fits(f))
        runs = f"{len(self.times)} measurement{'s' * (len(self.times) != 1)}, {self.number_per_run} runs each"
        return f"<retrograd.utils.benchmark.Measurement>\n{self.stmt}\n  {self.median * factor:.2f} {unit}\n  {runs}"

    def _fits(self, factor: float) -> bool:
        return self.median * factor >= 1 or factor == 1e9


class Timer:
    """A timer of a statement.

    Args:
        stmt: the statement, as source code.
        setup: source code that runs once before the statement.
        globals: the global variables of the statement.
        label, sub_label, description, env: accepted for compatibility.
        num_threads: accepted for compatibility; the process determines the number of threads.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, object] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: object = None,
    ) -> None:
        self._stmt = stmt
        self._timer = timeit.Timer(stmt, setup, timer, globals)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Time one repetition of ``number`` runs, after a warm-up."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement([self._timer.timeit(number) / number], number, self._stmt)

    def blocked_autorange(self, callback: object = None, min_run_time: float = 0.2) -> Measurement:
        """Repeat for at least ``min_run_time`` seconds, with many runs each, so that timing has little overhead."""
        number, seconds = self._timer.autorange()
        times = [seconds / number]
        while sum(times) * number < min_run_time:
            times.append(self._timer.timeit(number) / number)
        return Measurement(times, number, self._stmt)

    adaptive_autorange = blocked_autorange


# ``testing``: comparison of Tensors with PyTorch's tolerances


# Relative and absolute tolerance per dtype. Other dtypes must be equal.
_TOLERANCES = {"float16": (1e-3, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5),
               "complex128": (1e-7, 1e-7)}  # fmt: skip


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless ``|actual - expected| <= atol + rtol * |expected|``.

    Values may be Tensors, numbers, and sequences and mappings of them. By default the tolerances depend on the dtype
    (float32: 1.3e-6 and 1e-5). Pass both tolerances or neither.

    >>> import retrograd as rg
    >>> rg.testing.assert_close(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 2.000001]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: pass both rtol and atol, or neither")
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        if actual.keys() != expected.keys():
            raise AssertionError(f"The keys differ: {sorted(actual, key=str)} and {sorted(expected, key=str)}")
        pairs = [(f"[{key!r}]", actual[key], expected[key]) for key in expected]
    elif _is_sequence(expected) and _is_sequence(actual):
        if len(actual) != len(expected):
            raise AssertionError(f"The lengths differ: {len(actual)} and {len(expected)}")
        pairs = [(f"[{index}]", mine, its) for index, (mine, its) in enumerate(zip(actual, expected, strict=True))]
    else:
        pairs = [("", actual, expected)]
    if len(pairs) == 1 and pairs[0][0] == "":
        problem = _problem(actual, expected, rtol, atol, equal_nan, check_device, check_dtype, check_stride)
        if problem:
            raise AssertionError(msg(problem) if callable(msg) else msg or problem)
        return
    for place, mine, its in pairs:
        try:
            assert_close(
                mine, its, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device,
                check_dtype=check_dtype, check_stride=check_stride, msg=msg,
            )  # fmt: skip
        except AssertionError as error:
            raise AssertionError(f"{error}\nThe failure occurred for item {place}") from None


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _tensor(value: object) -> Tensor:
    return value.detach() if isinstance(value, Tensor) else new_tensor(to_array(value, copy=False))


def _problem(
    actual: object, expected: object, rtol: float | None, atol: float | None, equal_nan: bool, check_device: bool,
    check_dtype: bool, check_stride: bool,
) -> str:  # fmt: skip
    """Return why two values are not close, or an empty text if they are."""
    x, y = _tensor(actual), _tensor(expected)
    if x.shape != y.shape:
        return f"The values for attribute 'shape' do not match: {x.shape} != {y.shape}."
    if check_device and x.device != y.device:
        return f"The values for attribute 'device' do not match: {x.device} != {y.device}."
    if check_dtype and x.dtype != y.dtype:
        return f"The values for attribute 'dtype' do not match: {x.dtype} != {y.dtype}."
    if check_stride and x.stride() != y.stride():
        return f"The values for attribute 'stride()' do not match: {x.stride()} != {y.stride()}."
    if rtol is None or atol is None:
        pairs = [_TOLERANCES.get(z.dtype.name, (0.0, 0.0)) for z in (x, y)]
        rtol, atol = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    common = promote_types(x.dtype, y.dtype)
    a, b = x.cpu().array.astype(common), y.cpu().array.astype(common)
    wide = a.dtype if a.dtype.kind == "c" else np.dtype(np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(a.astype(wide) - b.astype(wide))
        near = (a == b) | (difference <= atol + rtol * np.abs(b.astype(wide)))
    if equal_nan:
        near |= np.isnan(a) & np.isnan(b)
    if near.all():
        return ""
    worst = np.unravel_index(np.argmax(np.where(near, -1.0, np.nan_to_num(difference, nan=np.inf))), near.shape)
    where = f" at index {tuple(int(place) for place in worst)}" if near.ndim else ""
    return (
        f"Tensor-likes are not close!\n\nMismatched elements: {int((~near).sum())} / {near.size}\n"
        f"Greatest absolute difference: {float(difference[worst])}{where} (up to {atol} allowed, rtol {rtol})"
    )


def assert_allclose(
    actual: object,
    expected: object,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Call ``assert_close`` without a check of dtypes: the older form."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def make_tensor(
    *shape: Any,
    dtype: DTypeLike,
    device: DeviceLike,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: object = None,
) -> Tensor:
    """Return a Tensor of random numbers from ``low`` up to, but without, ``high``.

    By default the numbers are between -9 and 9, or both False and True. With ``noncontiguous`` the result is every
    other element of the last dimension of a Tensor; with
    ``exclude_zero`` zeros are replaced by 1 or ``finfo(dtype).tiny``.

    Raises:
        ValueError: ``low`` is not less than ``high`` or no limit of the dtype, or an integer dtype requires a gradient.

    >>> import retrograd as rg
    >>> rg.testing.make_tensor(2, 3, dtype=rg.int64, device="cpu").shape
    (2, 3)
    """
    kind = public_dtype(dtype)
    exact = not kind.is_floating_point and not kind.is_complex
    if requires_grad and exact:
        raise ValueError(f"make_tensor: requires_grad=True needs a floating-point or complex dtype, got {kind}")
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: pass noncontiguous or memory_format, not both")
    limits = iinfo("uint8" if kind.name == "bool" else kind) if exact else finfo(kind)
    smallest, largest = (0, 2) if kind.name == "bool" else (limits.min, limits.max + (exact and kind.name != "int64"))
    low = (0 if kind.name == "bool" else -9) if low is None else low
    high = min(10 if exact else 9, largest) if high is None else high
    if not (low < high or (low == high and not exact)) or high < smallest or low >= largest:
        raise ValueError(f"make_tensor: expected low < high, both in the range of {kind}, got {low} and {high}")
    low, high = max(low, smallest), min(high, largest)
    lengths = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    skips = noncontiguous and prod(lengths) > 1
    if skips:
        lengths = (*lengths[:-1], 2 * lengths[-1])
    if exact:
        result = randint(ceil(low), ceil(high), lengths, dtype=kind, device=device)
    else:
        result = empty(lengths, dtype=kind, device=device)
        part, half = view_as_real(result) if kind.is_complex else result, high - low >= limits.max
        part.uniform_(low / 2, high / 2).mul_(2) if half else part.uniform_(low, high)
    if skips:
        result = result[..., 1::2]
    if exclude_zero:
        result[result == 0] = 1 if isinstance(limits, iinfo) else limits.tiny
    return result.requires_grad_(requires_grad)


# ``utils.checkpoint``: helpers that programs with their own checkpoints import


def get_device_states(*args: object) -> tuple[list[int], list[Tensor]]:
    """Return the GPUs of the arguments, and the states of their random number generators."""
    devices = sorted({x.device.index or 0 for x in args if isinstance(x, Tensor) and x.is_cuda})
    return devices, [cuda.get_rng_state(device) for device in devices]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], **options: object) -> None:
    """Restore the states that ``get_device_states`` returned."""
    for device, state in zip(devices, states, strict=True):
        cuda.set_rng_state(state, device)


def detach_variable(inputs: tuple[object, ...]) -> tuple[object, ...]:
    """Detach the Tensors among the inputs and restore their ``requires_grad``."""
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


# ``utils.tensorboard``: the writer of tensorboardX (extra ``tensorboard``), which accepts Tensors


Value: TypeAlias = Any  # an argument or a result of a function of PyTorch


def _array(value: Value) -> Value:
    return value.numpy(force=True) if isinstance(value, Tensor) else np.asarray(value)


class _SummaryWriter:
    """Writes numbers, histograms, texts and images for TensorBoard.

    Args:
        log_dir: the folder; by default ``runs/`` with time and host name.
        comment: appended to the default folder.
        purge_step: accepted for compatibility.
        max_queue: how many events wait before they are written.
        flush_secs: seconds after which waiting events are written.
        filename_suffix: appended to the name of the file.

    Raises:
        ImportError: neither tensorboardX nor tensorboard is installed.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ImportError(
                "utils.tensorboard needs tensorboardX or tensorboard: pip install 'retrograd[tensorboard]'"
            ) from None
        if log_dir is None:
            log_dir = os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step, self.filename_suffix = purge_step, filename_suffix
        self.file_writer: Value = EventFileWriter(self.log_dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def _add(self, tag: str, step: int | None, walltime: float | None, plugin: str = "", **value: Value) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata

        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin)) if plugin else None
        summary = Summary(value=[Summary.Value(tag=tag, metadata=metadata, **value)])
        self.file_writer.add_event(
            Event(wall_time=time.time() if walltime is None else walltime, step=int(step or 0), summary=summary)
        )

    def add_scalar(
        self,
        tag: str,
        scalar_value: Value,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number."""
        self._add(tag, global_step, walltime, simple_value=float(_array(scalar_value).reshape(())))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Value],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers under ``main_tag/name``."""
        for name, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{name}", value, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Value,
        global_step: int | None = None,
        bins: Value = 64,
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how values are distributed."""
        from tensorboard.compat.proto.summary_pb2 import HistogramProto

        flat = _array(values).reshape(-1).astype(np.float64)
        if not flat.size:
            raise ValueError("The input has no element.")
        counts, edges = np.histogram(flat, max_bins or (64 if isinstance(bins, str) else bins))
        histogram = HistogramProto(
            min=flat.min(), max=flat.max(), num=flat.size, sum=flat.sum(), sum_squares=(flat * flat).sum(),
            bucket_limit=edges[1:], bucket=counts,
        )  # fmt: skip
        self._add(tag, global_step, walltime, histo=histogram)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a text in Markdown."""
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        text = TensorProto(dtype="DT_STRING", string_val=[text_string.encode()], tensor_shape=shape)
        self._add(f"{tag}/text_summary", global_step, walltime, "text", tensor=text)

    def add_image(
        self,
        tag: str,
        img_tensor: Value,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image. Floating-point pixels lie between 0 and 1, integers between 0 and 255."""
        from PIL import Image
        from tensorboard.compat.proto.summary_pb2 import Summary

        image = _array(img_tensor)
        if dataformats.upper() == "CHW":
            image = np.moveaxis(image, 0, -1)
        if image.dtype.kind == "f":
            image = np.clip(image * 255, 0, 255)
        image = image.astype(np.uint8)
        if image.ndim == 3 and image.shape[-1] == 1:
            image = image[..., 0]
        stream = BytesIO()
        Image.fromarray(image).save(stream, "PNG")
        encoded = Summary.Image(
            height=image.shape[0], width=image.shape[1], colorspace=image.shape[2] if image.ndim == 3 else 1,
            encoded_image_string=stream.getvalue(),
        )  # fmt: skip
        self._add(tag, global_step, walltime, image=encoded)

    def add_figure(
        self, tag: str, figure: Value, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a figure of Matplotlib as an image."""
        figure.canvas.draw()
        self.add_image(tag, np.asarray(figure.canvas.buffer_rgba()), global_step, walltime, "HWC")
        if close:
            from matplotlib import pyplot

            pyplot.close(figure)

    def add_hparams(
        self, hparam_dict: Mapping[str, Value], metric_dict: Mapping[str, Value], *args: Value, **options: Value
    ) -> None:
        """Write hyperparameters as a text, and metrics as numbers."""
        rows = "\n".join(f"| {name} | {value} |" for name, value in hparam_dict.items())
        self.add_text("hparams", f"| name | value |\n|---|---|\n{rows}")
        for name, value in metric_dict.items():
            self.add_scalar(name, value)

    def add_graph(self, model: Value, *args: Value, **options: Value) -> None:
        """Raise RuntimeError: there is no graph of PyTorch's compiler."""
        raise RuntimeError(
            "SummaryWriter.add_graph: there is no graph of PyTorch's compiler; use retrograd.inspect.draw"
        )

    def flush(self) -> None:
        """Write all waiting events to the file."""
        self.file_writer.flush()

    def close(self) -> None:
        """Write all waiting events and close the file."""
        self.file_writer.close()

    def __enter__(self) -> _SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _without_tensors(value: object) -> Any:
    """Replace the Tensors in a value by NumPy arrays."""
    return replaced(value, lambda x: x.numpy(force=True) if isinstance(x, Tensor) else x)


def _summary_writer() -> type:
    """Return tensorboardX's class with methods that accept Tensors, or without that package a class of ours."""
    try:
        from tensorboardX import SummaryWriter as Base
    except ImportError:
        return _SummaryWriter

    def accepting_tensors(name: str) -> Callable[..., object]:
        def method(self: object, *args: object, **kwargs: object) -> object:
            return getattr(Base, name)(
                self, *map(_without_tensors, args), **{key: _without_tensors(v) for key, v in kwargs.items()}
            )

        method.__name__, method.__doc__ = name, getattr(Base, name).__doc__
        return method

    def add_graph(self: object, model: object, *args: object, **kwargs: object) -> None:
        raise RuntimeError(
            "SummaryWriter.add_graph: there is no graph of PyTorch's compiler; use retrograd.inspect.draw"
        )

    adding = [name for name in dir(Base) if name.startswith("add_") and name != "add_graph"]
    return type(
        "SummaryWriter", (Base,), {**{name: accepting_tensors(name) for name in adding}, "add_graph": add_graph}
    )


def __getattr__(name: str) -> object:
    if name == "SummaryWriter":  # created on first use, because it needs tensorboardX
        return globals().setdefault(name, _summary_writer())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ``_six``: names of Python for programs that also ran on Python 2

NAMES: Mapping[str, str | Mapping[str, object]] = {
    "_six": {
        "FileNotFoundError": FileNotFoundError, "PY3": True, "PY37": True, "container_abcs": container_abcs, "inf": inf,
        "int_classes": int, "nan": nan, "string_classes": (str, bytes),
    },
    "testing": "assert_allclose assert_close make_tensor",
    "utils.benchmark": "Measurement Timer",
    "utils.checkpoint": "detach_variable get_device_states set_device_states",
    "utils.tensorboard": "SummaryWriter",
}  # fmt: skip
