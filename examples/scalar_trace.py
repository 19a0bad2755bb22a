"""L = ((a * b) + c) * (a + d) at (2, 3, 4, 5), step by step: the forward pass, then the chain rule from L backward."""

from __future__ import annotations

import argparse

from retrograd.scalar import Value, draw_graph, trace_graph


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--svg", help="draw the graph into this file")
    options = parser.parse_args(arguments)

    a, b, c, d = (Value(number, label=name) for name, number in zip("abcd", (2.0, 3.0, 4.0, 5.0), strict=True))
    product = a * b
    left = product + c
    right = a + d
    result = left * right
    for node, name in zip((product, left, right, result), ("product", "left", "right", "L"), strict=True):
        node.label = name

    print("Forward, operands first:")
    print(f"  product = a * b        = {product.data:g}")
    print(f"  left    = product + c  = {left.data:g}")
    print(f"  right   = a + d        = {right.data:g}")
    print(f"  L       = left * right = {result.data:g}")

    result.backward()
    print("\nBackward, results first, each line the slope of an operator times the gradient above it:")
    print(f"  dL/dleft    = right              = {left.grad:g}")
    print(f"  dL/dright   = left               = {right.grad:g}")
    print(f"  dL/dproduct = dL/dleft           = {product.grad:g}")
    print(f"  dL/dc       = dL/dleft           = {c.grad:g}")
    print(f"  dL/dd       = dL/dright          = {d.grad:g}")
    print(f"  dL/db       = a * dL/dproduct    = {b.grad:g}")
    print(f"  dL/da       = b * dL/dproduct + dL/dright = {a.grad:g}  (a is used twice, so its gradients add up)")

    print("\nThe same as a tree:")
    print(trace_graph(result))
    if options.svg:
        draw_graph(result).save(options.svg)
        print(f"\nThe graph is drawn in {options.svg}")


if __name__ == "__main__":
    main()
