"""A cache of the keys and values of earlier tokens, so that each new token needs only one row of attention."""

from __future__ import annotations

from ..core.arrays import Array
from ..core.arrays.devices import array_module
from ..core.graph.modes import modes, watchers
from ..core.tensor.tensor import Tensor, new_tensor
from ..nn import functional as F
from ..ops.make.ranges import arange
from ..ops.shape.joining import cat


class KeyValueCache:
    """The keys and values of every layer, ``(N, heads, T, channels)`` each, for the tokens so far.

    A model that is called with a cache takes only the next tokens, and appends their keys and values.

    >>> from retrograd.models import GPT2, KeyValueCache
    >>> model, cache = GPT2(vocabulary=5, context=8, layers=1, heads=1, channels=4).eval(), KeyValueCache()
    >>> tokens = rg.tensor([[1, 4, 2]])
    >>> _, last = model(tokens[:, :2], cache), model(tokens[:, 2:], cache)
    >>> cache.length, rg.allclose(last, model(tokens)[:, 2:], atol=1e-6)
    (3, True)
    """

    def __init__(self) -> None:
        self._layers: list[tuple[Tensor, Tensor]] = []
        self._memory: list[
            tuple[Array, Array]
        ] = []  # buffers with room for more tokens; keys and values are views of them

    @property
    def length(self) -> int:
        """The number of cached tokens."""
        return self._layers[0][0].shape[2] if self._layers else 0

    def extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values to a layer, and return all keys and values of the layer."""
        if layer == len(self._layers):
            self._layers.append((key, value))
            self._memory.append((key.array, value.array))
            return key, value
        keys, values = self._layers[layer]
        if watchers or modes.grad_enabled and any(x.requires_grad for x in (keys, values, key, value)):
            keys, values = cat([keys, key], 2), cat([values, value], 2)
            self._memory[layer] = keys.array, values.array
        else:
            memory = self._memory[layer]
            self._memory[layer] = _extended(memory[0], keys, key), _extended(memory[1], values, value)
            length = keys.shape[2] + key.shape[2]
            keys, values = [new_tensor(array[:, :, :length]) for array in self._memory[layer]]
        self._layers[layer] = keys, values
        return keys, values


def _extended(memory: Array, known: Tensor, new: Tensor) -> Array:
    """Append ``new`` to the known part of the buffer ``memory``; return the buffer, or a larger one if it is full."""
    batch, heads, start, channels = known.shape
    stop = start + new.shape[2]
    if memory.shape[2] < stop:
        memory = array_module(memory).empty((batch, heads, max(stop, 2 * start), channels), memory.dtype)
        memory[:, :, :start] = known.array
    memory[:, :, start:stop] = new.array
    return memory


def causal_attention(
    query: Tensor, key: Tensor, value: Tensor, layer: int, cache: KeyValueCache | None, dropout: float = 0.0
) -> Tensor:
    """Return attention of each token to itself and earlier tokens, cached tokens included; extend the cache.

    Shape: query ``(N, H, T, C)``, key and value ``(N, K, T, C)`` with K dividing H, to ``(N, H, T, C)``.
    """
    grouped = key.shape[1] != query.shape[1]
    if cache is not None:
        key, value = cache.extend(layer, key, value)
    new, known = query.shape[2], key.shape[2]
    mask = None
    if 1 < new < known:
        places = arange(known, device=query.device)
        mask = places <= arange(known - new, known, device=query.device).unsqueeze(1)
    return F.scaled_dot_product_attention(
        query, key, value, mask, dropout_p=dropout, is_causal=new == known, enable_gqa=grouped
    )


def check_positions(model: str, length: int, context: int) -> None:
    """Raise ValueError if there are more tokens than positions."""
    if length > context:
        raise ValueError(f"{model}: {length} positions do not fit in a context of {context}")
