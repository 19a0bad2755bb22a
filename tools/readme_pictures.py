"""Draw the README's pictures: a backward pass step by step, and Retrograd beside PyTorch and JAX.

``python tools/readme_pictures.py [FOLDER]`` writes ``backward.svg`` and ``comparison.svg``, by default to docs/images,
and the site's social card, docs/_static/card.png.
The figures of the comparison are read from docs/performance.md, which the benchmarks write.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import retrograd as rg
from retrograd import inspect

ROOT = Path(__file__).parents[1]
SECONDS = 2.5  # that each step of the animation is shown
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def backward() -> str:
    """Return the graph of a small loss beside the gradients that its backward pass computes, as an animation."""
    names: dict[str, Any] = {"rg": rg}
    with inspect.trace():
        exec("\n".join(PROGRAM[:-1]), names)
        loss, w = names["loss"], names["w"]
        steps = inspect.step(loss)
    graph = inspect.draw(loss, params={"w": w}).to_svg()
    places = {
        name: (float(left), float(top), float(width), float(height))
        for left, top, name, width, height in re.findall(
            r'<g class="v [^"]*" transform="translate\(([\d.]+) ([\d.]+)\)"><title>(\w+)\n.*?</title>'
            r'<rect width="([\d.]+)" height="([\d.]+)"',
            graph,
            re.DOTALL,
        )
    }
    frames = []
    for event in steps:
        gradient = next(g for g in event.outgoing if g is not None)
        lines = [
            (event.operator, "name"),
            (f"upstream gradient   {_numbers(event.incoming)}", ""),
            (f"derivative          {DERIVATIVES[event.operator]}", "rule"),
            (f"gradient passed on  {_numbers(gradient)}", "result"),
        ]
        frames.append((places[event.operator], lines))
    frames.append((places["w"], [("w.grad", "name"), (_numbers(w.grad), "result")]))
    width, height = (int(number) for number in re.findall(r'width="(\d+)" height="(\d+)" role', graph)[0])
    duration = SECONDS * len(frames)
    shown = "".join(
        f'<g class="moment" style="animation-delay:{index * SECONDS}s">'
        f'<rect x="{left - 4:.1f}" y="{top - 4:.1f}" width="{wide + 8:.1f}" height="{high + 8:.1f}" rx="14"/>'
        + "".join(
            f'<text class="{kind}" x="{width - 10}" y="{max(top + 4, 130) + 20 * line:.1f}">{escape(text)}</text>'
            for line, (text, kind) in enumerate(lines)
        )
        + "</g>"
        for index, ((left, top, wide, high), lines) in enumerate(frames)
    )
    style = (
        f".moment {{ opacity: 0; animation: shown {duration}s infinite step-end }} "
        f"@keyframes shown {{ 0% {{ opacity: 1 }} {100 / len(frames):.3f}% {{ opacity: 0 }} }} "
        ".moment rect { fill: none; stroke: #d1242f; stroke-width: 3 } .rg .moment text { white-space: pre } "
        ".rg .moment .name { font-weight: 700; font-size: 14px } .rg .moment .result { fill: #d1242f } "
        ".rg .moment .rule { font-style: italic } .rg .program { white-space: pre } "
        "@media (prefers-color-scheme:dark) { .rg .moment .result { fill: #ff7b72 } .moment rect { stroke: #ff7b72 } }"
    )
    shown += "".join(
        f'<text class="program" x="{width - 10}" y="{18 * line}">{escape(text)}</text>'
        for line, text in enumerate(PROGRAM)
    )
    whole = width + 520
    graph = graph.replace(
        f'viewBox="-24 -24 {width} {height}" width="{width}"', f'viewBox="-24 -24 {whole} {height}" width="{whole}"'
    )
    graph = graph.replace(
        f'<rect class="paper" x="-24" y="-24" width="{width}"', f'<rect class="paper" x="-24" y="-24" width="{whole}"'
    )
    return graph.replace("</style>", f" {style}</style>", 1).replace("</svg>", shown + "</svg>")


PROGRAM = (
    "x = rg.tensor([[1.0, 2.0], [3.0, 4.0]])",
    "w = rg.tensor([[0.5, -1.0], [2.0, 0.0]], requires_grad=True)",
    "hidden = (x @ w).relu()",
    "loss = (hidden - 1.0).square().mean()",
    "loss.backward()",
)
DERIVATIVES = {
    "mean": "g / n for each of the n elements",
    "square": "g * 2x",
    "sub": "g",
    "relu": "g where x > 0, else 0",
    "mm": "x.T @ g",
}


def _numbers(x: object) -> str:
    array = getattr(x, "array", x)
    return " ".join(str(array.round(2)).split())


def comparison() -> str:
    """Return bars of time, memory and size, in multiples of PyTorch's."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    time, memory = (
        dict(zip(("Retrograd", "NumPy alone", "compiled", "torch.compile", "JAX"), map(float, row), strict=True))
        for row in re.findall(r"geometric mean \| " + r"([\d.]+) \| " * 5, page)
    )
    sizes = {name: float(size) for name, size in re.findall(r"(\w+(?:\[\w+\])?) (\d+(?:\.\d+)?) MB", page)}
    size = {"Retrograd": sizes["retrograd"] / sizes["torch"], "JAX": sizes["jax"] / sizes["torch"]}
    rows = [
        ("time of a training step", [("Retrograd", time["Retrograd"]), ("Retrograd, compiled", time["compiled"]),
         ("JAX jit", time["JAX"]), ("PyTorch", 1.0)]),
        ("peak memory", [("Retrograd", memory["Retrograd"]), ("Retrograd, compiled", memory["compiled"]),
         ("JAX jit", memory["JAX"]), ("PyTorch", 1.0)]),
        ("bytes installed", [("Retrograd", size["Retrograd"]), ("JAX", size["JAX"]), ("PyTorch", 1.0)]),
    ]  # fmt: skip
    left, unit, step = 148, 240, 20
    parts, top = [], 30
    for title, bars in rows:
        parts.append(f'<text class="title" x="{left}" y="{top}">{title}, PyTorch = 1</text>')
        for index, (name, value) in enumerate(bars):
            y = top + 10 + step * index
            kind = "ours" if name.startswith("Retrograd") else "theirs"
            parts.append(f'<text class="label" x="{left - 8}" y="{y + 12}">{name}</text>')
            parts.append(f'<rect class="{kind}" x="{left}" y="{y}" width="{unit * value:.0f}" height="15"/>')
            parts.append(f'<text x="{left + unit * value + 6:.0f}" y="{y + 12}">{value:.2f}</text>')
        top += 40 + step * len(bars)
    style = (
        f"svg {{ font-family: {FONT}; font-size: 12px }} text {{ fill: #1b1f24 }} .label {{ text-anchor: end }} "
        ".title { font-weight: 700 } .paper { fill: #fff } .ours { fill: #0969da } .theirs { fill: #8c959f } "
        "@media (prefers-color-scheme:dark) { text { fill: #e6edf3 } .paper { fill: #0f1318 } .ours { fill: #58a6ff } }"
    )
    size_of = f'viewBox="0 0 480 {top - 10}" width="480" height="{top - 10}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size_of} role="img" aria-label="Retrograd beside PyTorch and JAX">'
        f'<style>{style}</style><rect class="paper" width="480" height="{top - 10}"/>{"".join(parts)}</svg>'
    )


def card(file: Path) -> None:
    """Write the picture that social networks show beside a link: logo, name, and what the package does."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle, FancyArrowPatch

    figure = Figure(figsize=(12, 6.3), dpi=100, facecolor="#12324f")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1200), ylim=(0, 630))
    axes.axis("off")
    axes.plot([165, 345], [395, 395], color="#8fb8dc", linewidth=7, solid_capstyle="round")
    back = FancyArrowPatch(
        (345, 345), (165, 345), connectionstyle="arc3,rad=-0.7", arrowstyle="-|>", mutation_scale=70, color="#f28c3a"
    )
    back.set_linewidth(11)
    axes.add_patch(back)
    for x in (165, 345):
        axes.add_patch(Circle((x, 395), 42, color="white", zorder=3))
    axes.text(450, 350, "Retrograd", color="white", fontsize=80, fontweight="bold")
    axes.text(455, 285, "PyTorch's API on plain NumPy", color="#8fb8dc", fontsize=30)
    axes.text(110, 130, "An autograd engine you can see inside: why your gradient is zero,", color="white", fontsize=22)
    axes.text(110, 85, "where your NaN was born, why your network does not learn.", color="white", fontsize=22)
    figure.savefig(file, facecolor=figure.get_facecolor(), metadata={"Software": None})


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    (folder / "backward.svg").write_text(backward() + "\n", encoding="utf-8")
    (folder / "comparison.svg").write_text(comparison() + "\n", encoding="utf-8")
    card((ROOT / "docs" / "_static" if len(sys.argv) == 1 else folder) / "card.png")


if __name__ == "__main__":
    main()
