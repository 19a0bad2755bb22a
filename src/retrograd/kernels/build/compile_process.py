"""The second process: compile the loops that the first process will need (``compile_ahead.py``)."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from threading import Condition, Lock, Thread

from . import code_store
from .compile_ahead import Job, ahead
from .compiled_loops import code

IDLE = 20.0  # seconds without work after which it ends


def serve() -> None:
    """Compile what standard input says, what was told last first, until that ends or says nothing for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which is its parent's
    ahead.close()  # there is no third one
    gc.disable()  # which would go through all that Numba keeps
    jobs: list[Job] = []
    changed, keeping = Condition(), Lock()
    Thread(target=_listen, args=(jobs, changed, keeping), daemon=True).start()
    status = 1
    try:
        from .object_files import prepare  # takes a second, in which it is to be heard when the first process ends

        prepare()
        while True:
            with changed:
                if not changed.wait_for(lambda: bool(jobs), IDLE):
                    break
                job = jobs.pop()
                print(json.dumps(("begin", *job.key)), flush=True)
            if not code_store.holds(*job.key):
                made = code(job)
                with keeping:
                    code_store.write(*job.key, made)
            print(json.dumps(("end", *job.key)), flush=True)
        status = 0
    finally:
        os._exit(status)


def _listen(jobs: list[Job], changed: Condition, keeping: Lock) -> None:
    for line in sys.stdin:
        what, *rest = json.loads(line)
        with changed:
            if what == "compile":
                jobs += [Job(*job) for job in rest[0]]
            else:
                jobs[:] = [job for job in jobs if job.key != tuple(rest[0])]
            changed.notify_all()
    with keeping:  # no file is left half written
        os._exit(0)
