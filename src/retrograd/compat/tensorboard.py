"""``utils.tensorboard``: the writer of tensorboardX (extra ``tensorboard``), which takes Tensors as they are."""

from __future__ import annotations

from typing import Any


def _plain(value: Any) -> Any:
    from ..core.tensor.tensor import Tensor

    if isinstance(value, Tensor):
        return value.numpy(force=True)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(item) for item in value)
    return value


def _writer() -> type:
    try:
        from tensorboardX import SummaryWriter as Base
    except ImportError:
        raise ImportError("utils.tensorboard: install retrograd[tensorboard] (tensorboardX)") from None

    def taking_tensors(name: str) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(Base, name)(self, *map(_plain, args), **{key: _plain(v) for key, v in kwargs.items()})

        method.__name__, method.__doc__ = name, getattr(Base, name).__doc__
        return method

    def add_graph(self: Any, model: Any, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("SummaryWriter.add_graph: a graph of PyTorch's compiler is not had here")

    adding = [name for name in dir(Base) if name.startswith("add_") and name != "add_graph"]
    return type("SummaryWriter", (Base,), {**{name: taking_tensors(name) for name in adding}, "add_graph": add_graph})


SummaryWriter: Any = _writer()
