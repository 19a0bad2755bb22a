"""Recurrent layers over whole sequences, and their cells for one step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import sqrt
from typing import Any, ClassVar

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ...ops.indexing.gather import index_select
from ...ops.make.filled import zeros
from ...ops.nn.recurrent.cells import gru_cell, lstm_cell, rnn_relu_cell, rnn_tanh_cell
from ...ops.nn.recurrent.layers import gru, lstm, rnn_relu, rnn_tanh
from .. import init
from ..base.arguments import DeviceLike, DTypeLike
from ..base.module import Module
from ..parameter import Parameter, new_parameter
from ..utils.rnn import PackedSequence, lengths_of


def _refuse_projection(name: str, given: dict[str, int]) -> None:
    """Raise PyTorch's error for ``proj_size``, which only ``LSTM`` has, and for unknown arguments."""
    if "proj_size" in given:
        raise ValueError(f"{name}: proj_size argument is only supported for LSTM, not RNN or GRU")
    for argument in given:
        raise TypeError(f"{name}.__init__() got an unexpected keyword argument {argument!r}")


class RNNBase(Module):
    """The base class of RNN, LSTM and GRU.

    ``mode`` is ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``; the other arguments are those of ``LSTM``.

    Layer ``k`` has the weights ``weight_ih_lk`` ``(gates * H, features)`` and ``weight_hh_lk`` ``(gates * H, H)``,
    the biases ``bias_ih_lk`` and ``bias_hh_lk`` ``(gates * H,)``, and the same with ``_reverse`` for the backward
    direction; all initially uniform in ``±1 / sqrt(H)``.

    Raises:
        ValueError: the mode is unknown, or a size or probability is out of range.
        TypeError: a size is not an integer.
    """

    LAYERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "RNN_TANH": rnn_tanh,
        "RNN_RELU": rnn_relu,
        "GRU": gru,
        "LSTM": lstm,
    }
    # Per mode the number of gates: the weights have ``gates * H`` rows.
    GATES: ClassVar[dict[str, int]] = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if mode not in self.GATES:
            raise ValueError(f"{name}: mode must be one of {list(self.GATES)}, got {mode!r}")
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout must be a number between 0 and 1, got {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"{name}: dropout is applied between layers, so dropout={dropout} does nothing with num_layers=1",
                stacklevel=5,
            )
        for argument, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if not isinstance(value, int):
                raise TypeError(f"{name}: {argument} must be an integer, got {type(value).__name__}")
            if value <= 0 and argument != "input_size":
                raise ValueError(f"{name}: {argument} must be greater than zero, got {value}")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"{name}: proj_size must be smaller than hidden_size={hidden_size} and not negative, got {proj_size}"
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        rows = self.GATES[mode] * hidden_size
        output_size = proj_size or hidden_size
        directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            features = output_size * len(directions) if layer else input_size
            for direction in directions:
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, features), "weight_hh": (rows, output_size)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                named = {f"{kind}_l{layer}{direction}": shape for kind, shape in shapes.items()}
                for weight, shape in named.items():
                    setattr(self, weight, new_parameter(shape, device, dtype))
                self._all_weights.append(list(named))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the parameters."""
        bound = 1 / sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """A list of weights per layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:  # private in PyTorch, but programs initialize weights by these names
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def flatten_parameters(self) -> None:
        """Do nothing: the weights need not be contiguous in memory."""

    def _run_layers(self, input: Tensor, states: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the outputs and final states, without a batch dimension if the input has none."""
        name = type(self).__name__
        if isinstance(input, PackedSequence):
            return self._run_packed(input, states)
        if input.ndim not in (2, 3):
            raise ValueError(f"{name}: expected an input of 2 or 3 dimensions, got {describe(input)}")
        if input.array.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: input.size(-1) must be equal to input_size={self.input_size}, got {describe(input)}"
            )
        batched = input.ndim == 3
        x = input if batched else input.unsqueeze(1)
        batch_first = self.batch_first and batched
        if states is not None and not batched:
            states = tuple([state.unsqueeze(1) for state in states])
        states = self._checked_states(states, x, x.shape[0 if batch_first else 1])
        outputs, *finals = self._layers(x, states, batch_first)
        if batched:
            return outputs, tuple(finals)
        return outputs.squeeze(1), tuple([state.squeeze(1) for state in finals])

    def _run_packed(
        self, packed: PackedSequence, states: tuple[Tensor, ...] | None
    ) -> tuple[PackedSequence, tuple[Tensor, ...]]:
        sizes, x = lengths_of(packed.batch_sizes).tolist(), packed.data
        initial = self._checked_states(states, x, sizes[0])
        if states is not None and packed.sorted_indices is not None:
            initial = tuple([index_select(state, 1, packed.sorted_indices) for state in initial])
        data, *finals = self._layers(x, initial, False, sizes)
        if packed.unsorted_indices is not None:
            finals = [index_select(state, 1, packed.unsorted_indices) for state in finals]
        return PackedSequence(data, *packed[1:]), tuple(finals)

    def _layers(
        self, x: Tensor, states: tuple[Tensor, ...], batch_first: bool, batch_sizes: list[int] | None = None
    ) -> list[Tensor]:
        found: list[Tensor] = self.LAYERS[self.mode](
            x,
            states if len(states) > 1 else states[0],
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            batch_first,
            batch_sizes=batch_sizes,
        )
        return found

    def _checked_states(self, states: tuple[Tensor, ...] | None, x: Tensor, batch: int) -> tuple[Tensor, ...]:
        """Return the states, or zeros for None. Raise RuntimeError if they have wrong shapes."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        hidden = (layers, batch, self.proj_size or self.hidden_size)
        shapes = [hidden, (layers, batch, self.hidden_size)] if self.mode == "LSTM" else [hidden]
        if states is None:
            return tuple([zeros(shape, device=x.device, dtype=x.dtype) for shape in shapes])
        for state, shape in zip(states, shapes, strict=True):
            if state.array.shape != shape:
                name = type(self).__name__
                raise RuntimeError(f"{name}: expected a hidden state of size {shape}, got {describe(state)}")
        return states

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            if value != default:
                parts.append(f"{name}={value}")
        return ", ".join(parts)


class RNN(RNNBase):
    """``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`` for each time step, or with relu.

    Maps an input ``(T, N, input_size)`` and an initial state ``(layers, N, H)``, by default zeros, to outputs
    ``(T, N, directions * H)`` and the final state; ``layers`` counts both directions. N is optional.

    Args:
        input_size: the length of each input vector.
        hidden_size: H, the length of the hidden state.
        num_layers: the number of stacked layers.
        nonlinearity: "tanh" or "relu".
        batch_first: inputs and outputs are ``(N, T, *)`` instead of ``(T, N, *)``; states are not affected.
        dropout: the probability of dropout on the outputs of each layer except the last, in training.
        bidirectional: also process the sequence backwards, and concatenate the outputs.
        device, dtype: device and dtype of the weights.

    Raises:
        ValueError: an argument is invalid; when called, the number of dimensions is wrong.
        RuntimeError: when called, the input or the state has a wrong size.

    Source: Elman, Finding structure in time, 1990.

    >>> outputs, h = rg.nn.RNN(3, 4, num_layers=2)(rg.ones(5, 2, 3))
    >>> outputs.shape, h.shape
    ((5, 2, 4), (2, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        **only_of_lstm: int,
    ) -> None:
        _refuse_projection("RNN", only_of_lstm)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: unknown nonlinearity {nonlinearity!r}; select from 'tanh' or 'relu'")
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, states = self._run_layers(input, None if hx is None else (hx,))
        return outputs, states[0]


class GRU(RNNBase):
    """Gated recurrent units: ``h' = (1 - z) * n + z * h``; arguments and shapes as ``RNN``.

    ``r, z = sigmoid(W_i x + b_i + W_h h + b_h)``, ``n = tanh(W_in x + b_in + r * (W_hn h + b_hn))``; the rows of the
    weights belong to r, z and n, in this order.

    Source: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014.

    >>> outputs, h = rg.nn.GRU(3, 4, bidirectional=True)(rg.ones(5, 2, 3))
    >>> outputs.shape, h.shape
    ((5, 2, 8), (2, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        **only_of_lstm: int,
    ) -> None:
        _refuse_projection("GRU", only_of_lstm)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, states = self._run_layers(input, None if hx is None else (hx,))
        return outputs, states[0]


class LSTM(RNNBase):
    """Long short-term memory with a cell state ``c'`` and a hidden state ``h'``; arguments and shapes as ``RNN``.

    ``i, f, o = sigmoid(a)``, ``g = tanh(a)`` with ``a = W_ih x + b_ih + W_hh h + b_hh``, with rows for i, f, g and o;
    ``c' = f * c + i * g``, ``h' = o * tanh(c')``. With ``proj_size`` h' is multiplied by ``weight_hr``. States
    are the pair ``(h, c)``: ``(layers, N, P)``, where P is ``proj_size`` or H, and ``(layers, N, H)``.

    Source: Hochreiter and Schmidhuber, Long short-term memory, 1997; Sak, Senior and Beaufays, Long short-term memory
    recurrent neural network architectures for large scale acoustic modeling, 2014 (projection).

    >>> outputs, (h, c) = rg.nn.LSTM(3, 4, batch_first=True)(rg.ones(2, 5, 3))
    >>> outputs.shape, h.shape, c.shape
    ((2, 5, 4), (1, 2, 4), (1, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if hx is not None and len(hx) != 2:
            given = describe(hx) if isinstance(hx, Tensor) else f"{len(hx)} values"
            raise RuntimeError(f"LSTM: expected a pair of states (h, c), got {given}")
        outputs, states = self._run_layers(input, None if hx is None else tuple(hx))
        return outputs, (states[0], states[1])


class RNNCellBase(Module):
    """The base class of cells; weights and biases are initially uniform in ``±1 / sqrt(H)``.

    Args:
        input_size, hidden_size, bias, device, dtype: as for ``RNN``.
        num_chunks: the number of gates; the weights have ``num_chunks * hidden_size`` rows.
    """

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = new_parameter((rows, input_size), device, dtype)
        self.weight_hh = new_parameter((rows, hidden_size), device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter((rows,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the parameters."""
        bound = 1 / sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, cell: Callable[..., object], input: Tensor, hx: object, states: int = 1) -> Any:
        if input.ndim not in (1, 2):
            raise ValueError(f"{type(self).__name__}: expected an input of 1 or 2 dimensions, got {describe(input)}")
        if hx is None:
            state = zeros((*input.shape[:-1], self.hidden_size), device=input.device, dtype=input.dtype)
            hx = state if states == 1 else (state,) * states
        return cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")


class RNNCell(RNNCellBase):
    """One step of ``RNN``: input ``(N, input_size)`` and state ``(N, H)`` to the next state, or all without N.

    Args:
        input_size, hidden_size, bias, nonlinearity, device, dtype: as for ``RNN``.

    Raises:
        ValueError: when called, the input has neither 1 nor 2 dimensions.
        RuntimeError: when called, the nonlinearity is unknown, or the input or state has a wrong size.

    >>> rg.nn.RNNCell(3, 4)(rg.ones(2, 3)).shape
    (2, 4)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: unknown nonlinearity {self.nonlinearity!r}; use 'tanh' or 'relu'")
        return self._step(rnn_tanh_cell if self.nonlinearity == "tanh" else rnn_relu_cell, input, hx)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """One step of ``LSTM``: input ``(N, input_size)`` and states ``(h, c)``, both ``(N, H)``, to the next states.

    Arguments and errors as ``RNNCell``.

    >>> h, c = rg.nn.LSTMCell(3, 4)(rg.ones(2, 3))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._step(lstm_cell, input, hx, states=2)


class GRUCell(RNNCellBase):
    """One step of ``GRU``: input ``(N, input_size)`` and state ``(N, H)`` to the next state.

    Arguments and errors as ``RNNCell``.

    >>> rg.nn.GRUCell(3, 4)(rg.ones(2, 3)).shape
    (2, 4)
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(gru_cell, input, hx)
