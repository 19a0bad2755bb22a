"""The engine: Tensors, primitives, the computational graph and the backward pass. It imports no operators."""
