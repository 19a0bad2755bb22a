"""``gradcheck`` and ``gradgradcheck``: compare gradients with central differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import array_module
from ..core.arrays.dtypes import is_differentiable
from ..core.errors import describe
from ..core.graph.modes import enable_grad, is_grad_enabled
from ..core.tensor.storage import overlaps_itself
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.linear.sparse.without_array import WithoutArray
from ..ops.make.creation import as_tensor
from .gradients import grad
from .numerical import as_real, from_real, numerical_jacobian, real_size, unit_cotangent


class GradcheckError(RuntimeError):
    """A gradient disagrees with central differences."""


def gradcheck(
    func: Callable[..., object],
    inputs: Tensor | Sequence[object],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare gradients with central differences: ``|analytic - numerical| <= atol + rtol |numerical|``.

    Args:
        func: takes the inputs, returns a Tensor or a tuple or list of Tensors.
        inputs: the arguments. Tensors that require grad are checked; they should be float64 or complex128.
        eps: the step of the differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: raise an error if a gradient is wrong; otherwise return False.
        nondet_tol: the maximum difference between two computations of the same gradient.
        check_undefined_grad: with several outputs, also check gradients when only one output is used.
        check_grad_dtypes: also check that each gradient has the dtype of its input.
        check_batched_grad: also compare ``vmap`` over cotangents with separate backward passes.
        check_batched_forward_grad: also compare ``vmap`` over tangents with separate forward passes.
        check_forward_ad: also check forward mode.
        check_backward_ad: check reverse mode.
        fast_mode: compare one random projection of each Jacobian instead of every element.
        masked: accepted for compatibility; sparse inputs are checked with respect to their values.

    Returns:
        Whether every gradient agrees.

    Raises:
        GradcheckError: a gradient is wrong; the message names the output, the input, and the elements with both
            values. Or no output requires grad, although the differences of an output are not zero.
        ValueError: no input requires grad.
        AssertionError: neither reverse nor forward mode is checked.

    >>> from retrograd.autograd.gradcheck import gradcheck
    >>> x = rg.tensor([0.5, 2.0], dtype="float64", requires_grad=True)
    >>> gradcheck(lambda x: x * x, (x,))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("gradcheck: expected at least one of check_forward_ad and check_backward_ad to be True")
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    check = _Check(*_by_values(func, arguments), eps, atol, rtol)
    try:
        if not check.differentiable():
            check.constant()
            return True
        if check_backward_ad:
            (check.projections if fast_mode else check.jacobians)()
            check.repeatable(nondet_tol)
            if check_undefined_grad:
                check.single_outputs()
            if check_grad_dtypes:
                check.gradient_dtypes()
            if check_batched_grad:
                check.batched_gradients()
        if check_batched_forward_grad:
            check.batched_tangents()
        if check_forward_ad:
            (check.forward_projections if fast_mode else check.forward_mode)()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., object],
    inputs: Tensor | Sequence[object],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    gen_non_contig_grad_outputs: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare second derivatives with central differences, with respect to the inputs and ``grad_outputs``.

    Args:
        func, inputs: as for ``gradcheck``.
        grad_outputs: a cotangent per output that requires grad, random by default; checked if it requires grad.
        eps: the step; for the other arguments, see ``gradcheck``.
        check_fwd_over_rev: also differentiate the gradient in forward mode.
        check_rev_over_rev: differentiate the gradient in reverse mode.
        gen_non_contig_grad_outputs: draw non-contiguous cotangents.
        masked: accepted for compatibility; sparse inputs are checked with respect to their values.

    Raises:
        GradcheckError: a second derivative is wrong.
        ValueError: no input requires grad, or no output depends on one.

    >>> from retrograd.autograd.gradcheck import gradgradcheck
    >>> x = rg.tensor([0.5, 2.0], dtype="float64", requires_grad=True)
    >>> gradgradcheck(lambda x: x * x * x, (x,))
    True
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    func, arguments = _by_values(func, arguments)
    outputs = _Check(func, arguments, eps, atol, rtol).outputs()
    if grad_outputs is None:
        cotangents = random_like(outputs, np.random.default_rng(0))
        if gen_non_contig_grad_outputs:
            cotangents = [_non_contiguous(g) for g in cotangents]
        cotangents = [g.detach().requires_grad_() for g in cotangents]
    else:
        cotangents = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
        if len(cotangents) != len(outputs):
            raise ValueError(
                f"gradgradcheck: {len(outputs)} outputs require grad, but {len(cotangents)} grad_outputs given"
            )
        cotangents = [g.detach().clone().requires_grad_(g.requires_grad) for g in cotangents]
    return gradcheck(
        gradient_function(func, len(arguments)),
        (*arguments, *cotangents),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def _non_contiguous(g: Tensor) -> Tensor:
    """Return a copy that occupies every second element of a larger array."""
    wide = array_module(g).zeros((*g.array.shape, 2), g.array.dtype)
    wide[..., 0] = g.array
    return new_tensor(wide[..., 0])


def gradient_function(func: Callable[..., object], count: int) -> Callable[..., tuple[Tensor, ...]]:
    """Return the gradient of ``func`` as a function of its ``count`` arguments and the outputs' cotangents."""

    def gradient(*values: Any) -> tuple[Tensor, ...]:
        recorded = is_grad_enabled()
        arguments, cotangents = values[:count], values[count:]
        with enable_grad():
            outputs = differentiable_outputs(func(*arguments))
            found = gradients(outputs, wanted_inputs(arguments), cotangents, create_graph=recorded)
        return tuple(g for g in found if g is not None)

    return gradient


def wanted_inputs(arguments: Sequence[object]) -> list[Tensor]:
    """Return the Tensors among the arguments that require grad."""
    return [x for x in arguments if isinstance(x, Tensor) and x._requires]


def _by_values(
    func: Callable[..., object], arguments: tuple[object, ...]
) -> tuple[Callable[..., object], tuple[object, ...]]:
    """Return a version of ``func`` that takes the values of sparse Tensors in their place, and its arguments."""
    sparse = {index: x for index, x in enumerate(arguments) if isinstance(x, WithoutArray) and x._requires}
    if not sparse:
        return func, arguments

    def of_values(*args: Tensor) -> object:
        return func(*[sparse[index]._with(x) if index in sparse else x for index, x in enumerate(args)])

    values = {index: x._elements.detach().requires_grad_() for index, x in sparse.items()}
    return of_values, tuple([values.get(index, x) for index, x in enumerate(arguments)])


def tensors_of(result: object) -> Iterator[Tensor]:
    """Yield the Tensors of a result, which may be nested in tuples and lists."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for item in result:
            yield from tensors_of(item)


def differentiable_outputs(result: object) -> list[Tensor]:
    """Return the Tensors of a result that require grad."""
    return [x for x in tensors_of(result) if x._requires]


def _shapes_and_dtypes(outputs: Sequence[Tensor]) -> list[object]:
    return [(y.array.shape, y.array.dtype) for y in outputs]


def random_like(outputs: Sequence[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """Return normally distributed Tensors with the shapes and dtypes of the outputs."""
    return [
        as_tensor(from_real(rng.standard_normal(real_size(x)), x.shape, x.dtype), dtype=x.dtype, device=x.device)
        for x in outputs
    ]


def gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor], *, create_graph: bool = False
) -> list[Tensor | None]:
    """Call ``autograd.grad`` with ``retain_graph`` and ``allow_unused``.

    Raises:
        GradcheckError: a gradient does not have the shape of its input.
    """
    found = grad(outputs, inputs, cotangents, retain_graph=True, create_graph=create_graph, allow_unused=True)
    for index, (g, x) in enumerate(zip(found, inputs, strict=True)):
        if g is not None and g.shape != x.shape:
            raise GradcheckError(f"the gradient of input {index}, {describe(x)}, is {describe(g)}")
    return list(found)


def analytic_jacobian(output: Tensor, inputs: Sequence[Tensor], rows: Sequence[int] | None = None) -> list[np.ndarray]:
    """Return the Jacobian of one output with respect to each input, in real coordinates, by one backward pass per row.

    ``rows`` selects real coordinates of the output, by default all.
    """
    wanted = range(real_size(output)) if rows is None else rows
    jacobians = [np.zeros((len(wanted), real_size(x))) for x in inputs]
    for row, place in enumerate(wanted):
        for jacobian, g in zip(jacobians, gradients([output], inputs, [unit_cotangent(output, place)]), strict=True):
            if g is not None:
                jacobian[row] = as_real(g.array)
    return jacobians


class _Check:
    """One function, its arguments and the tolerances."""

    def __init__(
        self, func: Callable[..., object], arguments: tuple[object, ...], eps: float, atol: float, rtol: float
    ) -> None:
        self.func = func
        self.arguments = arguments
        self.inputs = wanted_inputs(arguments)
        self.positions = [index for index, x in enumerate(arguments) if isinstance(x, Tensor) and x._requires]
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.unperturbed: list[Tensor] | None = None
        if not self.inputs:
            raise ValueError("gradcheck: at least one input must be a Tensor that requires grad")
        for position, x in zip(self.positions, self.inputs, strict=True):
            if x.array.dtype not in (np.float64, np.complex128):
                warnings.warn(
                    f"gradcheck: input {position} is {describe(x)}, whose precision is too low for differences; use "
                    "float64 or complex128, or a larger eps and tolerances",
                    stacklevel=3,
                )
            if overlaps_itself(x.array):
                raise ValueError(
                    f"gradcheck: elements of input {position} overlap in memory, as after expand(); clone() it first"
                )

    def outputs(self) -> list[Tensor]:
        with enable_grad():
            outputs = differentiable_outputs(self.func(*self.arguments))
        if not outputs:
            raise ValueError("gradcheck: no output of the function requires grad")
        self.unperturbed = outputs
        return outputs

    def differentiable(self, *_: object) -> list[Tensor]:
        """Return the outputs that require grad; the signature is that of a function for ``numerical_jacobian``."""
        with enable_grad():
            outputs = differentiable_outputs(self.func(*self.arguments))
        if self.unperturbed is None:
            self.unperturbed = outputs
        if _shapes_and_dtypes(outputs) != _shapes_and_dtypes(self.unperturbed):
            raise AssertionError(
                "gradcheck: the function must return outputs with the same shape and dtype when inputs are perturbed, "
                f"got {describe(outputs)} instead of {describe(self.unperturbed)}"
            )
        return outputs

    def constant(self) -> None:
        """Check that a function without differentiable outputs has zero differences."""

        def floating(*_: object) -> list[Tensor]:
            return [y for y in tensors_of(self.func(*self.arguments)) if is_differentiable(y.array.dtype)]

        for index, of_output in enumerate(numerical_jacobian(floating, self.inputs, self.eps)):
            for position, n in zip(self.positions, of_output, strict=True):
                if (np.abs(n) > self.atol).any():
                    raise GradcheckError(
                        f"gradcheck: numerical gradient of output {index} for input {position} expected to be zero, "
                        f"since no output requires grad, but it is up to {np.abs(n).max():.3g}"
                    )

    def jacobians(self) -> None:
        outputs = self.outputs()
        numerical = numerical_jacobian(self.differentiable, self.inputs, self.eps)
        for index, output in enumerate(outputs):
            for position, x, a, n in zip(
                self.positions, self.inputs, analytic_jacobian(output, self.inputs), numerical[index], strict=True
            ):
                if n.size:
                    self.compare(f"output {index}", output, position, x, a, n)

    def projections(self) -> None:
        """Compare ``v^T J u`` for random u and v."""
        rng = np.random.default_rng(0)
        outputs = self.outputs()
        cotangents = random_like(outputs, rng)
        found = gradients(outputs, self.inputs, cotangents)
        for position, x, g in zip(self.positions, self.inputs, found, strict=True):
            direction = rng.standard_normal(real_size(x))
            n = self.along(x, direction, cotangents)
            a = 0.0 if g is None else float(as_real(g.array) @ direction)
            if not np.isclose(a, n, rtol=self.rtol, atol=self.atol * max(1.0, float(np.abs(direction).sum()))):
                raise GradcheckError(
                    f"gradcheck (fast mode): the gradient of input {position}, {describe(x)}, is wrong along a random "
                    f"direction: analytic {a:.10g}, numerical {n:.10g}; fast_mode=False names the elements"
                )

    def along(self, x: Tensor, direction: np.ndarray, cotangents: Sequence[Tensor]) -> float:
        """Return the derivative of ``<cotangents, f>`` along a direction of one input, by a central difference."""
        before = x.array.copy()
        step = self.eps * from_real(direction, x.array.shape, x.array.dtype)
        step = as_tensor(step, dtype=step.dtype, device=x.device).array
        values = []
        for sign in (1, -1):
            try:
                x.array[...] = before + sign * step
                values.append(
                    sum(
                        float(as_real(y.array) @ as_real(v.array))
                        for y, v in zip(self.differentiable(), cotangents, strict=True)
                    )
                )
            finally:
                x.array[...] = before
        return (values[0] - values[1]) / (2 * self.eps)

    def compare(self, what: str, output: Tensor, position: int, x: Tensor, a: Array, n: Array) -> None:
        wrong = ~np.isclose(a, n, rtol=self.rtol, atol=self.atol, equal_nan=True)
        if wrong.any():
            raise GradcheckError(
                f"gradcheck: wrong gradient of {what}, {describe(output)}, for input {position}, {describe(x)}:\n"
                + report(a, n, wrong, output, x)
            )

    def repeatable(self, tolerance: float) -> None:
        outputs = self.outputs()
        cotangents = random_like(outputs, np.random.default_rng(1))
        first = gradients(outputs, self.inputs, cotangents)
        second = gradients(outputs, self.inputs, cotangents)
        for position, a, b in zip(self.positions, first, second, strict=True):
            if a is not None and b is not None:
                difference = np.abs(as_real(a.array) - as_real(b.array)).max(initial=0.0)
                if difference > tolerance:
                    raise GradcheckError(
                        f"gradcheck: the gradients of input {position} in two backward passes differ by "
                        f"{difference:.3g}, more than nondet_tol={tolerance:.3g}"
                    )

    def single_outputs(self) -> None:
        """Check that gradients of one output equal gradients of all outputs with zero cotangents for the others."""
        outputs = self.outputs()
        if len(outputs) == 1:
            return
        rng = np.random.default_rng(2)
        for index, output in enumerate(outputs):
            (cotangent,) = random_like([output], rng)
            zeros = [new_tensor(y.array * 0) for y in outputs]
            alone = gradients([output], self.inputs, [cotangent])
            together = gradients(outputs, self.inputs, [*zeros[:index], cotangent, *zeros[index + 1 :]])
            for position, x, a, b in zip(self.positions, self.inputs, alone, together, strict=True):
                one = np.zeros(real_size(x)) if a is None else as_real(a.array)
                all_ = np.zeros(real_size(x)) if b is None else as_real(b.array)
                if not np.allclose(one, all_, rtol=self.rtol, atol=self.atol, equal_nan=True):
                    raise GradcheckError(
                        f"gradcheck: the gradient of output {index} for input {position} differs between a backward "
                        "pass from this output and one from all outputs with zero cotangents for the other outputs"
                    )

    def batched_gradients(self) -> None:
        """Check that ``vmap`` over cotangents agrees with separate backward passes."""
        rng = np.random.default_rng(3)
        for index, output in enumerate(self.outputs()):
            cotangents = [random_like([output], rng)[0] for _ in range(2)]
            apart = [gradients([output], self.inputs, [cotangent]) for cotangent in cotangents]
            stacked = new_tensor(np.stack([cotangent.numpy() for cotangent in cotangents])).to(output.device)
            together = grad(output, self.inputs, stacked, retain_graph=True, allow_unused=True, is_grads_batched=True)
            self._compare_batched(f"gradient of output {index} by input", apart, together)

    def outputs_at(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs that require grad, with ``values`` for the checked inputs."""
        arguments = list(self.arguments)
        for position, value in zip(self.positions, values, strict=True):
            arguments[position] = value
        return tuple(differentiable_outputs(self.func(*arguments)))

    def forward_projections(self) -> None:
        """Compare ``v^T J u`` of forward mode for random u and v."""
        from ..func.forward import jvp  # forward mode is loaded at first use

        rng = np.random.default_rng(5)
        cotangents = random_like(self.outputs(), rng)
        for index, (position, x) in enumerate(zip(self.positions, self.inputs, strict=True)):
            direction = rng.standard_normal(real_size(x))
            n = self.along(x, direction, cotangents)
            tangents = [new_tensor(y.array * 0) for y in self.inputs]
            step = np.asarray(from_real(direction, x.array.shape, x.array.dtype))
            tangents[index] = Tensor(step, dtype=step.dtype, device=x.device)
            moved = jvp(self.outputs_at, [y.detach() for y in self.inputs], tangents)[1]
            a = sum(float(as_real(t.array) @ as_real(v.array)) for t, v in zip(moved, cotangents, strict=True))
            if not np.isclose(a, n, rtol=self.rtol, atol=self.atol * max(1.0, float(np.abs(direction).sum()))):
                raise GradcheckError(
                    f"gradcheck (fast mode): forward mode is wrong along a random direction of input {position}, "
                    f"{describe(x)}: analytic {a:.10g}, numerical {n:.10g}; fast_mode=False names the elements"
                )

    def batched_tangents(self) -> None:
        """Check that ``vmap`` over tangents agrees with separate forward passes."""
        from ..func import jvp, vmap

        def moved(*tangents: Tensor) -> tuple[Tensor, ...]:
            return jvp(self.outputs_at, [x.detach() for x in self.inputs], tangents)[1]

        rng = np.random.default_rng(4)
        tangents = [random_like([x.detach() for x in self.inputs], rng) for _ in range(2)]
        stacked = [new_tensor(np.stack([t.numpy() for t in pair])) for pair in zip(*tangents, strict=True)]
        together = vmap(moved)(*stacked)
        self._compare_batched("tangent of output", [moved(*each) for each in tangents], together)

    def _compare_batched(self, what: str, apart: Sequence[Sequence[Any]], together: Sequence[Any]) -> None:
        for place, batched in enumerate(together):
            for example, alone in enumerate(apart):
                one, all_ = alone[place], None if batched is None else batched[example]
                if one is None and all_ is None:
                    continue
                if (
                    one is None
                    or all_ is None
                    or not np.allclose(
                        one.numpy(force=True), all_.numpy(force=True), rtol=self.rtol, atol=self.atol, equal_nan=True
                    )
                ):
                    raise GradcheckError(f"gradcheck: the {what} {place} differs inside vmap from the one outside")

    def gradient_dtypes(self) -> None:
        outputs = self.outputs()
        found = gradients(outputs, self.inputs, random_like(outputs, np.random.default_rng(3)))
        for position, x, g in zip(self.positions, self.inputs, found, strict=True):
            if g is not None and g.dtype != x.dtype:
                raise GradcheckError(
                    f"gradcheck: expected the gradient of input {position} to have the input's dtype {x.dtype}, "
                    f"got {describe(g)}"
                )

    def forward_mode(self) -> None:
        from ..func.forward import jvp  # forward mode is loaded at first use

        numerical = numerical_jacobian(self.differentiable, self.inputs, self.eps)
        for index, x in enumerate(self.inputs):
            for column in range(real_size(x)):
                tangents = [new_tensor(y.array * 0) for y in self.inputs]
                tangents[index] = unit_cotangent(x, column)
                outputs, moved = jvp(self.outputs_at, [y.detach() for y in self.inputs], tangents)
                for output, (y, t) in enumerate(zip(outputs, moved, strict=True)):
                    n = numerical[output][index][:, column : column + 1]
                    a = as_real(t.array)[:, None]
                    wrong = ~np.isclose(a, n, rtol=self.rtol, atol=self.atol, equal_nan=True)
                    if wrong.any():
                        raise GradcheckError(
                            f"gradcheck: forward mode is wrong for output {output}, {describe(y)}, along input "
                            f"{self.positions[index]}, {describe(x)}:\n" + report(a, n, wrong, y, x, [column])
                        )


def report(
    analytic: np.ndarray,
    numerical: np.ndarray,
    wrong: np.ndarray,
    output: Tensor,
    x: Tensor,
    columns: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    shown: int = 5,
) -> str:
    """Return lines of text with the wrong elements of a Jacobian, worst first.

    ``rows`` and ``columns`` are the real coordinates of the matrices' rows and columns, by default all.
    """
    difference = np.where(wrong, np.abs(analytic - numerical), -1.0)
    difference[wrong & np.isnan(difference)] = np.inf
    order = np.argsort(-difference, axis=None, kind="stable")[: min(shown, int(wrong.sum()))]
    lines = []
    for row, column in zip(*np.unravel_index(order, wrong.shape), strict=True):
        to = element(output, int(row if rows is None else rows[row]))
        of = element(x, int(column if columns is None else columns[column]))
        a, n = analytic[row, column], numerical[row, column]
        lines.append(
            f"  d output{to} / d input{of}: analytic {a:.10g}, numerical {n:.10g}, difference {abs(a - n):.3g}"
        )
    left = int(wrong.sum()) - len(lines)
    return "\n".join(lines) + (f"\n  and {left} more of {wrong.size}" if left else "")


def element(x: Tensor, place: int) -> str:
    """Return the index of a real coordinate as Python code: ``[1, 2]``, ``[0].imag``; empty for a 0-d Tensor."""
    complex_parts = x.array.dtype.kind == "c"
    position = np.unravel_index(place // 2 if complex_parts else place, x.array.shape)
    text = "[" + ", ".join(str(int(i)) for i in position) + "]" if position else ""
    return text + ((".imag" if place % 2 else ".real") if complex_parts else "")
