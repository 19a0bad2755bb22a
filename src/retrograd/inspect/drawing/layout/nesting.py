"""Split a picture into levels, one per box, which are laid out separately.

A laid out box is one item of the enclosing level. A value that is read outside of its box leaves the box at the bottom
and enters other boxes at the top.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..picture import Picture

Value = tuple[int, int]  # a vertex and the index of its output


@dataclass(slots=True)
class Net:
    """The connections of a value inside a level.

    ``source`` is the index of the item that computes the value, -1 if the value enters from outside. ``targets`` are
    the items that read the value. ``leaves`` says whether items outside of the box read the value, ``leaf`` whether the
    value is a parameter."""

    value: Value
    source: int = -1
    targets: list[int] = field(default_factory=list)
    leaves: bool = False
    leaf: bool = False


@dataclass(slots=True)
class Level:
    """The inside of a box, or the whole picture (``box`` is -1).

    ``items`` are vertices by key and boxes by ``~key``; nets refer to them by index. ``rows`` are the layers of the
    drawing, from the top: indices of items, and ``~net`` where a net passes through.
    """

    box: int
    items: list[int] = field(default_factory=list)
    nets: list[Net] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)

    @property
    def enters(self) -> bool:
        """Whether the first row consists of values that enter the box."""
        return any(net.source < 0 for net in self.nets)

    @property
    def leaves(self) -> bool:
        """Whether the last row consists of values that leave the box."""
        return any(net.leaves for net in self.nets)


def levels_of(picture: Picture) -> list[Level]:
    """Return the level of each box, by its key; the last level is the whole picture."""
    levels = [Level(box.key) for box in picture.boxes] + [Level(-1)]
    place: dict[tuple[int, int], int] = {}

    def place_of(level: int, item: int) -> int:
        found = place.get((level, item))
        if found is None:
            found = place[level, item] = len(levels[level].items)
            levels[level].items.append(item)
        return found

    for vertex in picture.vertices:
        inner = vertex.key
        for box in [*picture.around(vertex.box), -1]:
            place_of(box, inner)
            inner = ~box
    nets: dict[tuple[int, Value], Net] = {}

    def net_of(level: int, value: Value) -> Net:
        net = nets.get((level, value))
        if net is None:
            net = nets[level, value] = Net(value, leaf=picture.vertices[value[0]].kind == "parameter")
            levels[level].nets.append(net)
        return net

    for edge in picture.edges:
        value = (edge.source, edge.output)
        start, end = picture.vertices[edge.source].box, picture.vertices[edge.target].box
        meeting = picture.common(start, end)
        giver, reader = edge.source, edge.target
        for box in picture.around(start):
            if box == meeting:
                break
            net = net_of(box, value)
            net.source, net.leaves = place_of(box, giver), True
            giver = ~box
        for box in picture.around(end):
            if box == meeting:
                break
            _add(net_of(box, value), place_of(box, reader))
            reader = ~box
        net = net_of(meeting, value)
        net.source = place_of(meeting, giver)
        _add(net, place_of(meeting, reader))
    return levels


def _add(net: Net, target: int) -> None:
    if target not in net.targets:
        net.targets.append(target)
