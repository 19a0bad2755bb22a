"""The hub, alone: what ranks tell it, and the one line that it says."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from retrograd.distributed import hub

pytestmark = pytest.mark.skipif(os.name != "posix", reason="descriptors are inherited")


class Job:
    """A hub and the connections of ranks that are nothing but sockets."""

    def __init__(self, size):
        listener = socket.create_server(("127.0.0.1", 0))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", hub.__file__, str(listener.fileno()), str(size)],
            pass_fds=[listener.fileno()],
            stderr=subprocess.PIPE,
            env={**os.environ, hub.TOKEN: "word"},
            text=True,
        )
        self.ranks = [socket.create_connection(listener.getsockname()) for _ in range(size)]
        self.files = [one.makefile("r") for one in self.ranks]
        listener.close()
        for rank in range(size):
            self.say(rank, "hello", token="word", rank=rank, pid=2**30 + rank, host="elsewhere")
        for file in self.files:
            assert file.readline() == "complete\n"

    def say(self, rank, do, /, **message):
        self.ranks[rank].sendall(json.dumps({"do": do, **message}).encode() + b"\n")

    def end(self):
        """What the hub says, once all ranks that were told to stop have gone."""
        for rank, one in enumerate(self.ranks):
            if one.fileno() >= 0:
                line = self.files[rank].readline()
                assert line.startswith("stop") or not line
                self.gone(rank)
        _, text = self.process.communicate(timeout=10)
        return text

    def gone(self, rank):
        self.files[rank].close()
        self.ranks[rank].close()


WAIT = {"call": "all_reduce(float32(3,), SUM)", "key": "0:7", "members": [0, 1, 2]}


def test_ranks_are_listed_in_words():
    assert [hub.listed(ranks) for ranks in ([1], [2, 0], [3, 1, 2])] == ["rank 1", "ranks 0 and 2", "ranks 1, 2 and 3"]


def test_the_first_rank_that_died_is_named_and_no_other():
    job = Job(3)
    time.sleep(0.2)  # it has come to rest
    os.kill(job.process.pid, 19)  # the hub sleeps while ranks go: the kernel keeps their order
    for rank in (1, 2, 0):
        job.gone(rank)
    os.kill(job.process.pid, 18)
    process = f"(process {2**30 + 1} on elsewhere)"
    assert job.end() == f"retrograd: rank 1 died: its process was killed or crashed {process}\n"


def test_strangers_are_not_heard():
    job = Job(2)
    address = job.ranks[0].getpeername()
    for text in (b"GET / HTTP/1.1\n", b'{"do": "hello", "rank": 0, "token": "guess"}\n', b'{"do": "fault"}\n'):
        stranger = socket.create_connection(address)
        stranger.sendall(text)
        stranger.close()
    for rank in (0, 1):
        job.say(rank, "left")
        job.gone(rank)
    assert job.end() == ""


def test_ranks_that_say_farewell_are_not_missed():
    job = Job(2)
    for rank in (0, 1):
        job.say(rank, "left")
        job.gone(rank)
    assert job.end() == ""


def test_of_several_errors_the_first_is_told():
    job = Job(3)
    job.say(2, "claim", text="{ranks} raised ValueError: two", code=3)
    assert job.files[2].readline() == "speak\n"
    job.say(0, "claim", text="{ranks} raised KeyError: zero", code=1)
    assert job.files[0].readline() == "quiet\n"
    job.say(2, "fault")
    assert job.end() == "retrograd: rank 2 raised ValueError: two\n"


def test_an_error_of_all_ranks_is_told_as_one():
    job = Job(2)
    for rank in (1, 0):
        job.say(rank, "claim", text="{ranks} raised ValueError", code=1)
        job.files[rank].readline()
    job.say(1, "fault")
    assert job.end() == "retrograd: all ranks raised ValueError\n"


def test_who_does_not_come_is_asked_where_he_is():
    job = Job(3)
    job.say(0, "late", **WAIT, seconds=5, at="train.py:9")
    for rank in (1, 2):
        assert job.files[rank].readline() == "where\n"
    job.say(1, "where", call="", key="", last="barrier()", at="train.py:17")
    job.say(2, "where", call=WAIT["call"], key=WAIT["key"], last="", at="train.py:9")
    expected = "rank 1 did not reach all_reduce(float32(3,), SUM) within 5 s: it is at train.py:17, after barrier(); "
    assert job.end() == f"retrograd: {expected}ranks 0 and 2 wait at train.py:9\n"


def test_waiting_for_a_rank_whose_program_has_ended_is_told_soon():
    job = Job(2)
    job.say(1, "left")
    job.say(0, "waits", call="barrier()", members=[0, 1], at="train.py:3")
    began = time.monotonic()
    assert job.end() == "retrograd: rank 1 has ended its program; rank 0 waits in barrier() at train.py:3\n"
    assert time.monotonic() - began < 4


DEEP = 100_000
HOSTILE = [
    b"[" * DEEP,
    b'{"do":' * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"do": "hello", "token": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    b"1" * 10_000,
    b"\xff\xfe",
    b"",
    b"null",
    b"[]",
    b'"hello"',
    b"{}",
    b'{"do": null}',
    b'{"do": []}',
    b'{"do": {"do": "hello"}}',
    b'{"do": "hello"}',
    b'{"do": "hello", "token": ["word"], "rank": 0, "pid": 1, "host": ""}',
    b'{"do": "hello", "token": "word", "rank": [], "pid": 1, "host": ""}',
    b'{"do": "hello", "token": "word", "rank": 7, "pid": 1, "host": ""}',
    b'{"do": "hello", "token": "word", "rank": -1, "pid": 1, "host": ""}',
    b'{"do": "hello", "token": "word", "rank": 0, "pid": -1, "host": ""}',
    b'{"do": "hello", "token": "word", "rank": 0, "pid": 1, "host": ""}',  # a rank that there is
    b'{"do": "hello", "token": "\\ud800", "rank": 0, "pid": 1, "host": ""}',
    b'{"do": "claim", "text": "x", "code": 3}',
    b'{"do": "left"}',
    b'{"do": "where"}',
    b'{"do": "late", "members": [0]}',
]


def closed_by_hub(stranger):
    stranger.settimeout(10)
    try:
        return stranger.recv(1 << 10) == b""
    except ConnectionError:
        return True


def test_no_line_of_a_stranger_ends_the_hub():
    job = Job(2)
    address = job.ranks[0].getpeername()
    for text in HOSTILE:
        stranger = socket.create_connection(address)
        with contextlib.suppress(ConnectionError):  # it was closed before the end
            stranger.sendall(text + b"\n")
        assert closed_by_hub(stranger), text[:60]
        stranger.close()
    assert job.process.poll() is None
    for rank in range(2):
        job.say(rank, "left")
        job.gone(rank)
    assert job.end() == ""


def test_a_stranger_that_ends_no_line_is_closed_soon():
    job = Job(1)
    stranger = socket.create_connection(job.ranks[0].getpeername())
    sent = 0
    with pytest.raises(ConnectionError):
        while sent < 1 << 26:
            sent += stranger.send(b"x" * (1 << 14))
            time.sleep(0.001)
    assert sent < 1 << 24
    stranger.close()
    job.say(0, "left")
    job.gone(0)
    assert job.end() == ""


def test_many_silent_strangers_do_not_keep_a_rank_out():
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    one = hub.Hub(listener, 1, "word")
    strangers = []
    for _ in range(3 * hub.MAX_UNAUTHENTICATED):
        strangers.append(socket.create_connection(listener.getsockname()))
        one.listen(0.01)
    assert len(one.peers) <= hub.MAX_UNAUTHENTICATED
    rank = socket.create_connection(listener.getsockname())
    rank.sendall(b'{"do": "hello", "token": "word", "rank": 0, "pid": 1, "host": "elsewhere"}\n')
    while not one.ranks:
        one.listen(0.1)
    rank.settimeout(10)
    assert rank.recv(100) == b"complete\n"
    for connection in (*strangers, rank, listener, *[peer.connection for peer in one.peers]):
        connection.close()


def test_a_stranger_must_say_soon_who_it_is(monkeypatch):
    listener = socket.create_server(("127.0.0.1", 0))
    one = hub.Hub(listener, 1, "word")
    stranger = socket.create_connection(listener.getsockname())
    one.listen(1)
    assert len(one.peers) == 1
    monkeypatch.setattr(hub, "AUTHENTICATION_SECONDS", 0.01)
    stranger.sendall(b"{")
    time.sleep(0.05)
    one.listen(0.1)
    assert not one.peers and closed_by_hub(stranger)
    stranger.close()
    listener.close()


def test_messages_of_a_rank_with_wrong_parts_are_a_rank_that_died_and_no_traceback():
    spoiled = [{"call": 3}, {"members": [[0]]}, {"members": [None]}, {"members": 3}, {"at": []}]
    for parts in spoiled:
        job = Job(2)
        job.say(1, "waits", **(WAIT | {"at": ""} | parts))
        text = job.end()
        assert text.startswith("retrograd: rank 1 died") and text.count("\n") == 1
