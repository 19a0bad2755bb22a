"""Which arrays of operators are alive, and which were alive at the peak."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

from ...core.arrays import Array
from ...core.arrays.devices import is_array
from ..memory import owner_of
from ..record import Record
from .outside_time import wait_for_samples


class Part(NamedTuple):
    """A part of the peak: the arrays of one operator at one line that were alive."""

    site: str
    operator: str
    kind: str
    nbytes: int
    pieces: int


class _Piece:
    """Memory allocated by an operator; ``kept`` if a node saves it for the backward pass."""

    __slots__ = ("kept", "kind", "nbytes", "record")

    def __init__(self, record: Record, kind: str, nbytes: int) -> None:
        self.record = record
        self.kind = kind
        self.nbytes = nbytes
        self.kept = False


class LiveArrays:
    """Tracks arrays by weak references."""

    def __init__(self) -> None:
        self.total = 0
        self.most = 0
        self.samples: list[tuple[float, int]] = []  # pairs of clock and total
        self._most_at = 0
        self._log: list[tuple[bool, _Piece]] = []
        self._alive: dict[int, tuple[ref[Any], _Piece]] = {}

    def add(self, array: Array, record: Record, kind: str, clock: float, kept: bool = False) -> None:
        """Add an operator's array; memory that is already tracked is not counted again."""
        if not is_array(array):
            return
        owner = owner_of(array)
        key = id(owner)
        known = self._alive.get(key)
        if known is not None and known[0]() is owner:
            known[1].kept = known[1].kept or kept
            return
        nbytes = getattr(owner, "nbytes", array.nbytes)
        piece = _Piece(record, kind, nbytes)
        piece.kept = kept
        try:
            reference = ref(owner, partial(self._died, key, piece))
        except TypeError:  # no weak reference, so its deletion would go unseen
            return
        wait_for_samples()
        self._alive[key] = reference, piece
        self.total += nbytes
        self._log.append((True, piece))
        self.samples.append((clock, self.total))
        if self.total > self.most:
            self.most = self.total
            self._most_at = len(self._log)

    def _died(self, key: int, piece: _Piece, _: object) -> None:
        known = self._alive.get(key)
        if known is not None and known[1] is piece:
            del self._alive[key]
        self.total -= piece.nbytes
        self._log.append((False, piece))

    def allocated(self) -> Counter[tuple[int, bool]]:
        """Return the bytes of the arrays of each operator, by its index and whether its rules created them."""
        found: Counter[tuple[int, bool]] = Counter()
        for born, piece in self._log:
            found[piece.record.index, piece.kind == "gradient"] += born * piece.nbytes
        return found

    def peak(self) -> list[Part]:
        """Return what was alive at the peak, the largest part first."""
        alive: dict[int, _Piece] = {}
        for born, piece in self._log[: self._most_at]:
            if born:
                alive[id(piece)] = piece
            else:
                alive.pop(id(piece), None)
        parts: dict[tuple[str, str, str], list[int]] = {}
        for piece in alive.values():
            kind = "saved for backward" if piece.kept else piece.kind
            parts.setdefault((str(piece.record.site), piece.record.operator, kind), []).append(piece.nbytes)
        found = [Part(*key, sum(sizes), len(sizes)) for key, sizes in parts.items()]
        return sorted(found, key=lambda part: -part.nbytes)
