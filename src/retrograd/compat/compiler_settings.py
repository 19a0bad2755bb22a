"""``_dynamo.config`` and ``_inductor.config``: settings of PyTorch's compilers, which may be set and change nothing."""

from __future__ import annotations

from types import SimpleNamespace

accumulated_cache_size_limit = accumulated_recompile_limit = 256
allow_buffer_reuse = assume_static_by_default = automatic_dynamic_shapes = epilogue_fusion = optimize_ddp = True
cache_size_limit = recompile_limit = 8
capture_dynamic_output_shape_ops = capture_scalar_outputs = freezing = max_autotune = suppress_errors = verbose = False
coordinate_descent_tuning = fx_graph_cache = force_same_precision = max_autotune_gemm = shape_padding = False
compile_threads = 1
debug = False
cpp, trace, triton = SimpleNamespace(), SimpleNamespace(enabled=False), SimpleNamespace(cudagraphs=False)

__all__ = [
    "accumulated_cache_size_limit", "accumulated_recompile_limit", "allow_buffer_reuse", "assume_static_by_default",
    "automatic_dynamic_shapes", "cache_size_limit", "capture_dynamic_output_shape_ops", "capture_scalar_outputs",
    "compile_threads", "coordinate_descent_tuning", "cpp", "debug", "epilogue_fusion", "force_same_precision",
    "freezing", "fx_graph_cache", "max_autotune", "max_autotune_gemm", "optimize_ddp", "recompile_limit",
    "shape_padding", "suppress_errors", "trace", "triton", "verbose",
]  # fmt: skip
