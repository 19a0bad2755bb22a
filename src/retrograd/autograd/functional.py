"""Jacobians, Hessians, and their products with vectors, under the names of ``torch.autograd.functional``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.arrays.dtypes import is_differentiable
from ..core.errors import describe
from ..core.graph.modes import differentiating, enable_grad
from ..core.missing_names import legacy_names
from ..core.tensor.tensor import Tensor
from ..func.jacobians import jacfwd, jacrev
from ..ops.make.filled import ones_like, zeros, zeros_like
from ..ops.numpy.bare_arrays import explained
from ..ops.shape.joining import stack
from .gradients import grad

Tensors = Tensor | tuple[Tensor, ...]


def _tuple_of_tensors(caller: str, argument: str, value: object) -> tuple[Tensor, ...]:
    values = (value,) if isinstance(value, Tensor) else value
    if not isinstance(values, (tuple, list)) or not all(isinstance(x, Tensor) for x in values):
        raise TypeError(
            f"{caller}: The {argument} given to {caller} must be either a Tensor or a tuple of Tensors, "
            f"got {type(value).__name__}"
        )
    return tuple(values)


def _points(caller: str, inputs: object, create_graph: bool) -> tuple[Tensor, ...]:
    """Return the inputs as Tensors to differentiate with respect to: views with ``create_graph``, else new leaves."""
    points = _tuple_of_tensors(caller, "inputs", inputs)
    for x in points:
        if not is_differentiable(x.dtype):
            raise RuntimeError(f"{caller}: only floating and complex Tensors have gradients, got {describe(x)}")
    if create_graph:
        return tuple(x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in points)
    return tuple(x.detach().requires_grad_() for x in points)


def _call_function(
    caller: str, func: Callable[..., object], points: tuple[Tensor, ...]
) -> tuple[Any, tuple[Tensor, ...]]:
    try:
        with differentiating(caller):
            outputs = func(*points)
    except (ValueError, TypeError, SystemError) as error:
        raise explained(error)  # noqa: B904  it is the error itself, or what caused it
    return outputs, _tuple_of_tensors(caller, "outputs of the user-provided function", outputs)


def _check_strict(caller: str, outputs: Sequence[Tensor], strict: bool) -> None:
    for index, y in enumerate(outputs):
        if strict and not y.requires_grad:
            raise RuntimeError(
                f"{caller}: Output {index} of the user-provided function does not require gradients. The outputs must "
                "be computed in a differentiable manner from the input when running in strict mode."
            )


def _gradients(
    caller: str,
    outputs: Sequence[Tensor],
    inputs: tuple[Tensor, ...],
    cotangents: Sequence[Tensor | None],
    create_graph: bool,
    strict: bool,
    retain: bool = True,
    second: bool = False,
) -> tuple[Tensor, ...]:
    """Return the gradients of the outputs with respect to the inputs; zeros for unused inputs, unless ``strict``.

    With ``strict``, an unused input is an error. With ``create_graph`` as well, a first derivative that does not depend
    on an input is also an error; a ``second`` derivative may be constant.
    """
    pairs = [(y, v) for y, v in zip(outputs, cotangents, strict=True) if y.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if pairs:
        ys, vs = zip(*pairs, strict=True)
        found = grad(ys, inputs, vs, retain_graph=retain, create_graph=create_graph, allow_unused=True)
    for index, g in enumerate(found):
        if strict and g is None:
            raise RuntimeError(
                f"{caller}: The output of the user-provided function is independent of input {index}. This is not "
                "allowed in strict mode."
            )
        if strict and create_graph and not second and g is not None and not g.requires_grad:
            raise RuntimeError(
                f"{caller}: The jacobian of the user-provided function is independent of input {index}. This is not "
                "allowed in strict mode when create_graph=True."
            )
    return tuple(zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True))


def _vectors(caller: str, v: object, like: Sequence[Tensor], what: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{caller}: The vector v can only be None if {what} a single Tensor of one element")
        return (ones_like(like[0]),)
    vectors = _tuple_of_tensors(caller, "v", v)
    if len(vectors) != len(like):
        if len(like) == 1:
            raise RuntimeError(f"{caller}: The given v should contain a single Tensor, got {len(vectors)}")
        raise RuntimeError(f"{caller}: v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for vector, x in zip(vectors, like, strict=True):
        if vector.shape != x.shape:
            raise RuntimeError(
                f"{caller}: v has invalid size: should be torch.Size({list(x.shape)}) but got {describe(vector)}"
            )
    return vectors


def _result(values: tuple[Tensor, ...], like: object, create_graph: bool) -> Any:
    values = values if create_graph else tuple(value.detach() for value in values)
    return values if isinstance(like, (tuple, list)) else values[0]


def vjp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """Return the value of ``func`` and the vector-Jacobian product of ``v``.

    Args:
        func: takes Tensors, returns a Tensor or a tuple of Tensors.
        inputs: its arguments: a Tensor or a tuple of Tensors.
        v: Tensors like the outputs; None for one output with one element.
        create_graph: make the product differentiable.
        strict: raise an error for outputs that depend on no input, and for inputs that no output depends on.

    >>> import retrograd as rg
    >>> value, product = rg.autograd.functional.vjp(lambda x: x**2, rg.tensor([1.0, 2.0]), rg.tensor([1.0, 10.0]))
    >>> product
    tensor([ 2., 40.])
    """
    with enable_grad():
        points = _points("vjp", inputs, create_graph)
        outputs, listed = _call_function("vjp", func, points)
        _check_strict("vjp", listed, strict)
        vectors = _vectors("vjp", v, listed, "the user-provided function returns")
        product = _gradients("vjp", listed, points, vectors, create_graph, strict)
    return _result(listed, outputs, create_graph), _result(product, inputs, create_graph)


def jvp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """Return the value of ``func`` and the Jacobian-vector product of ``v``; arguments as for ``vjp``.

    >>> import retrograd as rg
    >>> rg.autograd.functional.jvp(lambda x: x**2, rg.tensor([1.0, 2.0]), rg.tensor([1.0, 10.0]))[1]
    tensor([ 2., 40.])
    """
    with enable_grad():
        points = _points("jvp", inputs, create_graph)
        vectors = _vectors("jvp", v, points, "the input to the user-provided function is")
        outputs, listed = _call_function("jvp", func, points)
        _check_strict("jvp", listed, strict)
        dummies = tuple(zeros_like(y).requires_grad_() for y in listed)
        products = _gradients("jvp", listed, points, dummies, True, strict)
        result = _gradients("jvp", products, dummies, vectors, create_graph, strict)
    return _result(listed, outputs, create_graph), _result(result, outputs, create_graph)


def jacobian(
    func: Callable[..., Tensors],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian, ``(*output.shape, *input.shape)``; nested tuples for tuples of outputs and inputs.

    Args:
        func, inputs, strict: as for ``vjp``.
        create_graph: make the Jacobian differentiable.
        vectorize: compute all rows together, as ``func.jacrev`` does.
        strategy: ``"reverse-mode"``, or with ``vectorize`` ``"forward-mode"``, as ``func.jacfwd`` does.

    Raises:
        RuntimeError: an independent input or output with ``strict``; ``strict`` with ``vectorize``.
        NotImplementedError: forward mode without ``vectorize``.
        ValueError: ``strategy`` is unknown.

    >>> import retrograd as rg
    >>> rg.autograd.functional.jacobian(lambda x: x**2, rg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_strategy("jacobian", "strategy", strategy, strict, vectorize)
    if vectorize:
        return _vectorized(func, inputs, create_graph, jacrev if strategy == "reverse-mode" else jacfwd)
    with enable_grad():
        points = _points("jacobian", inputs, create_graph)
        outputs, listed = _call_function("jacobian", func, points)
        _check_strict("jacobian", listed, strict)
        blocks = []
        for y in listed:
            flat = y.reshape(-1)
            rows = [
                _gradients("jacobian", [flat[index]], points, [None], create_graph, strict)
                for index in range(flat.numel())
            ]
            blocks.append(
                tuple(
                    stack([row[place] for row in rows]).reshape((*y.shape, *x.shape))
                    if rows
                    else zeros(*y.shape, *x.shape, dtype=x.dtype)
                    for place, x in enumerate(points)
                )
            )
    return _result(tuple(_result(block, inputs, create_graph) for block in blocks), outputs, True)


def _check_strategy(caller: str, argument: str, strategy: str, strict: bool, vectorize: bool) -> None:
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"{caller}: {argument} must be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    if strict and (vectorize or strategy == "forward-mode"):
        raise RuntimeError(f"{caller}: strict=True and vectorize=True (or forward mode) are not supported together")
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(f"{caller}: {argument}='forward-mode' needs vectorize=True")


def _vectorized(func: Callable[..., object], inputs: object, create_graph: bool, transform: Callable[..., Any]) -> Any:
    with enable_grad():
        points = _points("jacobian", inputs, create_graph)
        several = []

        def function(*points: Tensor) -> tuple[Tensor, ...]:
            outputs, listed = _call_function("jacobian", func, points)
            several.append(outputs)
            return listed

        blocks = transform(function, tuple(range(len(points))))(*points)
    results = tuple(_result(block, inputs, create_graph) for block in blocks)
    return _result(results, several[0], True)


def _one_number(caller: str, func: Callable[..., object], points: tuple[Tensor, ...]) -> Tensor:
    value = func(*points)
    _tuple_of_tensors(caller, "outputs of the user-provided function", value)
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = describe(value) if isinstance(value, Tensor) else type(value).__name__
        raise RuntimeError(f"{caller}: the function should return a single Tensor of one element, got {got}")
    return value.reshape(())


def hessian(
    func: Callable[..., Tensor],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tensor:
    """Return the Hessian of a scalar function; arguments as for ``jacobian``.

    Args:
        outer_jacobian_strategy: the ``strategy`` for the Jacobian of the gradient.

    >>> import retrograd as rg
    >>> rg.autograd.functional.hessian(lambda x: (x**3).sum(), rg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    _check_strategy("hessian", "outer_jacobian_strategy", outer_jacobian_strategy, strict, vectorize)

    def gradient(*points: Tensor) -> Tensor | tuple[Tensor, ...]:
        points = tuple(x if x.requires_grad else x.requires_grad_() for x in points)
        value = _one_number("hessian", func, points)
        _check_strict("hessian", [value], strict)
        found = _gradients("hessian", [value], points, [None], True, strict)
        return found if isinstance(inputs, (tuple, list)) else found[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(
    func: Callable[..., Tensor],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensors]:
    """Return the value of ``func`` and the vector-Hessian product of ``v``; arguments as for ``vjp``.

    >>> import retrograd as rg
    >>> rg.autograd.functional.vhp(lambda x: (x**3).sum(), rg.tensor([1.0, 2.0]), rg.ones(2))[1]
    tensor([ 6., 12.])
    """
    with enable_grad():
        points = _points("vhp", inputs, create_graph)
        vectors = _vectors("vhp", v, points, "the input to the user-provided function is")
        value = _one_number("vhp", func, points)
        _check_strict("vhp", [value], strict)
        first = _gradients("vhp", [value], points, [None], True, strict)
        product = _gradients("vhp", first, points, vectors, create_graph, strict, second=True)
    return _result((value,), value, create_graph), _result(product, inputs, create_graph)


def hvp(
    func: Callable[..., Tensor],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensors]:
    """Return the value of ``func`` and the Hessian-vector product of ``v``; arguments as for ``vjp``.

    The product equals that of ``vhp`` if the second derivatives are continuous.

    >>> import retrograd as rg
    >>> rg.autograd.functional.hvp(lambda x: (x**3).sum(), rg.tensor([1.0, 2.0]), rg.ones(2))[1]
    tensor([ 6., 12.])
    """
    with enable_grad():
        points = _points("hvp", inputs, create_graph)
        vectors = _vectors("hvp", v, points, "the input to the user-provided function is")
        value = _one_number("hvp", func, points)
        _check_strict("hvp", [value], strict)
        first = _gradients("hvp", [value], points, [None], True, strict)
        dummies = tuple(zeros_like(x).requires_grad_() for x in points)
        directed = _gradients("hvp", first, points, dummies, True, strict, second=True)
        product = _gradients("hvp", directed, dummies, vectors, create_graph, False)
    return _result((value,), value, create_graph), _result(product, inputs, create_graph)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)  # private names of PyTorch
