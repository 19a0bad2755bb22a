"""A rank's side of the hub (``hub.py``): it says hello, where it waits, what it raised, farewell, and ends when told.

A thread reads what the hub sends, so a rank answers while its program computes or waits.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import secrets
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn

from .errors import DistError
from .hub import TOKEN
from .launcher import launched, local_size

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_ANSWER = 10.0  # seconds that the hub is waited for


class Call:
    """A collective on its way: what is told of it when it does not end.

    Attributes:
        text: as the user would read it.
        key: equal on all ranks that are in the same call, and in no other.
        members: the ranks that it needs.
    """

    __slots__ = ("key", "members", "text", "thread")

    def __init__(self, text: str, key: str, members: list[int]) -> None:
        self.text, self.key, self.members = text, key, members
        self.thread = threading.get_ident()


class Guard:
    """The connection to the hub. While it is not open, a rank is alone and every question has the plain answer."""

    def __init__(self) -> None:
        self.connection: socket.socket | None = None
        self.current: Call | None = None
        self.last = ""
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._hook: Any = None
        self._registered = False

    # Opening and closing

    def open(self, address: tuple[str, int], rank: int, token: str) -> None:
        """Connect to the hub at the address; from now on errors that nobody catches end the whole job."""
        self.connection = socket.create_connection(address, timeout=_ANSWER)
        self.connection.settimeout(None)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rank = rank
        self._send("hello", token=token, rank=rank, pid=os.getpid(), host=socket.gethostname())
        threading.Thread(target=self._read, args=(self.connection,), name="retrograd.guard", daemon=True).start()
        self._answer()
        self._hook, sys.excepthook = sys.excepthook, self._excepthook
        if not self._registered:
            self._registered = True
            atexit.register(self._leave)

    def close(self) -> None:
        """Say farewell: what happens to this rank from now on concerns nobody."""
        if self.connection is None:
            return
        self._send("left")
        connection, self.connection = self.connection, None
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
        if sys.excepthook == self._excepthook:
            sys.excepthook = self._hook

    def _leave(self) -> None:
        if self.connection is not None:
            self._send("left")

    # What a rank tells

    def waits(self, call: Call) -> None:
        """The call takes long."""
        self._send("waits", call=call.text, members=call.members, at=user_line(call.thread))

    def goes_on(self) -> None:
        """The call that took long has ended."""
        self._send("goes on")

    def late(self, call: Call, seconds: float) -> NoReturn:
        """The call's time is up: the hub ends the job.

        Raises:
            DistError: there is no hub.
        """
        if self.connection is not None:
            at = user_line(call.thread)
            self._send("late", call=call.text, key=call.key, members=call.members, seconds=seconds, at=at)
            self._stopped()
        raise DistError(f"{call.text}: not all ranks came within {seconds:g} s")

    def end(self, text: str, code: int = 1, show: Callable[[], object] | None = None) -> None:
        """End all ranks for this reason, with this exit code; returns where there is no hub, for the caller to speak.

        The rank that comes first speaks for all: it calls ``show``, then the hub prints the text in one line.

        Args:
            text: the reason; ``{ranks}`` in it stands for the ranks that give the same.
        """
        if self.connection is None:
            if launched()[1] > 1 and not _first_here():
                threading.Event().wait(1.0)  # the launcher ends what the first leaves
                os._exit(code)
            return
        self._send("claim", text=text, code=code)
        if self._answer() == "speak":
            if show is not None:
                show()
            _flush()
            self._send("fault")
        self._stopped()

    def tell(self, error: BaseException, show: Callable[[], object]) -> None:
        """End the job for an error that nobody catches; ``show`` prints its traceback, unless the line says all."""
        at = _line_of(error)
        place = f" ({at})" if at else ""
        if isinstance(error, DistError):
            self.end(f"{error}{place}")
        text = " ".join(str(error).split())
        self.end(f"{{ranks}} raised {type(error).__name__}{': ' * bool(text)}{text}{place}", 1, show)

    def _excepthook(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if self.connection is not None and not issubclass(kind, KeyboardInterrupt):
            self.tell(error, lambda: self._hook(kind, error, trace))
        self._hook(kind, error, trace)

    # The connection

    def _send(self, do: str, **message: object) -> None:
        if self.connection is not None:
            with self._sending, contextlib.suppress(OSError):
                self.connection.sendall(json.dumps({"do": do, **message}).encode() + b"\n")

    def _answer(self) -> str:
        try:
            return self._answers.get(timeout=_ANSWER)
        except queue.Empty:
            return "speak"

    def _stopped(self) -> None:
        """Wait for the end that the hub has been asked for."""
        threading.Event().wait(_ANSWER)
        os._exit(1)

    def _read(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection.makefile("r") as lines:
            for line in lines:
                match line.split():
                    case ["stop", code]:
                        _flush()
                        os._exit(int(code))
                    case ["where"]:
                        call = self.current
                        at = user_line(call.thread if call else threading.main_thread().ident)
                        text, key = (call.text, call.key) if call else ("", "")
                        self._send("where", call=text, key=key, last=self.last, at=at)
                    case [answer]:
                        self._answers.put(answer)


def start_hub(size: int) -> tuple[str, int, str]:
    """Start the hub of a job of so many ranks; the address at which it listens, and the word by which it knows them."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    alone = local_size() == size
    host = "127.0.0.1" if alone else socket.gethostbyname(socket.gethostname())
    listener.bind((host if alone else "", 0))
    listener.listen(size)
    token = secrets.token_hex(16)
    script = str(Path(__file__).with_name("hub.py"))
    subprocess.Popen(
        [sys.executable, "-I", "-S", script, str(listener.fileno()), str(size)],
        pass_fds=[listener.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, TOKEN: token},
        start_new_session=True,
    )
    port = listener.getsockname()[1]
    listener.close()
    return host, port, token


def user_line(thread: int | None) -> str:
    """Where the program's own code is on a thread: ``train.py:17``."""
    frame = sys._current_frames().get(thread or 0)
    return _line(frame)


def _line(frame: FrameType | None) -> str:
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_PACKAGE, "<", sys.prefix, sys.base_prefix)):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _line_of(error: BaseException) -> str:
    """The line of the program's own code nearest to where the error was raised."""
    found = ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if not name.startswith((_PACKAGE, "<", sys.prefix, sys.base_prefix)):
            found = f"{os.path.basename(name)}:{number}"
    return found


def _first_here() -> bool:
    """Whether no other process of this launcher on this machine has asked yet: who speaks before there is a hub."""
    name = f"\0retrograd.{os.getuid()}.{os.getppid()}" if sys.platform == "linux" else ""
    if name:
        _claim.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            _claim[-1].bind(name)  # a name that lives as long as this process
        except OSError:
            return False
    return True


_claim: list[socket.socket] = []


def _flush() -> None:
    """Give out what was printed, unless a thread that is stuck holds the stream."""

    def flush() -> None:
        with contextlib.suppress(Exception):
            sys.stdout.flush()

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    thread.join(0.3)


guard = Guard()


def _forget() -> None:
    """A forked child is no rank: it must not keep the connection open beyond its rank's end."""
    if guard.connection is not None:
        guard.connection.close()
        guard.connection = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
