"""``draw``: a recorded graph as a picture, displayed by notebooks and saved to files."""

from __future__ import annotations

from pathlib import Path

from ..pages.template import framed
from ..tracing import Records
from .formats.svg import summary, svg_of
from .formats.text import dot_of, mermaid_of
from .gradients import usual_norm
from .graph_picture import named_outputs, parameter_names, picture_of
from .grouping import group, shorten_names
from .layout.scene import Scene
from .nested_boxes import add_box_flows, divide, name_once
from .picture import Picture
from .record_picture import traced_picture
from .repeats import fold_repeats
from .scalars import is_value, scalar_picture


class Drawing:
    """A picture of a graph. It refers to no Tensor, so it can outlive the graph.

    Attributes:
        picture: vertices, edges and boxes, as plain data.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> rg.inspect.draw((x * x).sum(), params={"x": x})
    <drawing: graph of 2 operators, 1 leaf>
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.picture: Picture = scene.picture

    def __repr__(self) -> str:
        return f"<drawing: {summary(self.picture)}>"

    def _repr_svg_(self) -> str:
        return svg_of(self._scene)

    def _repr_html_(self) -> str:
        height = min(max(self._scene.placed[-1].height + 120, 260), 640)
        return framed(self.to_html(), summary(self.picture), height)

    def to_svg(self) -> str:
        """Return the picture as SVG, without script and font.

        >>> x = rg.ones(2, requires_grad=True)
        >>> rg.inspect.draw(x.exp()).to_svg()[:4]
        '<svg'
        """
        return svg_of(self._scene)

    def to_html(self) -> str:
        """Return the picture as a self-contained page with zoom, folding and search.

        >>> x = rg.ones(2, requires_grad=True)
        >>> rg.inspect.draw(x.exp()).to_html()[:15]
        '<!doctype html>'
        """
        from .formats.page import page_of

        return page_of(self._scene)

    def to_dot(self) -> str:
        """Return the graph in Graphviz's language.

        >>> x = rg.ones(2, requires_grad=True)
        >>> "exp" in rg.inspect.draw(x.exp()).to_dot()
        True
        """
        return dot_of(self._scene)

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart.

        >>> x = rg.ones(2, requires_grad=True)
        >>> "exp" in rg.inspect.draw(x.exp()).to_mermaid()
        True
        """
        return mermaid_of(self._scene)

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, in the format of its suffix.

        Args:
            path: ends in ``.svg``, ``.html``, ``.dot`` (Graphviz) or ``.mmd`` (Mermaid).

        Raises:
            ValueError: another suffix.

        >>> x = rg.ones(2, requires_grad=True)
        >>> rg.inspect.draw(x.exp()).save("graph.png")
        Traceback (most recent call last):
        ...
        ValueError: save: path must end in .svg, .html, .dot or .mmd, got 'graph.png'
        """
        writers = {".svg": self.to_svg, ".html": self.to_html, ".dot": self.to_dot, ".mmd": self.to_mermaid}
        writer = writers.get(Path(path).suffix.lower())
        if writer is None:
            raise ValueError(f"save: path must end in .svg, .html, .dot or .mmd, got {str(path)!r}")
        Path(path).write_text(writer(), encoding="utf-8", errors="replace")


def draw(output: object, *, depth: int | None = None, params: object = None, repeats: bool = True) -> Drawing:
    """Draw the graph of a result: leaves, parameters by name, operators, shapes, and gradients after a backward pass.

    Args:
        output: a Tensor, a sequence or mapping of Tensors, a trace, or a ``scalar.Value``.
        depth: the nesting depth up to which modules are open; 0 folds all. By default a depth is chosen for which the
            drawing is readable. Modules are known if the forward pass ran under ``inspect.trace()``.
        params: names of leaves: a Module, a mapping from names to Tensors, or pairs as from ``named_parameters()``.
        repeats: fold equal consecutive blocks into one, marked with their number.

    Returns:
        A drawing, displayed by notebooks; ``save("graph.svg")`` writes it, also as .html, .dot and .mmd.

    Raises:
        TypeError: ``output`` contains something other than Tensors, or ``params`` does not name Tensors.
        RuntimeError: there is no graph: the Tensor is a leaf or does not require grad.
        ValueError: a negative depth.

    >>> model = rg.nn.Sequential(rg.nn.Linear(3, 4), rg.nn.ReLU(), rg.nn.Linear(4, 1))
    >>> loss = model(rg.ones(2, 3)).sum()
    >>> rg.inspect.draw(loss, params=model)
    <drawing: graph of 4 operators, 4 leaves>
    """
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int)):
        raise TypeError(f"draw: depth must be an int or None, got {type(depth).__name__}")
    if depth is not None and depth < 0:
        raise ValueError(f"draw: depth must not be negative, got {depth}")
    return Drawing(Scene(prepared(picture_for(output, params, "draw"), repeats), depth))


def prepared(picture: Picture, repeats: bool) -> Picture:
    """Return the picture ready for the layout: with folded repetitions, and names, parts and gradients of boxes."""
    picture.usual = usual_norm(picture)
    if repeats:
        picture = fold_repeats(picture)
    divide(picture)
    shorten_names(picture)
    name_once(picture)
    add_box_flows(picture)
    return picture


def picture_for(output: object, params: object, call: str) -> Picture:
    """Return the picture of a user's argument, grouped by modules if the modules are known."""
    names = parameter_names(params, call)
    if is_value(output):
        picture = scalar_picture(output)
    elif isinstance(output, Records):
        picture = traced_picture(output, call)
    else:
        picture = picture_of(named_outputs(output, call), names)
    modules = params.named_modules() if hasattr(params, "named_modules") else ()
    group(picture, {name: type(module).__name__ for name, module in modules})
    return picture
