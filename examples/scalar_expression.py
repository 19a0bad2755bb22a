"""The value and the gradients of f = x * y + z at (2, -3, 10)."""

from __future__ import annotations

import argparse

from retrograd.scalar import Value


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=float, default=[2.0, -3.0, 10.0], metavar="X Y Z")
    numbers = parser.parse_args(arguments).numbers
    if len(numbers) != 3:
        parser.error(f"three numbers are needed, got {len(numbers)}")
    x, y, z = (Value(number) for number in numbers)
    f = x * y + z
    f.backward()
    print(f"f = x * y + z = {f.data:g}")
    print(f"df/dx = y = {x.grad:g}")
    print(f"df/dy = x = {y.grad:g}")
    print(f"df/dz = 1 = {z.grad:g}")


if __name__ == "__main__":
    main()
