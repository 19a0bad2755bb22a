"""The process beside a job that hears of every rank's fate, says in one line what went wrong, and ends the rest.

It is started by rank 0 as a script in an interpreter of its own, in a session of its own, and imports nothing of the
package: ``python hub.py LISTENER SIZE``, the listener being an inherited socket. Each rank holds a connection on which
both send lines of JSON. A connection that ends without a farewell is a rank that died. The launcher kills the other
ranks as soon as it sees that, but the kernel tells which connection ended first: ``epoll`` lists events in the order
in which they happened.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

GRACE = 2.0  # seconds: for an answer, for a farewell that is still on its way, for an exit


def listed(ranks: list[int]) -> str:
    """``rank 1``, ``ranks 0, 2 and 3``."""
    names = [str(rank) for rank in sorted(ranks)]
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"rank{'s' * (len(names) > 1)} {text}"


class Peer:
    """A rank's connection, and what is known of the rank."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.buffer = b""
        self.rank = -1
        self.pid = 0
        self.host = ""
        self.left = 0.0  # when its program ended in good order
        self.closed = False
        self.waits: dict[str, Any] | None = None  # the call in which it has waited for long
        self.where: dict[str, Any] | None = None
        self.claim: dict[str, Any] | None = None  # what it would say, could it speak for the job

    def send(self, message: str) -> None:
        with contextlib.suppress(OSError):
            self.connection.sendall(message.encode() + b"\n")


class Hub:
    """All connections, and the one fault that is told."""

    def __init__(self, listener: socket.socket, size: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.listener = listener
        self.size = size
        self.peers: list[Peer] = []
        self.ranks: dict[int, Peer] = {}
        self.speaker: Peer | None = None
        self.began = time.monotonic()

    def run(self) -> None:
        while True:
            self.listen(0.25)
            if len(self.ranks) == self.size and all(peer.closed for peer in self.ranks.values()):
                return
            if not self.peers and time.monotonic() - self.began > 60 or self.peers and self.all_gone():
                return
            self.look_for_deadlock()

    def all_gone(self) -> bool:
        return all(peer.closed for peer in self.peers)

    def listen(self, seconds: float) -> None:
        for key, _ in self.selector.select(seconds):
            if key.data is None:
                peer = Peer(self.listener.accept()[0])
                self.peers.append(peer)
                self.selector.register(peer.connection, selectors.EVENT_READ, peer)
                continue
            peer = key.data
            try:
                data = peer.connection.recv(1 << 16)
            except OSError:
                data = b""
            peer.buffer += data
            *lines, peer.buffer = peer.buffer.split(b"\n")
            for line in lines:
                self.hear(peer, json.loads(line))
            if not data:
                self.selector.unregister(peer.connection)
                peer.closed = True
                if not peer.left and peer.rank >= 0:
                    self.died(peer)

    def hear(self, peer: Peer, message: dict[str, Any]) -> None:
        match message["do"]:
            case "hello":
                peer.rank, peer.pid, peer.host = message["rank"], message["pid"], message["host"]
                self.ranks[peer.rank] = peer
                if len(self.ranks) == self.size:
                    for one in self.peers:
                        one.send("complete")
            case "waits":
                peer.waits = {**message, "since": time.monotonic()}
            case "goes on":
                peer.waits = None
            case "left":
                peer.left = time.monotonic()
            case "where":
                peer.where = message
            case "late":
                self.late(peer, message)
            case "claim":
                peer.claim = message
                if self.speaker is None:
                    self.speaker = peer
                    peer.send("speak")
                else:
                    peer.send("quiet")
            case "fault" if peer is self.speaker:
                self.raised(peer)

    def died(self, peer: Peer) -> None:
        how = "its process was killed or crashed"
        waiting = f" while it waited in {peer.waits['call']}" if peer.waits else ""
        self.end(f"rank {peer.rank} died{waiting}: {how} (process {peer.pid} on {peer.host})")

    def raised(self, peer: Peer) -> None:
        """A rank ends the job: name it, unless all ranks came to say the same."""
        until = time.monotonic() + 0.5
        while time.monotonic() < until and not all(one.claim or one.waits for one in self.ranks.values()):
            self.listen(0.05)
        claim = peer.claim or {}
        same = [one.rank for one in self.ranks.values() if one.claim and one.claim["text"] == claim["text"]]
        who = "all ranks" if len(same) == self.size else listed(same)
        self.end(claim["text"].replace("{ranks}", who, 1), claim["code"])

    def late(self, peer: Peer, message: dict[str, Any]) -> None:
        """A rank's time is up in a call: find out who has not come."""
        members = [rank for rank in message["members"] if rank in self.ranks and rank != peer.rank]
        for rank in members:
            self.ranks[rank].where = None
            self.ranks[rank].send("where")
        until = time.monotonic() + GRACE
        while time.monotonic() < until and any(
            self.ranks[rank].where is None and not self.ranks[rank].closed for rank in members
        ):
            self.listen(0.05)
        call, key = message["call"], message["key"]
        absent, present = [], [peer.rank]
        for rank in members:
            where = self.ranks[rank].where
            if where is not None and where["key"] == key:
                present.append(rank)
            else:
                absent.append((rank, self.whereabouts(self.ranks[rank])))
        place = f" at {message['at']}" if message["at"] else ""
        if not absent:
            self.end(f"{listed(present)} waited {message['seconds']:g} s in {call}{place}, and no message came")
        ranks = listed([rank for rank, _ in absent])
        if len(absent) == 1:
            places = f"it {absent[0][1]}"
        else:
            places = "; ".join(f"rank {rank} {where}" for rank, where in absent)
        wait = f"wait{'s' * (len(present) == 1)}"
        late = f"did not come to {call} within {message['seconds']:g} s"
        self.end(f"{ranks} {late}: {places}; {listed(present)} {wait}{place}")

    def whereabouts(self, peer: Peer) -> str:
        where = peer.where
        if peer.left:
            return "has ended its program"
        if where is None:
            return f"does not answer (process {peer.pid} on {peer.host})"
        at = f" at {where['at']}" if where["at"] else ""
        if where["call"]:
            return f"waits in {where['call']}{at}"
        return f"is{at or ' in its own code'}" + (f", after {where['last']}" if where["last"] else "")

    def look_for_deadlock(self) -> None:
        """A rank waits for one whose program has ended in good order: that can only be the end."""
        now = time.monotonic()
        for peer in self.ranks.values():
            waits = peer.waits
            if waits is None or peer.closed:
                continue
            # What the others have sent before they left is still on its way.
            gone = [rank for rank in waits["members"] if rank in self.ranks and self.ranks[rank].left]
            if gone and now - max(waits["since"], *(self.ranks[rank].left for rank in gone)) > GRACE:
                verb = "has" if len(gone) == 1 else "have"
                place = f" at {waits['at']}" if waits["at"] else ""
                their = "its program" if len(gone) == 1 else "their programs"
                self.end(f"{listed(gone)} {verb} ended {their}; rank {peer.rank} waits in {waits['call']}{place}")

    def end(self, text: str, code: int = 1) -> None:
        """Say it, ask all ranks to end, and end on this machine those that do not."""
        print(f"retrograd: {' '.join(text.split())}", file=sys.stderr, flush=True)
        for peer in self.peers:
            peer.send(f"stop {code}")
        own = socket.gethostname()
        until = time.monotonic() + GRACE
        with contextlib.suppress(OSError):
            while time.monotonic() < until and not self.all_gone():
                self.drain()
        for peer in self.peers:
            if not peer.closed and peer.host == own:
                with contextlib.suppress(OSError):
                    os.kill(peer.pid, signal.SIGKILL)
        os._exit(0)

    def drain(self) -> None:
        """Read on, without hearing, until connections end."""
        for key, _ in self.selector.select(0.1):
            if key.data is None:
                continue
            try:
                data = key.data.connection.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                self.selector.unregister(key.data.connection)
                key.data.closed = True


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the ranks; it ends when their connections do
    Hub(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])).run()


if __name__ == "__main__":
    main()
