"""A process that monitors all ranks of a job, reports the first fault in one line, and ends the remaining ranks.

Rank 0 starts it as a script, ``python hub.py LISTENER SIZE``, in its own interpreter and session; it imports nothing
of the package. LISTENER is an inherited socket. Each rank opens a connection over which both sides send lines of JSON.
A connection that ends without the message ``left`` means that the rank died. The launcher then kills the other ranks,
but ``epoll`` lists events in the order in which they happened, so the hub knows which connection ended first.

Any program on the machine can connect to the port. A connection may send one short line before it authenticates with
the token. The hub closes connections that do not authenticate in time or that send anything but the messages below.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any, TypeAlias

TOKEN = "RETROGRAD_HUB_TOKEN"  # environment variable of the token that ranks authenticate with
GRACE = 2.0  # seconds to wait for an answer, for a delayed ``left``, and for an exit
AUTHENTICATION_SECONDS = 20.0  # seconds in which a connection must authenticate
MAX_UNAUTHENTICATED = 64  # unauthenticated connections; if there are more, the oldest is closed
MAX_LINE_UNAUTHENTICATED, MAX_LINE = 1 << 12, 1 << 24  # bytes per line before and after authentication

Message: TypeAlias = dict[str, Any]  # a JSON object: its kind is ``do``, the other fields depend on the kind

# The fields of each message. A key is only compared with other keys.
_TEXT_OR_NONE = (str, type(None))
MESSAGES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "hello": {"token": str, "rank": int, "pid": int, "host": str},
    "waits": {"call": str, "members": list, "at": _TEXT_OR_NONE},
    "goes on": {},
    "left": {},
    "where": {"call": _TEXT_OR_NONE, "key": object, "at": _TEXT_OR_NONE, "last": _TEXT_OR_NONE},
    "late": {"call": str, "key": object, "members": list, "seconds": (int, float), "at": _TEXT_OR_NONE},
    "claim": {"text": str, "code": int},
    "fault": {},
}


def checked(line: bytes) -> Message:
    """Parse a line into a message.

    Raises:
        ValueError: the line is not one of ``MESSAGES``.
    """
    try:
        message = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(message, dict) or not isinstance(message.get("do"), str):
        raise ValueError("a message must be an object with the string 'do'")
    fields = MESSAGES.get(message["do"])
    if fields is None or not all(name in message and isinstance(message[name], kind) for name, kind in fields.items()):
        raise ValueError(f"a message {message['do']!r:.40} with missing or invalid fields")
    if not all(type(rank) is int for rank in message.get("members", [])):
        raise ValueError("members must be integers")
    return message


def listed(ranks: list[int]) -> str:
    """Name ranks in a sentence: ``rank 1``, ``ranks 0, 2 and 3``."""
    names = [str(rank) for rank in sorted(ranks)]
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"rank{'s' * (len(names) > 1)} {text}"


class Peer:
    """A connection and the state of its rank."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.since = time.monotonic()
        self.buffer = bytearray()
        self.rank = -1
        self.pid = 0
        self.host = ""
        self.left = 0.0  # time of a regular exit
        self.closed = False
        self.waits: Message | None = None  # the call in which the rank has waited for long
        self.where: Message | None = None
        self.claim: Message | None = None  # the fault that the rank wants to report; the hub lets one rank report

    def send(self, message: str) -> None:
        with contextlib.suppress(OSError):
            self.connection.sendall(message.encode() + b"\n")


class Hub:
    """All connections, and the fault to report."""

    def __init__(self, listener: socket.socket, size: int, token: str) -> None:
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.listener = listener
        self.size = size
        self.token = token
        self.peers: list[Peer] = []
        self.ranks: dict[int, Peer] = {}
        self.speaker: Peer | None = None
        self.began = time.monotonic()

    def run(self) -> None:
        while True:
            self.listen(0.25)
            if self.all_gone() if self.ranks else time.monotonic() - self.began > 60:
                return
            self.check_deadlock()

    def all_gone(self) -> bool:
        return all(peer.closed for peer in self.ranks.values())

    def listen(self, seconds: float) -> None:
        for key, _ in self.selector.select(seconds):
            if key.data is None:
                self.accept()
                continue
            peer = key.data
            if peer.closed:  # closed by an event handled earlier in this loop
                continue
            try:
                data = peer.connection.recv(1 << 16)
            except OSError:
                data = b""
            try:
                self.receive(peer, data)
            except ValueError:  # an unrelated program has connected to the port
                data = b""
            if not data:
                self.close(peer)
                if not peer.left and peer.rank >= 0:
                    self.died(peer)
        now = time.monotonic()
        for peer in self.unauthenticated():
            if now - peer.since > AUTHENTICATION_SECONDS:
                self.close(peer)

    def accept(self) -> None:
        with contextlib.suppress(OSError):  # disconnected again, or too many open files
            peer = Peer(self.listener.accept()[0])
            peer.connection.settimeout(GRACE)  # so that a rank that does not read cannot block the hub
            self.peers.append(peer)
            self.selector.register(peer.connection, selectors.EVENT_READ, peer)
        for peer in self.unauthenticated()[:-MAX_UNAUTHENTICATED]:
            self.close(peer)

    def unauthenticated(self) -> list[Peer]:
        """Return the unauthenticated connections, the oldest first."""
        return [peer for peer in self.peers if peer.rank < 0]

    def close(self, peer: Peer) -> None:
        if peer.closed:
            return
        self.selector.unregister(peer.connection)
        peer.closed = True
        peer.buffer.clear()
        if peer.rank < 0:
            peer.connection.close()
            self.peers.remove(peer)

    def receive(self, peer: Peer, data: bytes) -> None:
        """Handle the complete lines received.

        Raises:
            ValueError: a line is too long, or is not a message.
        """
        peer.buffer += data
        if b"\n" in data:
            *lines, rest = bytes(peer.buffer).split(b"\n")
            peer.buffer = bytearray(rest)
            for line in lines:
                if len(line) > (MAX_LINE_UNAUTHENTICATED if peer.rank < 0 else MAX_LINE):
                    raise ValueError("a line is too long")
                self.handle(peer, checked(line))
        if len(peer.buffer) > (MAX_LINE_UNAUTHENTICATED if peer.rank < 0 else MAX_LINE):
            raise ValueError("a line is too long")

    def authenticate(self, peer: Peer, message: Message) -> None:
        """Authenticate a connection as the connection of a rank."""
        rank, before = message["rank"], self.ranks.get(message["rank"])
        known = hmac.compare_digest(message["token"].encode("utf-8", "replace"), self.token.encode())
        taken = before is not None and not (before.closed or before.left)
        if not known or taken or not 0 <= rank < self.size or message["pid"] <= 0:
            raise ValueError("not a rank of this job")
        peer.rank, peer.pid, peer.host = rank, message["pid"], message["host"]
        self.ranks[rank] = peer
        if len(self.ranks) == self.size:
            for one in self.ranks.values():
                one.send("complete")

    def handle(self, peer: Peer, message: Message) -> None:
        if (peer.rank < 0) != (message["do"] == "hello"):
            raise ValueError("a connection must authenticate first, and only once")
        match message["do"]:
            case "hello":
                self.authenticate(peer, message)
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
        """Report a rank's error; name all ranks if all have raised the same error."""
        until = time.monotonic() + 0.5
        while time.monotonic() < until and not all(one.claim or one.waits for one in self.ranks.values()):
            self.listen(0.05)
        claim = peer.claim or {}
        same = [one.rank for one in self.ranks.values() if one.claim and one.claim["text"] == claim["text"]]
        who = "all ranks" if len(same) == self.size else listed(same)
        self.end(claim["text"].replace("{ranks}", who, 1), claim["code"])

    def late(self, peer: Peer, message: Message) -> None:
        """Report a timeout: find out which ranks have not made the call."""
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
                absent.append((rank, self.describe_activity(self.ranks[rank])))
        place = f" at {message['at']}" if message["at"] else ""
        if not absent:
            self.end(f"{listed(present)} waited {message['seconds']:g} s in {call}{place}, and no message came")
        ranks = listed([rank for rank, _ in absent])
        if len(absent) == 1:
            places = f"it {absent[0][1]}"
        else:
            places = "; ".join(f"rank {rank} {where}" for rank, where in absent)
        wait = f"wait{'s' * (len(present) == 1)}"
        late = f"did not reach {call} within {message['seconds']:g} s"
        self.end(f"{ranks} {late}: {places}; {listed(present)} {wait}{place}")

    def describe_activity(self, peer: Peer) -> str:
        where = peer.where
        if peer.left:
            return "has ended its program"
        if where is None:
            return f"does not answer (process {peer.pid} on {peer.host})"
        at = f" at {where['at']}" if where["at"] else ""
        if where["call"]:
            return f"waits in {where['call']}{at}"
        return f"is{at or ' in its own code'}" + (f", after {where['last']}" if where["last"] else "")

    def check_deadlock(self) -> None:
        """Report a rank that waits for a rank whose program has ended."""
        now = time.monotonic()
        for peer in self.ranks.values():
            waits = peer.waits
            if waits is None or peer.closed:
                continue
            # Messages that other ranks sent before they left may still arrive.
            gone = [rank for rank in waits["members"] if rank in self.ranks and self.ranks[rank].left]
            if gone and now - max(waits["since"], *(self.ranks[rank].left for rank in gone)) > GRACE:
                verb = "has" if len(gone) == 1 else "have"
                place = f" at {waits['at']}" if waits["at"] else ""
                their = "its program" if len(gone) == 1 else "their programs"
                self.end(f"{listed(gone)} {verb} ended {their}; rank {peer.rank} waits in {waits['call']}{place}")

    def end(self, text: str, code: int = 1) -> None:
        """Print the fault, ask all ranks to exit, and kill the ranks on this machine that do not exit."""
        print(f"retrograd: {' '.join(text.split())}", file=sys.stderr, flush=True)
        for peer in self.ranks.values():
            peer.send(f"stop {code}")
        own = socket.gethostname()
        until = time.monotonic() + GRACE
        with contextlib.suppress(OSError):
            while time.monotonic() < until and not self.all_gone():
                self.drain()
        for peer in self.ranks.values():
            if not peer.closed and peer.host == own:
                with contextlib.suppress(OSError):
                    os.kill(peer.pid, signal.SIGKILL)
        os._exit(0)

    def drain(self) -> None:
        """Read and discard messages until connections end."""
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
        signal.signal(number, signal.SIG_IGN)  # also sent to the ranks; the hub ends when their connections end
    Hub(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), os.environ[TOKEN]).run()


if __name__ == "__main__":
    main()
