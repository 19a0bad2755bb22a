"""The words in which threads of the pool meet (``thread_protocol.py``): their places, in bytes."""

OPEN = 0  # the number of the launch that may be joined, else 0
BUSY = 64  # 1 from the beginning of a launch to its end
NEXT = 128  # the part to be taken next
INSIDE = 192  # helpers that have joined and not left
CALLED = 256  # not 0 where Python wants a helper back
LAUNCHES, TASK, DATA, TOTAL, PART, WANTED, JOINED, FAILED = range(320, 384, 8)  # of the launch that is open
MODE, SET_MODE, YIELD, SLEEP, CLOCK, SPIN = range(384, 432, 8)  # of the process: written by Python
BYTES = 512
NAP = 20  # microseconds for which a thread sleeps that has looked for long enough
