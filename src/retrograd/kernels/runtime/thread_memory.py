"""Byte offsets of the words by which threads of the pool communicate (``thread_protocol.py``)."""

OPEN = 0  # the number of the open launch, or 0
BUSY = 64  # 1 from the start of a launch to its end
NEXT = 128  # the start of the next part
INSIDE = 192  # the number of workers that have joined and not left
# Nonzero if a worker must return to Python.
CALLED = 256
LAUNCHES, TASK, DATA, TOTAL, PART, WANTED, JOINED, FAILED = range(320, 384, 8)  # the fields of the open launch
MODE, SET_MODE, YIELD, SLEEP, CLOCK, SPIN = range(384, 432, 8)  # settings of the process, written by Python
BYTES = 512
NAP = 20  # microseconds of sleep between two polls of a waiting thread
