"""A rank's connection to the hub (``hub.py``).

The rank reports its identity, long waits, errors and its exit, and exits when the hub requests it. A thread reads the
hub's messages, so that a rank answers while its program computes or waits.
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

from ..core.source_location import line_of
from .errors import DistError
from .hub import TOKEN
from .launcher import launched, local_size

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_ANSWER = 10.0  # seconds to wait for the hub's answer


class Call:
    """A collective in progress, as reported when it does not complete.

    Attributes:
        text: the call as shown to the user.
        key: identifies the call; equal on all ranks that take part in it.
        members: the ranks that take part.
    """

    __slots__ = ("key", "members", "text", "thread")

    def __init__(self, text: str, key: str, members: list[int]) -> None:
        self.text, self.key, self.members = text, key, members
        self.thread = threading.get_ident()


class Guard:
    """The connection to the hub. Without a connection the methods return at once or raise."""

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
        """Connect to the hub; from now on an uncaught error on this rank ends the whole job."""
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
        """Disconnect from the hub, which stops observing this rank."""
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

    # Reports to the hub

    def report_wait(self, call: Call) -> None:
        """Report that the call takes long."""
        self._send("waits", call=call.text, members=call.members, at=user_line(call.thread))

    def report_progress(self) -> None:
        """Report that the long call has ended."""
        self._send("goes on")

    def report_timeout(self, call: Call, seconds: float) -> NoReturn:
        """Report that the call has exceeded its timeout; the hub ends the job.

        Raises:
            DistError: there is no hub.
        """
        if self.connection is not None:
            at = user_line(call.thread)
            self._send("late", call=call.text, key=call.key, members=call.members, seconds=seconds, at=at)
            self._await_exit()
        raise DistError(f"{call.text}: not all ranks made this call within {seconds:g} s; check that all ranks call it")

    def end(self, text: str, code: int = 1, show: Callable[[], object] | None = None) -> None:
        """End all ranks with an exit code and a reason; return if there is no hub, so that the caller reports it.

        The rank whose claim reaches the hub first reports for all ranks: it calls ``show``, then the hub prints the
        text in one line.

        Args:
            text: the reason; ``{ranks}`` in it is replaced by the ranks that give the same reason.
        """
        if self.connection is None:
            if launched()[1] > 1 and not _is_first_process():
                threading.Event().wait(1.0)  # the launcher ends the remaining processes when the first one exits
                os._exit(code)
            return
        self._send("claim", text=text, code=code)
        if self._answer() == "speak":
            if show is not None:
                show()
            _flush()
            self._send("fault")
        self._await_exit()

    def tell(self, error: BaseException, show: Callable[[], object]) -> None:
        """End the job for an uncaught error; ``show`` prints its traceback, unless it is a DistError."""
        at = _error_line(error)
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

    def _await_exit(self) -> None:
        """Wait until the hub ends this process."""
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
    """Start the hub of a job of ``size`` ranks; return its host and port and the ranks' token."""
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
    """Return the file and line of user code that a thread executes, as in ``train.py:17``."""
    frame = sys._current_frames().get(thread or 0)
    return _frame_line(frame)


def _frame_line(frame: FrameType | None) -> str:
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_PACKAGE, "<", sys.prefix, sys.base_prefix)):
            return f"{os.path.basename(name)}:{line_of(frame.f_code, frame.f_lasti, frame.f_lineno)}"
        frame = frame.f_back
    return ""


def _error_line(error: BaseException) -> str:
    """Return the file and line of user code nearest to where the error was raised."""
    found = ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if not name.startswith((_PACKAGE, "<", sys.prefix, sys.base_prefix)):
            found = f"{os.path.basename(name)}:{number}"
    return found


def _is_first_process() -> bool:
    """Whether this process is the first of its launcher on this machine to report an error.

    Before the hub exists, only the first process reports.
    """
    name = f"\0retrograd.{os.getuid()}.{os.getppid()}" if sys.platform == "linux" else ""
    if name:
        _claim.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            _claim[-1].bind(name)  # an abstract socket name, released when this process exits
        except OSError:
            return False
    return True


_claim: list[socket.socket] = []


def _flush() -> None:
    """Flush standard output, unless a stuck thread holds its lock."""

    def flush() -> None:
        with contextlib.suppress(Exception):
            sys.stdout.flush()

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    thread.join(0.3)


guard = Guard()


def _forget() -> None:
    """Close the connection in a forked child, which would otherwise keep the connection open after the rank's exit."""
    if guard.connection is not None:
        guard.connection.close()
        guard.connection = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
