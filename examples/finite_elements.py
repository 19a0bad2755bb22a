"""Find the conductivity of a plate from temperatures: finite elements, a sparse system, and the gradient through both.

python examples/finite_elements.py                          100,489 unknowns
python examples/finite_elements.py --side 40 --steps 5      a quick look

-div(exp(m) grad u) = 1 on the unit square, u = 0 on its boundary. m is one number per triangle, and the misfit to
observed u is differentiated with respect to all of them.
"""

import argparse
import resource
import time

import numpy as np

import retrograd as rg
from retrograd.scipy.sparse import csr_array
from retrograd.scipy.sparse.linalg import cg, spsolve


class Mesh:
    """Triangles of a grid of side x side nodes, and where each entry of an element matrix goes."""

    def __init__(self, side: int) -> None:
        grid = np.arange(side * side).reshape(side, side)
        a, b, c, d = (x.reshape(-1) for x in (grid[:-1, :-1], grid[:-1, 1:], grid[1:, :-1], grid[1:, 1:]))
        self.triangles = np.concatenate([np.stack([a, b, d], 1), np.stack([a, d, c], 1)])
        self.points = np.stack(np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side)), -1).reshape(-1, 2)
        p = self.points[self.triangles]
        # Gradients of the three hat functions on each triangle, and the triangle's area.
        edges = np.roll(p, -1, axis=1) - np.roll(p, 1, axis=1)
        area = (edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]) / 2
        slopes = np.stack([-edges[..., 1], edges[..., 0]], -1) / (2 * area[:, None, None])
        stiffness = area[:, None, None] * (slopes @ slopes.transpose(0, 2, 1))
        # Number the nodes inside; the others have u = 0 and no row.
        inside = np.full((side, side), False)
        inside[1:-1, 1:-1] = True
        number = np.where(inside.reshape(-1), np.cumsum(inside.reshape(-1)) - 1, -1)
        corners = number[self.triangles]
        rows, columns = np.broadcast_arrays(corners[:, :, None], corners[:, None, :])
        self.size = int(inside.sum())
        kept = (rows >= 0) & (columns >= 0)
        keys, slots = np.unique(rows[kept] * self.size + columns[kept], return_inverse=True)
        self.columns = (keys % self.size).astype(np.int32)
        self.starts = np.searchsorted(keys // self.size, np.arange(self.size + 1)).astype(np.int32)
        self.slots = rg.tensor(slots.reshape(-1))
        self.element = rg.tensor(np.broadcast_to(np.arange(len(area))[:, None, None], rows.shape)[kept])
        self.entries = rg.tensor(stiffness[kept])
        loads = np.bincount(corners.reshape(-1) + 1, np.repeat(area / 3, 3), self.size + 1)[1:]
        self.loads = rg.tensor(loads)

    def matrix(self, m: rg.Tensor) -> csr_array:
        """Add the element matrices, each times exp(m), up to the stiffness matrix."""
        values = self.entries * rg.exp(m)[self.element]
        data = rg.zeros(len(self.columns), dtype=rg.float64).index_add(0, self.slots, values)
        return csr_array((data, self.columns, self.starts), shape=(self.size, self.size))

    def solution(self, m: rg.Tensor, method: str) -> rg.Tensor:
        matrix = self.matrix(m)
        if method == "spsolve":
            return spsolve(matrix, self.loads, permc_spec="MMD_AT_PLUS_A")
        return cg(matrix, self.loads, rtol=1e-10)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=319, help="nodes along each side, the boundary included")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--method", choices=["spsolve", "cg"], default="spsolve")
    arguments = parser.parse_args()

    start = time.perf_counter()
    mesh = Mesh(arguments.side)
    center = mesh.points[mesh.triangles].mean(1)
    true = rg.tensor(1.0 * (np.hypot(*(center - [0.35, 0.6]).T) < 0.2))
    observed = mesh.solution(true, arguments.method)
    print(f"{mesh.size} unknowns, {len(true)} triangles, mesh and data in {time.perf_counter() - start:.2f} s")

    def misfit(m: rg.Tensor) -> rg.Tensor:
        return ((mesh.solution(m, arguments.method) - observed) ** 2).sum() / (observed**2).sum()

    m = rg.zeros(len(true), dtype=rg.float64, requires_grad=True)
    for name in ("misfit", "misfit and gradient"):
        start = time.perf_counter()
        value = misfit(m) if name != "misfit" else misfit(m.detach())
        if name != "misfit":
            value.backward()
        print(f"{name} in {time.perf_counter() - start:.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"largest memory of the process {peak:.0f} MB")

    direction, step = rg.tensor(np.sin(7 * center[:, 0]) * np.cos(5 * center[:, 1])), 1e-4
    slope = (misfit(m.detach() + step * direction) - misfit(m.detach() - step * direction)) / (2 * step)
    exact = (m.grad * direction).sum()
    print(f"slope by the gradient {exact.item():.10f}, by differences {slope.item():.10f}")

    with rg.no_grad():  # descent along the gradient, of the length that Barzilai and Borwein chose
        length = 0.2 / m.grad.abs().max()
    for _ in range(arguments.steps):
        previous, gradient = m.detach().clone(), m.grad
        m = (m.detach() - length * gradient).requires_grad_()
        value = misfit(m)
        value.backward()
        change, turn = m.detach() - previous, m.grad - gradient
        length = ((change * change).sum() / (change * turn).sum()).abs()
        print(f"misfit {value.item():.6f}")


if __name__ == "__main__":
    main()
