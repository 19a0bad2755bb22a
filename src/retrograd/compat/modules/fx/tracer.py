"""``Tracer``: record the operations of a function or module as a graph, and functions as calls (``wrap``)."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from functools import wraps
from types import FunctionType, ModuleType, TracebackType

from ....core.tensor.tensor import Tensor
from ....func import nests
from ....nn import Sequential
from ....nn.base.module import Module
from ....nn.parameter import Parameter
from ..toplevel import _assert
from .code import PyTreeCodeGen, compile_source
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Value
from .proxy import ParameterProxy, TracerBase, tracer_of

# The globals of modules that registered a function with ``wrap``, by the id of these globals and the function's name.
_wrapped: dict[tuple[int, str], dict[str, Value]] = {}
# Methods that programs registered, as pairs of a class and a name.
_wrapped_methods: list[tuple[type, str]] = []


def wrap(fn_or_name: str | Callable[..., Value]) -> Value:
    """Make tracing record calls of a function instead of entering it. Call it at the top of a module.

    Args:
        fn_or_name: a function of the module, or the name of a global or builtin function. As a decorator it returns
            the function unchanged.

    Raises:
        RuntimeError: the argument is neither a function nor a name.
        NotImplementedError: the call is inside a function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(f"Unsupported type for global function! Must be either a callable or string name, "
                           f"got {fn_or_name!r}")  # fmt: skip
    if callable(fn_or_name) and not isinstance(fn_or_name, str):
        name = fn_or_name.__name__
    else:
        name = str(fn_or_name)
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    if caller is None:
        raise RuntimeError("wrap: the calling module is unknown")
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


def recording(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that records calls with Proxies, and computes calls without Proxies."""
    if getattr(function, "_fx_records", False):
        return function

    @wraps(function)
    def record(*args: Value, **kwargs: Value) -> Value:
        tracer = tracer_of((args, kwargs))
        if tracer is None:
            return function(*args, **kwargs)
        proxy = tracer.create_proxy("call_function", function, args, kwargs)
        proxy.node.meta["is_wrapped"] = True
        return proxy

    vars(record)["_fx_records"] = True
    return record


class Patcher:
    """Replaces attributes and names of modules until the end of a ``with`` statement."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self._visited: set[int] = set()

    def method(self, owner: type, name: str, value: Value) -> None:
        """Replace an attribute of a class."""
        before = getattr(owner, name)
        own = name in vars(owner)
        setattr(owner, name, value)
        self._undo.append((lambda: setattr(owner, name, before)) if own else (lambda: delattr(owner, name)))

    def name(self, names: dict[str, Value], name: str, value: Value) -> None:
        """Replace a global name."""
        if name in names:
            before = names[name]
            self._undo.append(lambda: names.__setitem__(name, before))
        else:  # the name of a builtin function
            self._undo.append(lambda: names.pop(name, None))
        names[name] = value

    def visit_once(self, names: object) -> bool:
        """Return True at the first call with this object."""
        first = id(names) not in self._visited
        self._visited.add(id(names))
        return first

    def registered(self) -> None:
        """Replace the functions that modules registered with ``wrap``."""
        import builtins

        for (_, name), names in _wrapped.items():
            function = names.get(name, getattr(builtins, name, None))
            if function is not None:
                self.name(names, name, recording(function))
        for owner, name in _wrapped_methods:
            self.method(owner, name, recording(getattr(owner, name)))

    def functions(self, names: dict[str, Value], identities: set[int]) -> None:
        """Replace the functions with these ids among the global names of a module."""
        if not self.visit_once(names):
            return
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in identities:
                self.name(names, name, recording(value))

    def __enter__(self) -> Patcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._undo:
            self._undo.pop()()


class _Placeholder:
    """``PH``: a value inside ``concrete_args`` that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = _Placeholder()


class _Flag:
    def __init__(self) -> None:
        self.depth = 0


_tracing = _Flag()


def is_fx_tracing() -> bool:
    """Return whether a function is being traced."""
    return _tracing.depth > 0


def _assert_is_none(value: Value, msg: str) -> None:
    assert value is None, msg


class Tracer(TracerBase):
    """Records functions and modules. ``symbolic_trace`` uses it; subclasses decide how calls are recorded.

    Args:
        autowrap_modules: modules whose functions are recorded as calls.
        autowrap_functions: further functions that are recorded as calls.
        param_shapes_constant: whether the shapes of Parameters are numbers while tracing.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Value], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._identities = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function) for function in autowrap_functions}
        self._modules = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.root: Module = Module()
        self.root_module_name = ""
        self.submodule_paths: dict[Module, str] | None = None
        self.tensor_attrs: dict[int, str] = {}

    # Methods that subclasses override

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether a module is recorded as one call, as all modules of the package except ``Sequential`` are."""
        package = getattr(type(m), "__module__", "")
        return package.startswith(("retrograd.nn", "torch.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a submodule of the root.

        Raises:
            NameError: the module is not a submodule.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is not None:
                return path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(
        self, m: Module, forward: Callable[..., Value], args: tuple[Value, ...], kwargs: dict[str, Value]
    ) -> Value:
        """Record or enter a call of a module. ``forward`` computes it."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Value, parameter_proxy_cache: dict[str, Value]) -> Value:
        """Return an attribute of a module that is read while the module is traced."""
        wanted = self.param_shapes_constant and isinstance(attr_val, Parameter)
        buffers = self.proxy_buffer_attributes and isinstance(attr_val, Tensor) and not isinstance(attr_val, Parameter)
        if not (wanted or buffers):
            return attr_val
        members = self.root.named_parameters() if wanted else self.root.named_buffers()
        for name, member in members:
            if member is attr_val:
                if name not in parameter_proxy_cache:
                    proxy = self.create_proxy("get_attr", name, (), {})
                    parameter_proxy_cache[name] = ParameterProxy(self, proxy.node, name, attr_val) if wanted else proxy
                return parameter_proxy_cache[name]
        return attr_val

    def create_arg(self, a: Value) -> Argument:
        """Return a value as the argument of a node. Tensors of the root become nodes of their attributes."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            return self.create_node("get_attr", self._attribute_of(a), (), {})
        if isinstance(a, Module) and a is not self.root:
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def _attribute_of(self, a: Tensor) -> str:
        """Return the path of a Tensor below the root. A Tensor without a path becomes an attribute of the root."""
        name = self.tensor_attrs.get(id(a))
        if name is None:
            name = self.get_fresh_qualname("_tensor_constant")
            self.tensor_attrs[id(a)] = name
            setattr(self.root, name, a)
        return name

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name with this prefix that the root does not use."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # Tracing

    def create_args_for_root(
        self, root_fn: Callable[..., Value], is_module: bool, concrete_args: dict[str, Value] | None = None
    ) -> tuple[Callable[..., Value], list[Value]]:
        """Return the function to call, and its arguments: the root module, Proxies and concrete values."""
        function: Value = inspect.unwrap(root_fn)
        code = function.__code__
        names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        parameters = inspect.signature(function).parameters
        concrete = self._by_name(names[1:] if is_module else names, concrete_args)
        values: list[Value] = [self.root] if is_module else []
        for name in names[1:] if is_module else names:
            values.append(self._argument(name, concrete, parameters, function))
        flags = ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**"))
        extra = [star for flag, star in flags if code.co_flags & flag]
        place = len(names)
        starred = []
        for star in extra:
            name = code.co_varnames[place]
            starred.append(self.create_proxy("placeholder", f"{star}{name}", (), {}, name=f"_{name}"))
            place += 1
        if any(nests.kind_of(value) not in (None, nests.kind_of(None)) for value in concrete.values()):
            self._flatten_inputs(names[1:] if is_module else names, concrete)
        if code.co_kwonlyargcount or starred:
            return _called_with(function, code, extra), [*values, *starred]
        return root_fn, values

    def _by_name(self, names: list[str], concrete_args: Value) -> dict[str, Value]:
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(f"Tracing expected {len(names)} arguments but got {len(concrete_args)} "
                                   "concrete arguments")  # fmt: skip
            return dict(zip(names, concrete_args, strict=True))
        return dict(concrete_args or {})

    def _argument(self, name: str, concrete: dict[str, Value], parameters: Value, function: Value) -> Value:
        """Return the value of one argument: a Proxy, or the value from ``concrete_args``, with a check in the graph."""
        default = parameters[name].default
        options = {} if default is inspect.Parameter.empty else {"default": default}
        annotation = function.__annotations__.get(name)
        if name not in concrete:
            args = (options["default"],) if options else ()
            return self.create_proxy("placeholder", name, args, {}, type_expr=annotation)
        value = concrete[name]
        leaves, structure = nests.flatten(value, lambda leaf: leaf is None)
        numbered = len(leaves) != 1 or structure.type is not None
        args = (options["default"],) if options and not numbered else ()
        out = []
        for number, leaf in enumerate(leaves, 1):
            target = f"{name}_{number}"
            proxy = self.create_proxy("placeholder", target, args, {})
            if leaf is PH:
                out.append(proxy)
                continue
            message = f"{name} has been specialized to have value {leaf} but got another value"
            if leaf is None:
                self.create_proxy("call_function", _assert_is_none, (proxy, message), {})
            elif isinstance(leaf, (bool, int, float, str)):
                self.create_proxy("call_function", _assert, (operator.eq(proxy, leaf), message), {})
            out.append(leaf)
        return structure.unflatten(out)

    def _flatten_inputs(self, names: list[str], concrete: dict[str, Value]) -> None:
        tree = [concrete.get(name, PH) for name in names]
        _, structure = nests.flatten(tree, lambda leaf: leaf is None)
        self.graph._codegen = PyTreeCodeGen(["self", *names], structure, None)

    def trace(self, root: Module | Callable[..., Value], concrete_args: Value = None) -> Graph:
        """Return the graph of a module's ``forward`` or of a function.

        Args:
            root: the module or function.
            concrete_args: values for some arguments, which become constants of the graph.

        Raises:
            TraceError: the program needs the value of an input, as ``if`` does.
        """
        function: Value
        if isinstance(root, Module):
            self.root, self.root_module_name = root, root._get_name()
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            function = getattr(type(root), self.traced_func_name)
            own = root.__dict__.get(self.traced_func_name)
            if own is not None:
                function = _ignoring_self(own)
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, self.root_module_name, self.submodule_paths = Module(), "", None
            function = root
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        self.tensor_attrs = {}
        self._collect_tensors(self.root, "")
        if not isinstance(inspect.unwrap(function), FunctionType):
            function = _as_function(function)
        _tracing.depth += 1
        try:
            call, values = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
            result = self._run(call, values, inspect.unwrap(function).__globals__)
        finally:
            _tracing.depth -= 1
        annotation = inspect.unwrap(function).__annotations__.get("return")
        self._finish(result, annotation)
        return self.graph

    def _finish(self, result: Value, annotation: Value) -> None:
        """Record the result; if the inputs are flattened, flatten the result, too."""
        codegen = self.graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            leaves, codegen.out_spec = nests.flatten(result, lambda leaf: leaf is None)
            self.create_node("output", "output", (self.create_arg(leaves),), {})
            return
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=annotation)

    def _collect_tensors(self, module: Module, prefix: str) -> None:
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                self.tensor_attrs[id(value)] = f"{prefix}{name}"
        for name, child in module.named_children():
            self._collect_tensors(child, f"{prefix}{name}.")

    def _run(self, call: Callable[..., Value], values: list[Value], names: dict[str, Value]) -> Value:
        """Call the function with Proxies, while modules and registered functions record."""
        cache: dict[str, Value] = {}
        plain_getattr, plain_call = Module.__getattr__, Module.__call__

        def get_attribute(module: Module, name: str) -> Value:
            return self.getattr(name, plain_getattr(module, name), cache)

        with Patcher() as patcher:

            def call_module(module: Module, *args: Value, **kwargs: Value) -> Value:
                def forward(*args: Value, **kwargs: Value) -> Value:
                    return plain_call(module, *args, **kwargs)

                code = getattr(getattr(module, "forward", module), "__globals__", None)
                if code is not None:
                    patcher.functions(code, self._identities)
                return self.call_module(module, forward, args, kwargs)

            patcher.method(Module, "__getattr__", get_attribute)
            patcher.method(Module, "__call__", call_module)
            patcher.registered()
            patcher.functions(names, self._identities)
            for module in self._modules:
                patcher.functions(vars(module), self._identities)
            return call(*values)

    def __deepcopy__(self, memo: dict[int, Value]) -> Tracer:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied


def _ignoring_self(function: Callable[..., Value]) -> Callable[..., Value]:
    own = inspect.unwrap(getattr(function, "__func__", function))
    return own if hasattr(function, "__func__") else _as_function(function, skip_first=True)


def _as_function(call: Value, skip_first: bool = False) -> Value:
    """Return a callable object as a function with the same arguments, by position."""
    names = [name for name, p in inspect.signature(call).parameters.items()
             if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]  # fmt: skip
    first = ["self_"] if skip_first else []
    scope = {"_call": call}
    exec(f"def function({', '.join([*first, *names])}): return _call({', '.join(names)})", scope)
    return scope["function"]


def _called_with(function: Callable[..., Value], code: Value, extra: list[str]) -> Callable[..., Value]:
    """Return ``function`` with positional arguments only, from which it gets its keyword-only and starred arguments."""
    positional, keywords = code.co_argcount, code.co_kwonlyargcount

    def call(*values: Value) -> Value:
        names = code.co_varnames[positional : positional + keywords]
        named = dict(zip(names, values[positional : positional + keywords], strict=True))
        rest = dict(zip(extra, values[positional + keywords :], strict=True))
        # The collected arguments are Proxies, which cannot be unpacked: the function gets them as its variables.
        bound = inspect.unwrap(function)
        return _with_collected(bound, values[:positional], named, rest)

    return call


def _with_collected(
    function: Value, values: tuple[Value, ...], named: dict[str, Value], rest: dict[str, Value]
) -> Value:
    """Call a function whose ``*args`` and ``**kwargs`` are single values: a copy takes them as plain arguments."""
    if not rest:
        return function(*values, **named)
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + len(rest)
    plain = code.replace(co_argcount=count, co_kwonlyargcount=0, co_flags=flags)
    copied = FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)
    return copied(*values, *named.values(), *rest.values())


def symbolic_trace(
    root: Module | Callable[..., Value], concrete_args: dict[str, Value] | tuple[Value, ...] | None = None
) -> GraphModule:
    """Trace a module or function to a ``GraphModule``.

    Args:
        root: the module or function. Its control flow must not depend on the values of the inputs.
        concrete_args: values for some arguments, which become constants.

    Returns:
        The module; its ``graph`` can be changed, and ``code`` is its Python code.

    Raises:
        TraceError: the program needs the value of an input.

    >>> import retrograd as rg
    >>> from retrograd.compat.modules import fx
    >>> traced = fx.symbolic_trace(lambda x, w: (x @ w).relu())
    >>> print(traced.code.strip())
    def forward(self, x, w):
        matmul = x @ w;  x = w = None
        relu = matmul.relu();  matmul = None
        return relu
    >>> traced(rg.ones(1, 2), rg.ones(2, 1))
    tensor([[2.]])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root._get_name() if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)


def reduce_graph_module(body: dict[Value, Value], import_block: str) -> Module:
    """Return the module of a pickle that PyTorch wrote: its code is run and traced again."""
    source = body.get("_code") or body["code"]
    names = compile_source(f"{import_block}\n{source}", {})
    state = {key: value for key, value in body.items() if key != "_graph"}
    module = Module()
    module.__dict__.update(state)
    holder = type("CodeOnlyModule", (Module,), {"forward": names["forward"]})()
    holder.__dict__.update(module.__dict__)

    class KeepModules(Tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    graph = KeepModules().trace(holder)
    graph._tracer_cls = body.get("_tracer_cls")
    made = GraphModule(holder, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    made.__dict__.update({key: value for key, value in state.items() if key not in made.__dict__})
    return made
