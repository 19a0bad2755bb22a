"""The engine: Tensors, primitives, the graph and its backward walk. It knows no operator."""
