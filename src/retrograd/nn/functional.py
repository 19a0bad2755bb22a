"""The operators of neural networks as functions, under PyTorch's names."""


def __getattr__(name: str):
    from ..ops.registry import OPERATORS

    for key in (f"nn.functional.{name}", name):
        if key in OPERATORS:
            return OPERATORS[key].function
    raise AttributeError(f"module 'retrograd.nn.functional' has no attribute {name!r}")
