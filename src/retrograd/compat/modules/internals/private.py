"""Names around ``compile`` (``compiler``, ``_dynamo``, ``_logging``), and private and rare names of many modules.

Checks raise PyTorch's types of errors. Types without instances here (``ScriptModule``) are classes that nothing is an
instance of. Settings of PyTorch's compilers can be set without effect.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ContextDecorator, contextmanager
from datetime import timedelta
from functools import partial, wraps
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn
from urllib.parse import urlparse as urlparse

from ....compiler import compile as compile
from ....compiler.run.compiled_function import Compiled, forget
from ....compiler.trace.sizes import mark_dynamic as mark_dynamic
from ....compiler.trace.sizes import mark_static as mark_static
from ....compiler.trace.trace_modes import set_stance as set_stance
from ....core.arrays.devices import Device, is_cuda_available
from ....core.errors import LinAlgError, describe
from ....core.graph.handles import RemovableHandle as RemovableHandle
from ....core.graph.modes import modes
from ....core.tensor.storage import sharers
from ....core.tensor.tensor import Tensor
from ....nn.base import global_hooks
from ....nn.base.module import Module
from ....nn.base.uninitialized import UninitializedBuffer, UninitializedParameter
from ....nn.init import _calculate_fan_in_and_fan_out
from ....nn.layers.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
from ....nn.sequence.transformer import _activation
from ....ops.linear.decompositions.factorizations import QRResult
from ....ops.linear.decompositions.householder import GeqrfResult
from ....ops.linear.decompositions.ldl import LDLFactors, LDLFactorsInfo
from ....ops.linear.decompositions.lu import LUFactors, LUParts, LUResult
from ....ops.linear.decompositions.spectral import EighResult, EigResult, OldSVDResult, SVDResult
from ....ops.linear.solving.checked import CholeskyExResult, InvExResult, LUFactorExResult, SolveExResult
from ....ops.linear.solving.inverses import SlogdetResult
from ....ops.linear.solving.least_squares import LstsqResult
from ....ops.linear.solving.systems import TriangularSolution
from ....ops.math.rounding import FrexpResult
from ....ops.reduce.extremes import MinMax
from ....ops.reduce.histograms import HistogramddResult, HistogramResult
from ....ops.reduce.sorting import ValuesIndices
from ..devices import constants
from ..jit import unchanged as unchanged
from .pytree import tree_flatten, tree_unflatten

Message = Callable[[], object] | None

# The top level: checks


def _raise(error: type[Exception], message: Message) -> NoReturn:
    raise error(str(message()) if message is not None else "Expected cond to be True, but got False.")


def _checks(error: type[Exception]) -> Callable[[bool, Message], None]:
    def check(cond: bool, message: Message = None) -> None:
        _check_with(error, cond, message)

    check.__doc__ = f"Raise {error.__name__} with the message unless the condition holds."
    return check


def _check_with(error_type: type[Exception], cond: bool, message: Message) -> None:
    """Raise an error of the given type unless the condition holds; TypeError if it is not a bool."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond).__name__}")
    if not cond:
        _raise(error_type, message)


def _check_tensor_all(cond: Tensor, message: Message = None) -> None:
    """Raise RuntimeError unless all elements are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Message = None) -> None:
    """Raise an error of the given type unless all elements are True; TypeError unless they are bools."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond).__name__}")
    if cond.array.dtype.kind != "b":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    if not bool(cond.all()):
        _raise(error_type, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError for a negative number, or a number above ``max``."""
    if i < 0 or max is not None and i > max:
        _raise(RuntimeError, message)


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise RuntimeError if the Tensor's one element is 0."""
    if not bool(input):
        raise RuntimeError(assert_msg)


def _shape_as_tensor(input: Tensor) -> Tensor:
    """Return the shape as a Tensor."""
    from ...._generated.toplevel import tensor

    return tensor(list(input.shape))


class _NeverType(type):
    def __instancecheck__(cls, obj: object) -> bool:
        return False


class ScriptModule(Module, metaclass=_NeverType):
    """A compiled module of PyTorch. ``jit.script`` returns modules unchanged, so no module is an instance of it."""


# ``return_types``: the classes of results with several Tensors

_RESULTS: dict[str, type] = {
    **dict.fromkeys(("cummax", "cummin", "kthvalue", "max", "median", "min"), ValuesIndices),
    **dict.fromkeys(("mode", "nanmedian", "sort", "topk"), ValuesIndices),
    **dict.fromkeys(("linalg_qr", "qr"), QRResult), **dict.fromkeys(("linalg_slogdet", "slogdet"), SlogdetResult),
    "aminmax": MinMax, "frexp": FrexpResult, "histogram": HistogramResult, "histogramdd": HistogramddResult,
    "geqrf": GeqrfResult, "lu_unpack": LUParts, "svd": OldSVDResult, "triangular_solve": TriangularSolution,
    "linalg_cholesky_ex": CholeskyExResult, "linalg_eig": EigResult, "linalg_eigh": EighResult,
    "linalg_inv_ex": InvExResult, "linalg_ldl_factor": LDLFactors, "linalg_ldl_factor_ex": LDLFactorsInfo,
    "linalg_lstsq": LstsqResult, "linalg_lu": LUResult, "linalg_lu_factor": LUFactors,
    "linalg_lu_factor_ex": LUFactorExResult, "linalg_solve_ex": SolveExResult, "linalg_svd": SVDResult,
}  # fmt: skip

# ``_utils``


def _get_available_device_type() -> str | None:
    """Return ``"cuda"`` if a GPU is available, else None."""
    return "cuda" if is_cuda_available() else None


def _get_device_module(device_type: str) -> ModuleType:
    """Return the module of a device type, such as ``torch.cuda``."""
    return getattr(sys.modules["retrograd"], device_type)


def _get_device_index(device: Device | str | int, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of a device; -1 for the CPU with ``allow_cpu``, 0 for ``"cuda"`` with ``optional``."""
    if isinstance(device, int):
        return device
    place = Device(device)
    if place.type == "cpu" and not allow_cpu:
        raise ValueError(f"Expected a non cpu device, but got: {place}")
    return -1 if place.type == "cpu" else place.index or 0


class _DecoratorContextManager(ContextDecorator):
    """A context manager that may decorate functions. ``clone`` returns a new instance."""

    def __enter__(self) -> object:
        raise NotImplementedError

    def __exit__(self, *error: object) -> bool | None:
        raise NotImplementedError

    def clone(self) -> _DecoratorContextManager:
        """Return another context manager of the class."""
        return type(self)()

    def _recreate_cm(self) -> _DecoratorContextManager:
        return self.clone()


# ``utils._foreach_utils``


def _gpus(supports_xla: bool = True) -> list[str]:
    """Return the device types on which PyTorch's optimizers update all parameters at once and accept ``capturable``."""
    return ["cuda"]


Grouped = dict[tuple[Device, object], tuple[list[list[Tensor | None]], list[int]]]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> Grouped:
    """Group the positions of parallel lists by device and dtype of the first list's Tensors.

    Returns:
        Per device and dtype the parts of all lists, and the positions with ``with_indices``.
    """
    groups: Grouped = {}
    for index, row in enumerate(zip(*tensorlistlist, strict=True)):
        assert row[0] is not None
        lists, indices = groups.setdefault((row[0].device, row[0].dtype), ([[] for _ in row], []))
        for part, x in zip(lists, row):
            part.append(x)
        if with_indices:
            indices.append(index)
    return groups


def is_compile_supported(device_type: str) -> bool:
    """Return whether ``compile`` has generated code for a device type."""
    return device_type in ("cpu", "cuda")


# ``nn``


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Return ``fan_in`` or ``fan_out`` of a weight."""
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def swap_tensor(module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False) -> Tensor | None:
    """Replace a parameter, a buffer or an attribute of a module by a Tensor, and return the former value.

    Raises:
        AttributeError: the module has nothing of this name, and ``allow_missing`` is False.
    """
    tables: tuple[dict[str, Tensor | None], ...] = (vars(module)["_parameters"], module._buffers, vars(module))
    for place in tables:
        if name in place:
            before, place[name] = place[name], tensor
            return before
    if not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    setattr(module, name, tensor)
    return None


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange two Tensors and their classes, attributes, gradients and histories, for everything that refers to them.

    A graph that has used one of them keeps referring to the same Python object.

    Raises:
        RuntimeError: a Tensor requires grad and has views.
    """
    for x in (t1, t2):
        if x._requires and any(view._base is x for view in sharers(x)):
            raise RuntimeError(f"swap_tensors: expected Tensors without views, got {describe(x)}, which requires grad")
    states = [(x._grad, x._node, x._requires, x._hooks, vars(x), type(x)) for x in (t1, t2)]
    for x in (t1, t2):
        x._grad, x._node, x._requires = None, None, False
    t1.data, t2.data = t2.detach(), t1.detach()
    for x, (grad, node, requires, hooks, attributes, kind) in zip((t2, t1), states, strict=True):
        x._grad, x._node, x._requires, x._hooks, x.__dict__ = grad, node, requires, hooks, attributes
        if type(x) is not kind:
            x.__class__ = kind


def _parse_to(*args: object, **kwargs: object) -> tuple[object, object, bool, object]:
    """Return device, dtype, ``non_blocking`` and memory format of the arguments of ``Module.to``."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for arg in args:
        if isinstance(arg, Tensor):
            device, dtype = arg.device, arg.dtype
        elif isinstance(arg, (str, int, Device)) and not isinstance(arg, bool):
            device = arg
        elif arg is not None and not isinstance(arg, bool):
            dtype = arg
    place = Device(device) if isinstance(device, str) else device
    place = Device("cuda", place) if isinstance(place, int) else place
    blocking = bool(kwargs.get("non_blocking", args[-1] if args and isinstance(args[-1], bool) else False))
    return place, dtype, blocking, kwargs.get("memory_format")


@contextmanager
def printoptions(**options: object) -> Iterator[None]:
    """Change how Tensors are printed inside a ``with`` statement; see ``set_printoptions``."""
    from ....core.tensor.printing import print_options
    from ..toplevel import set_printoptions

    before = dict(print_options)
    change: Callable[..., None] = set_printoptions
    change(**options)
    try:
        yield
    finally:
        print_options.clear()
        print_options.update(before)


# ``onnx.symbolic_helper``: packages register how PyTorch's exporter writes their operators


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return a decorator that returns the function unchanged."""
    return lambda function: function


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., object], opset_version: int) -> None:
    """Accepted without effect: ``onnx.export`` writes Retrograd's operators."""


unregister_custom_op_symbolic = register_custom_op_symbolic

# ``data``


class _BaseDataLoaderIter(metaclass=_NeverType):
    """An iterator of PyTorch's DataLoader. Retrograd's iterator has another class."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """An iterator of PyTorch's DataLoader with workers."""


def _generate_state(base_seed: int, worker_id: int) -> Sequence[int]:
    """Return four 32-bit numbers that seed NumPy's generator of a worker."""
    import numpy as np

    return [int(number) for number in np.random.SeedSequence([worker_id, base_seed]).generate_state(4)]


# ``compiler`` and ``_dynamo``


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return a function that is never compiled: a compiled function that calls it runs eagerly.

    Modules and classes are returned unchanged.

    >>> @rg.compiler.disable
    ... def count():
    ...     calls.append(1)
    >>> calls = []
    """
    if fn is None:
        return partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, Compiled):
        return fn.function
    if isinstance(fn, (Module, type)):
        return fn

    @wraps(fn)
    def run_eagerly(*args: object, **kwargs: object) -> object:
        if modes.tracer is not None:
            modes.tracer.breaks(reason or f"calls {getattr(fn, '__qualname__', fn)!s}, which is marked with disable")
        return fn(*args, **kwargs)

    return run_eagerly


def optimize(
    backend: object = "inductor", *, nopython: bool = False, disable: bool = False, dynamic: bool | None = None
) -> Any:
    """Return a decorator that compiles: ``compile`` under its former name."""
    return partial(compile, backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic)


def explain(fn: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Return the text of ``compile(fn).explain``; without arguments a function that returns it."""
    shown = (fn if isinstance(fn, Compiled) else Compiled(fn, True, None)).explain
    return shown(*args, **kwargs) if args or kwargs else shown


def is_compiling() -> bool:
    """Return whether a compiled function is being traced."""
    return modes.tracer is not None


def reset() -> None:
    """Delete all compiled programs: the next calls trace again."""
    forget()


def graph_break(msg: str = "") -> None:
    """Do nothing. In PyTorch the call ends a compiled graph."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing. In PyTorch the call begins a recorded step."""


def list_backends(exclude_tags: object = ()) -> list[str]:
    """Return PyTorch's names of compilers. Each of them selects the one compiler of Retrograd."""
    return ["cudagraphs", "inductor", "openxla", "tvm"]


def set_logs(*, recompiles: bool = False, recompiles_verbose: bool = False, **others: object) -> None:
    """Log to standard error why compiled functions are traced again, as ``TORCH_LOGS=recompiles`` does.

    The logger is ``retrograd.compiler``. PyTorch's other logs are accepted and write nothing; ``explain()`` of a
    compiled function shows how it was compiled.

    Args:
        recompiles: whether to log it.
        recompiles_verbose: has the same effect.
        others: names of other logs.

    >>> rg._logging.set_logs(recompiles=False)
    """
    logger = logging.getLogger("retrograd.compiler")
    enabled = recompiles or recompiles_verbose
    logger.setLevel(logging.INFO if enabled else logging.NOTSET)
    if enabled and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)


# Settings of PyTorch's compilers. They can be set without effect.
_ON = "allow_buffer_reuse assume_static_by_default automatic_dynamic_shapes epilogue_fusion optimize_ddp"
_OFF = """
    capture_dynamic_output_shape_ops capture_scalar_outputs coordinate_descent_tuning debug force_same_precision
    freezing fx_graph_cache max_autotune max_autotune_gemm shape_padding suppress_errors verbose
"""
_SETTINGS: dict[str, object] = {
    **dict.fromkeys(_ON.split(), True),
    **dict.fromkeys(_OFF.split(), False),
    **dict.fromkeys(("accumulated_cache_size_limit", "accumulated_recompile_limit"), 256),
    **dict.fromkeys(("cache_size_limit", "recompile_limit"), 8),
    "compile_threads": 1,
    "cpp": SimpleNamespace(),
    "trace": SimpleNamespace(enabled=False),
    "triton": SimpleNamespace(cudagraphs=False),
}

_COMPILER = """
    allow_in_graph=unchanged assume_constant_result=unchanged cudagraph_mark_step_begin disable explain
    graph_break is_compiling is_dynamo_compiling=is_compiling is_exporting=is_compiling list_backends mark_dynamic
    mark_static maybe_mark_dynamic=mark_dynamic optimize reset set_stance
"""
NAMES: dict[str, str | Mapping[str, object]] = {
    "retrograd": {
        "_check": _checks(RuntimeError), "_check_index": _checks(IndexError), "_check_type": _checks(TypeError),
        "_check_not_implemented": _checks(NotImplementedError), "_check_value": _checks(ValueError),
        "DeviceObjType": Device, "ScriptModule": ScriptModule, "TensorType": Tensor, "_assert_async": _assert_async,
        "_check_is_size": _check_is_size, "_check_tensor_all": _check_tensor_all,
        "_check_tensor_all_with": _check_tensor_all_with, "_check_with": _check_with,
        "_shape_as_tensor": _shape_as_tensor,
    },
    "_C": {
        "_LinAlgError": LinAlgError,
        "_TensorMeta": type(Tensor),
        **constants("privateuseone", "_get_privateuse1_backend_name"),
        **constants(False, "_jit_can_fuse_on_cpu _jit_can_fuse_on_gpu"),
        **constants(
            None, "_jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _jit_set_nvfuser_enabled "
            "_jit_set_nvfuser_guard_mode _jit_set_profiling_executor _jit_set_profiling_mode "
            "_jit_set_texpr_fuser_enabled _set_math_sdp_allow_fp16_bf16_reduction",
        ),
    },
    "_C._nn": "_parse_to",
    "_dynamo": f"{_COMPILER} compile",
    "_dynamo.eval_frame": {"OptimizedModule": Compiled},
    "_dynamo.utils": "is_compile_supported",
    "_functorch.vmap": {"Tensor": Tensor, "tree_flatten": tree_flatten, "tree_unflatten": tree_unflatten},
    "_logging": "set_logs",
    "_tensor_str": "printoptions",
    "_utils": "_get_available_device_type _get_device_index _get_device_module",
    "hub": {"HASH_REGEX": re.compile(r"-([a-f0-9]*)\."), "urlparse": urlparse},
    "jit": "RecursiveScriptModule=ScriptModule ScriptModule",
    "jit.annotations": {**{f"BroadcastingList{n}": list for n in range(1, 7)}, "Dict": dict, "List": list},
    "nn.init": "_calculate_correct_fan",
    "nn.modules.batchnorm": "SyncBatchNorm",
    "nn.modules.module": {
        "_EXTRA_STATE_KEY_SUFFIX": "_extra_state",
        "_global_buffer_registration_hooks": global_hooks.buffer_hooks,
        "_global_module_registration_hooks": global_hooks.module_hooks,
        "_global_parameter_registration_hooks": global_hooks.parameter_hooks,
    },
    "nn.modules.transformer": {"_get_activation_fn": _activation},
    "nn.parameter": {"UninitializedTensorMixin": (UninitializedBuffer, UninitializedParameter)},
    "nn.utils._named_member_accessor": "swap_tensor",
    "profiler": constants(False, "kineto_available"),
    "optim.optimizer": {"_get_capturable_supported_devices": _gpus},
    "onnx": "register_custom_op_symbolic unregister_custom_op_symbolic",
    "onnx.symbolic_helper": "parse_args",
    "compiler": _COMPILER,
    "distributed.constants": {"default_pg_timeout": timedelta(minutes=30)},
    "return_types": _RESULTS,
    "settings": _SETTINGS,
    "types": {"_size": Sequence[int]},
    "utils": "swap_tensors",
    "utils._foreach_utils": {
        "_get_foreach_kernels_supported_devices": _gpus,
        "_group_tensors_by_device_and_dtype": _group_tensors_by_device_and_dtype,
    },
    "utils._python_dispatch": constants(False, "is_traceable_wrapper_subclass"),
    "utils._contextlib": "_DecoratorContextManager",
    "utils.data._utils.worker": "_generate_state",
    "utils.data.dataloader": "_BaseDataLoaderIter _MultiProcessingDataLoaderIter",
    "utils.deterministic": {"fill_uninitialized_memory": True},
    "utils.hooks": "RemovableHandle",
}  # fmt: skip
