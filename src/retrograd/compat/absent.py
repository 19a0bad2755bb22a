"""Names of PyTorch that packages import and Retrograd does not have: they raise an error when they are used.

Packages import such names at their top, and use them only for what a program asks for: training that is sharded over
processes, PyTorch's compiler. ``ABSENT`` lists them. Each name is a class, so that it can be used in annotations, in
``isinstance`` (which is False) and as a base class. A call, an instance of a subclass, and an attribute raise an error.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, NoReturn

DOCUMENTATION = "docs/guides/packages.md#what-is-left-out"


class Group(NamedTuple):
    """Names with one purpose.

    Args:
        purpose: the purpose of the names: the end of a sentence that begins with "it".
        instead: the advice what to use, as a sentence; may be empty.
        names: per module of PyTorch its names.
    """

    purpose: str
    instead: str
    names: dict[str, str]


ABSENT = (
    Group(
        "shards Tensors, parameters or states of optimizers over processes",
        "Use nn.parallel.DistributedDataParallel, and distributed.optim.ZeroRedundancyOptimizer for the optimizer.",
        {
            "distributed": "DeviceMesh init_device_mesh",
            "distributed._composable.fsdp": "CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy "
            "fully_shard register_fsdp_forward_method",
            "distributed._functional_collectives": "AsyncCollectiveTensor all_gather_tensor "
            "all_gather_tensor_autograd all_reduce all_to_all_single all_to_all_single_autograd broadcast "
            "permute_tensor reduce_scatter_tensor reduce_scatter_tensor_autograd wait_tensor",
            "distributed._shard": "",
            "distributed._shard.sharded_tensor": "ShardedTensor",
            "distributed._shard.sharding_spec": "ChunkShardingSpec EnumerableShardingSpec ShardingSpec",
            "distributed._symmetric_memory": "",
            "distributed._tensor": "DTensor DeviceMesh distribute_module "
            "distribute_tensor init_device_mesh",
            "distributed._tensor.experimental": "",
            "distributed._tensor.placement_types": "DTensorSpec",
            "distributed.device_mesh": "DeviceMesh init_device_mesh _mesh_resources",
            "distributed.fsdp": "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig "
            "FullStateDictConfig FullyShardedDataParallel LocalOptimStateDictConfig LocalStateDictConfig "
            "MixedPrecision MixedPrecisionPolicy OffloadPolicy OptimStateDictConfig OptimStateKeyType "
            "ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings "
            "StateDictType UnshardHandle fully_shard register_fsdp_forward_method share_comm_ctx",
            "distributed.fsdp._common_utils": "",
            "distributed.fsdp._fully_shard": "FSDPModule",
            "distributed.fsdp._runtime_utils": "",
            "distributed.fsdp._unshard_param_utils": "",
            "distributed.fsdp.api": "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig "
            "MixedPrecision OptimStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy "
            "StateDictConfig StateDictSettings StateDictType",
            "distributed.fsdp.fully_sharded_data_parallel": "BackwardPrefetch CPUOffload FullOptimStateDictConfig "
            "FullStateDictConfig FullyShardedDataParallel MixedPrecision OptimStateKeyType "
            "ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictType",
            "distributed.fsdp.sharded_grad_scaler": "ShardedGradScaler",
            "distributed.fsdp.wrap": "CustomPolicy ModuleWrapPolicy _or_policy _recursive_wrap "
            "always_wrap_policy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy "
            "transformer_auto_wrap_policy wrap",
            "distributed.tensor": "DTensor DeviceMesh distribute_module "
            "distribute_tensor empty init_device_mesh ones rand randn zeros",
            "distributed.tensor._utils": "compute_local_shape_and_global_offset",
            "distributed.tensor.device_mesh": "DeviceMesh init_device_mesh",
            "distributed.tensor.experimental": "context_parallel local_map register_sharding",
            "distributed.tensor.experimental._attention": "context_parallel set_rotate_method",
            "distributed.tensor.parallel": "ColwiseParallel ParallelStyle PrepareModuleInput "
            "PrepareModuleInputOutput PrepareModuleOutput RowwiseParallel SequenceParallel loss_parallel "
            "parallelize_module",
            "distributed.tensor.placement_types": "",
        },
    ),
    Group(
        "saves checkpoints that are sharded over processes",
        "Save a state dict with torch.save.",
        {
            "distributed.checkpoint": "DefaultLoadPlanner DefaultSavePlanner FileSystemReader FileSystemWriter "
            "HuggingFaceStorageReader HuggingFaceStorageWriter LoadPlan LoadPlanner SavePlan SavePlanner "
            "StorageReader StorageWriter async_save load load_state_dict save save_state_dict",
            "distributed.checkpoint._consolidate_hf_safetensors": "consolidate_safetensors_files "
            "consolidate_safetensors_files_on_every_rank",
            "distributed.checkpoint.default_planner": "DefaultLoadPlanner DefaultSavePlanner",
            "distributed.checkpoint.filesystem": "FileSystemReader FileSystemWriter",
            "distributed.checkpoint.format_utils": "_EmptyStateDictLoadPlanner _load_state_dict "
            "dcp_to_torch_save torch_save_to_dcp",
            "distributed.checkpoint.state_dict_loader": "_load_state_dict load",
            "distributed.checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
            "distributed.checkpoint.metadata": "Metadata MetadataIndex TensorStorageMetadata",
            "distributed.checkpoint.optimizer": "load_sharded_optimizer_state_dict",
            "distributed.checkpoint.planner": "LoadPlan LoadPlanner ReadItem SavePlan SavePlanner WriteItem",
            "distributed.checkpoint.state_dict": "StateDictOptions get_model_state_dict get_optimizer_state_dict "
            "get_state_dict set_model_state_dict set_optimizer_state_dict set_state_dict",
            "distributed.checkpoint.stateful": "Stateful",
        },
    ),
    Group(
        "starts, names or connects processes in PyTorch's way",
        "Start processes with mpiexec, or with torch.multiprocessing.spawn.",
        {
            "distributed": "FileStore HashStore PrefixStore Store TCPStore recv_object_list send_object_list",
            "distributed.distributed_c10d": "PrefixStore Store _get_default_group _get_default_store "
            "_get_process_group_store _new_process_group_helper _world",
            "distributed.elastic": "",
            "distributed.elastic.agent": "",
            "distributed.elastic.agent.server": "",
            "distributed.elastic.agent.server.api": "WorkerSpec WorkerState",
            "distributed.elastic.multiprocessing": "",
            "distributed.elastic.multiprocessing.errors": "ChildFailedError ErrorHandler ProcessFailure",
            "distributed.pipelining": "Pipe PipelineStage Schedule1F1B ScheduleGPipe SplitPoint pipe_split pipeline",
            "distributed.rpc": "RRef init_rpc remote rpc_async rpc_sync shutdown",
            "distributed.run": "get_args_parser main run",
            "_C._distributed_c10d": "ProcessGroup Reducer Store",
            "distributed.utils": "_sync_module_states _verify_param_shape_across_processes",
            "numa": "",
            "numa.binding": "AffinityMode NumaOptions",
        },
    ),
    Group(
        "is a part of data-parallel training that Retrograd does in another way",
        "Use nn.parallel.DistributedDataParallel without hooks.",
        {
            "distributed.algorithms": "",
            "distributed.algorithms._checkpoint": "",
            "distributed.algorithms._checkpoint.checkpoint_wrapper": "CheckpointImpl CheckpointWrapper "
            "OffloadWrapper apply_activation_checkpointing checkpoint_wrapper offload_wrapper",
            "distributed.algorithms.ddp_comm_hooks": "",
            "distributed.algorithms.ddp_comm_hooks.debugging_hooks": "noop_hook",
            "distributed.algorithms.ddp_comm_hooks.default_hooks": "allreduce_hook bf16_compress_hook "
            "bf16_compress_wrapper fp16_compress_hook fp16_compress_wrapper",
            "distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks": "",
            "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": "PostLocalSGDState post_localSGD_hook",
            "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": "PowerSGDState batched_powerSGD_hook powerSGD_hook",
            "distributed.algorithms.join": "Join JoinHook Joinable",
            "distributed.algorithms.model_averaging": "",
            "distributed.algorithms.model_averaging.averagers": "ModelAverager PeriodicModelAverager",
            "distributed.optim": "DistributedOptimizer PostLocalSGDOptimizer",
        },
    ),
    Group(
        "belongs to PyTorch's compiler and exporter",
        "Use torch.compile, which is retrograd.compile, or retrograd.onnx.export.",
        {
            "": "SymBool SymFloat SymInt",
            "_C": "Graph Value",
            "_C._functorch": "TransformType _add_batch_dim _remove_batch_dim get_unwrapped",
            "_functorch.vmap": "_add_batch_dim _broadcast_to_and_flatten _create_batched_inputs "
            "_get_name _maybe_remove_batch_dim _process_batched_inputs _remove_batch_dim "
            "_unwrap_batched _validate_and_get_batch_size",
            "_dynamo._trace_wrapped_higher_order_op": "TransformGetItemToIndex",
            "_dynamo.backends": "",
            "_dynamo.backends.common": "aot_autograd",
            "_dynamo.backends.registry": "lookup_backend register_backend",
            "_dynamo.testing": "CompileCounter CompileCounterWithBackend",
            "_dynamo.utils": "counters",
            "_export": "",
            "_export.utils": "",
            "_functorch": "",
            "_functorch.aot_autograd": "aot_export_module aot_function aot_module aot_module_simplified",
            "_functorch.partitioners": "default_partition min_cut_rematerialization_partition",
            "_guards": "TracingContext active_fake_mode detect_fake_mode",
            "_higher_order_ops": "auto_functionalized wrap",
            "_higher_order_ops.flex_attention": "",
            "_inductor": "",
            "_inductor.codecache": "FxGraphCache extract_tensor_metadata_for_cache_key",
            "_inductor.compile_fx": "compile_fx",
            "_inductor.utils": "",
            "_ops": "HigherOrderOperator OpOverload OpOverloadPacket",
            "_prims_common": "",
            "_subclasses": "FakeTensor FakeTensorMode",
            "_subclasses.fake_tensor": "FakeTensor FakeTensorMode",
            "_subclasses.functional_tensor": "FunctionalTensor mb_unwrap_functional_tensor",
            "_subclasses.meta_utils": "MetaConverter",
            "export": "Constraint Dim ExportedProgram ShapesCollection draft_export export load "
            "register_dataclass save",
            "export._trace": "",
            "export.decomp_utils": "CustomDecompTable",
            "export.dynamic_shapes": "Dim",
            "onnx": "ONNXProgram TensorProtoDataType",
            "fx.experimental.symbolic_shapes": "DimDynamic GuardOnDataDependentSymNode ShapeEnv "
            "StatelessSymbolicContext",
            "utils._python_dispatch": "TorchDispatchMode",
            "utils._sympy": "",
            "utils._sympy.numbers": "IntInfinity",
            "utils._sympy.value_ranges": "ValueRanges",
        },
    ),
    Group(
        "quantizes models",
        "Use weights in float16 or bfloat16.",
        {
            "ao": "",
            "ao.nn": "",
            "ao.nn.intrinsic": "",
            "ao.nn.qat": "",
            "ao.nn.quantized": "Conv2d Embedding EmbeddingBag FloatFunctional Linear",
            "ao.quantization": "DeQuantStub FakeQuantize MinMaxObserver MovingAverageMinMaxObserver QConfig "
            "QConfigMapping QuantStub QuantWrapper convert default_qconfig fuse_modules fuse_modules_qat "
            "get_default_qat_qconfig get_default_qconfig prepare prepare_qat quantize_dynamic",
            "ao.quantization.fx": "_decomposed",
            "ao.quantization.fake_quantize": "FakeQuantize",
            "ao.quantization.observer": "HistogramObserver MinMaxObserver",
            "nn.quantized": "Conv2d FloatFunctional Linear",
            "nn.quantized.dynamic": "Linear LSTM",
            "quantization": "DeQuantStub QConfig QuantStub convert default_qconfig get_default_qconfig prepare "
            "prepare_qat quantize_dynamic",
        },
    ),
    Group(
        "makes Tensors whose rows have different lengths, or whose elements are masked",
        "Pad the rows, and pass a mask.",
        {
            "masked": "MaskedTensor as_masked_tensor is_masked_tensor masked_tensor",
            "masked.maskedtensor": "",
            "nested": "as_nested_tensor nested_tensor nested_tensor_from_jagged narrow to_padded_tensor",
            "nested._internal": "",
            "nested._internal.nested_tensor": "NestedTensor",
            "nested._internal.ops": "",
        },
    ),
    Group(
        "reads or writes parts of PyTorch's files",
        "Use torch.load and torch.save.",
        {
            "": "PyTorchFileReader PyTorchFileWriter",
            "_tensor": "_rebuild_from_type_v2",
            "_utils": "_rebuild_parameter _rebuild_tensor_v2",
        },
    ),
    Group(
        "multiplies matrices of 8-bit numbers, or groups of matrices, on new GPUs",
        "Use torch.matmul.",
        {"": "_grouped_mm _scaled_mm", "nn.functional": "ScalingType grouped_mm scaled_mm"},
    ),
    Group(
        "counts floating-point operations by dispatching on operators",
        "Use retrograd.inspect.profile.",
        {"utils.flop_counter": "FlopCounterMode"},
    ),
    Group(
        "loads classes of compiled libraries",
        "Write them in Python.",
        {"": "classes"},
    ),
    Group(
        "records work of a GPU to repeat it",
        "Run the program without it.",
        {
            "cuda": "CUDAGraph graph graph_pool_handle make_graphed_callables",
            "cuda.graphs": "CUDAGraph graph graph_pool_handle make_graphed_callables",
        },
    ),
    Group(
        "builds code in C++ or CUDA against PyTorch's library",
        "Write an operator in Python: docs/guides/custom_functions.md.",
        {
            "utils.cpp_extension": "BuildExtension CUDAExtension CUDA_HOME CppExtension IS_HIP_EXTENSION ROCM_HOME "
            "include_paths library_paths load load_inline",
        },
    ),
    Group(
        "shows what PyTorch's own profiler has recorded",
        "Use retrograd.inspect.profile.",
        {
            "autograd.profiler": "emit_itt emit_nvtx",
            "cuda.profiler": "profile start stop",
            "profiler.profiler": "_default_schedule_fn",
        },
    ),
    Group(
        "reads data with PyTorch's former data pipes",
        "Use torch.utils.data.Dataset and DataLoader.",
        {
            "utils.data.datapipes": "",
            "utils.data.datapipes.iter": "",
            "utils.data.datapipes.iter.combinatorics": "ShufflerIterDataPipe",
            "utils.data.graph": "DataPipe traverse_dps",
            "utils.data.graph_settings": "apply_shuffle_settings",
        },
    ),
)  # fmt: skip


# The purpose of PyTorch's modules. The error for a name that no group lists uses the entry of its longest prefix.
_SHARDS, _CHECKPOINTS, _STARTS, _HOOKS, _COMPILES, _QUANTIZES, _MASKS, _FILES = (
    (group.purpose, group.instead) for group in ABSENT[:8]
)
_PROFILES = ("measures programs with PyTorch's own profiler", "Use retrograd.inspect.profile.")
_BUILDS = ("builds or describes PyTorch's C++ library, which Retrograd does not have", "")
SUBJECTS: tuple[tuple[str, str, str], ...] = (
    (*_STARTS, "distributed multiprocessing"),
    (*_SHARDS, "distributed._shard distributed.fsdp distributed.tensor distributed._tensor distributed.device_mesh "
     "distributed.nn nn.parallel.comm"),
    (*_CHECKPOINTS, "distributed.checkpoint"),
    (*_HOOKS, "distributed.algorithms distributed.optim"),
    (*_COMPILES, "export fx.experimental fx.passes _dynamo _export _functorch _inductor _higher_order_ops _subclasses "
     "_prims _refs _decomp _ops nativert compiler utils._sympy sym_ Sym cond func.functionalize"),
    ("records, rewrites or shows the graph of a module", "", "fx"),
    ("is part of TorchScript, which Retrograd runs as Python",
     "torch.jit.script and torch.jit.trace return what they are given.",
     "jit utils.jit utils.bundled_inputs utils.mobile_optimizer utils.model_dump package AliasDb AnyType Argument "
     "AwaitType Block BoolType CallStack Capsule ClassType Code Comp Concrete DeepCopyMemoTable Deserialization "
     "DeviceObjType DictType EnumType ErrorReport ExecutionPlan FloatType FunctionSchema FutureType Gradient Graph "
     "InferredType IntType InterfaceType IODescriptor JITException ListType LiteScriptModule LockingLogger ModuleDict "
     "Node NoneType NoopLogger NumberType OperatorInfo OptionalType ParameterDict PyObjectType RRefType Script "
     "Serialization StaticModule StreamObjType StringType TracingState TupleType Type UnionType Use Value BufferDict "
     "fork wait import_ir parse_ merge_type unify_type FileCheck"),
    (*_QUANTIZES, "ao quantization nn.quantized nn.quantizable nn.intrinsic nn.qat nn.cpp quantize choose_qparams "
     "QInt QUInt fake_quantize fbgemm_ fused_moving_avg q_ qscheme int_repr dequantize empty_quantized Tensor.q_ "
     "Tensor.qscheme Tensor.int_repr Tensor.dequantize"),
    (*_MASKS, "masked nested"),
    (*_FILES, "serialization storage UntypedStorage TypedStorage utils.serialization utils.show_pickle"),
    ("writes ONNX files in PyTorch's way", "Use torch.onnx.export, which is retrograd.onnx.export.", "onnx"),
    ("belongs to devices that Retrograd does not have", "Use device cpu, or cuda with CuPy.",
     "xpu mtia mps backends utils.mkldnn utils.backend_registration mkldnn_ miopen_ cudnn_ is_vulkan hpu ipu"),
    ("manages a GPU, its streams and its memory", "CuPy's functions do, on the same device.", "cuda accelerator"),
    ("is about the CPU, which Retrograd uses by itself", "", "cpu"),
    (*_PROFILES, "profiler autograd.profiler utils.benchmark utils.throughput_benchmark utils.flop_counter monitor "
     "Benchmark ThroughputBenchmark AVG SUM AggregationType"),
    (*_BUILDS, "utils.cpp_extension utils.hipify utils.collect_env utils.cpp_backtrace utils.file_baton has_ contrib "
     "cpp version torch_version classes utils.cmake DispatchKey Disable ExcludeDispatch Tag testing"),
    ("reads and prepares data with PyTorch's former data pipes", "Use torch.utils.data.Dataset and DataLoader.",
     "utils.data"),
    ("is a helper of PyTorch's own modules", "", "utils hub overrides library random types return_types"),
    ("belongs to automatic differentiation", "", "autograd func"),
    ("is for Tensors that Retrograd does not have", "Use dense Tensors, or retrograd.sparse.", "Tensor"),
    ("was removed from PyTorch", "Use the functions of torch.linalg.",
     "Tensor.eig Tensor.lstsq Tensor.solve Tensor.symeig Tensor.reinforce"),
    ("belongs to layers, losses and their functions", "", "nn nn.functional"),
    ("belongs to optimizers", "", "optim"),
    ("belongs to a module that PyTorch does not have", "", "inspect scipy"),
    ("belongs to probability distributions", "", "distributions"),
    ("belongs to linear algebra", "", "linalg"),
    ("belongs to special functions", "", "special"),
    ("belongs to signal processing", "", "fft signal"),
    ("belongs to sparse Tensors", "retrograd.sparse has coordinates and compressed rows.",
     "sparse ccol_ col_indices crow_ row_indices hsmm hspmm saddmm smm sspaddmm"),
    ("switches or asks for automatic mixed precision", "Use torch.autocast.", "amp autocast_ get_autocast set_autocast "
     "is_autocast"),
)  # fmt: skip


MODULES = frozenset(path for group in ABSENT for path in group.names if path)
"""The modules of the names, and modules that have no names."""


class _AbsentType(type):
    sentence: str

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(cls.sentence)

    def __getattr__(cls, name: str) -> type:
        if name.startswith("_") or not name.isupper():
            raise AttributeError(f"{cls.__module__}.{cls.__name__}.{name}: {cls.sentence}")
        return _absent(f"{cls.__module__}.{cls.__name__}.{name}", cls.sentence)  # a member of an enumeration

    def __repr__(cls) -> str:
        return f"<{cls.__module__}.{cls.__name__}, which Retrograd does not have>"


@cache
def _absent(full_name: str, sentence: str) -> type:
    module, _, name = full_name.rpartition(".")
    return _AbsentType(name, (), {"sentence": sentence, "__module__": module, "__doc__": f"Raise an error: {sentence}"})


def find(path: str, name: str) -> type | None:
    """Return the class for a name of a PyTorch module, such as ``distributed.fsdp``; None if the name is not listed."""
    module = f"torch.{path}".rstrip(".")
    for group in ABSENT:
        if name in group.names.get(path, "").split():
            full_name = f"{module}.{name}"
            return _absent(full_name, _sentence(full_name, group.purpose, group.instead))
    return None


def _sentence(full_name: str, purpose: str, instead: str) -> str:
    return f"{full_name} is not available in Retrograd: it {purpose}. {instead} See {DOCUMENTATION}.".replace("  ", " ")


def sentence(full_name: str) -> str:
    """Return the error message for a name of PyTorch that ``ABSENT`` does not list, from the purpose of its module."""
    path = full_name.removeprefix("torch").lstrip(".")
    prefix = max((prefix for prefix in _SUBJECTS if path.startswith(prefix)), key=len)
    return _sentence(full_name, *_SUBJECTS[prefix])


def _subjects() -> dict[str, tuple[str, str]]:
    """Return, for each prefix of module paths, the purpose of the modules and the advice what to use instead."""
    found = {"": ("belongs to functions and classes of PyTorch's top level", "")}
    for group in ABSENT:
        for module in group.names:
            if "." in module:
                found.setdefault(module, (group.purpose, group.instead))
    for purpose, instead, prefixes in SUBJECTS:
        found |= dict.fromkeys(prefixes.split(), (purpose, instead))
    return found


_SUBJECTS = _subjects()
