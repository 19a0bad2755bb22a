"""The LLVM module of a region: each distinct kernel once, and ``entry``, which calls the kernels in order."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.runtime import thread_memory as at
from ...kernels.runtime.threads import SHORT
from .emission import SCALAR_TEXT, Body, Kernel
from .machine_code import HEAD, ITEMS
from .region_steps import Buffer, Place, Step, checked_pairs

ELEMENTS_DIFFER = 1  # status: elements are not as the trace assumed
INPUTS_OVERLAP = 2  # status: an input that is written overlaps another input

# ``launch`` of kernels/runtime/thread_protocol.py for functions of (data, start, stop).
_LAUNCH = f"""
define internal void @take_parts(i64 %words) noinline {{
  %place = inttoptr i64 %words to ptr
  %p.task = getelementptr i8, ptr %place, i64 {at.TASK}
  %p.data = getelementptr i8, ptr %place, i64 {at.DATA}
  %p.total = getelementptr i8, ptr %place, i64 {at.TOTAL}
  %p.part = getelementptr i8, ptr %place, i64 {at.PART}
  %p.next = getelementptr i8, ptr %place, i64 {at.NEXT}
  %task = load atomic ptr, ptr %p.task seq_cst, align 8
  %data = load atomic i64, ptr %p.data seq_cst, align 8
  %total = load atomic i64, ptr %p.total seq_cst, align 8
  %part = load atomic i64, ptr %p.part seq_cst, align 8
  br label %again
again:
  %start = atomicrmw add ptr %p.next, i64 %part seq_cst
  %over = icmp sge i64 %start, %total
  br i1 %over, label %done, label %work
work:
  %end = add i64 %start, %part
  %stop = call i64 @llvm.smin.i64(i64 %end, i64 %total)
  %status = call i32 %task(i64 %data, i64 %start, i64 %stop)
  br label %again
done:
  ret void
}}
define internal void @launch(i64 %words, i64 %threads, i64 %total, i64 %part, ptr %task, ptr %data) noinline {{
  %place = inttoptr i64 %words to ptr
  %number = ptrtoint ptr %data to i64
  %single = icmp sle i64 %threads, 1
  %whole = icmp sge i64 %part, %total
  %own = or i1 %single, %whole
  br i1 %own, label %alone, label %ask
ask:
  %p.busy = getelementptr i8, ptr %place, i64 {at.BUSY}
  %busy = atomicrmw xchg ptr %p.busy, i64 1 seq_cst
  %taken = icmp ne i64 %busy, 0
  br i1 %taken, label %alone, label %share
alone:
  %status = call i32 %task(i64 %number, i64 0, i64 %total)
  ret void
share:
  %p.task = getelementptr i8, ptr %place, i64 {at.TASK}
  %p.data = getelementptr i8, ptr %place, i64 {at.DATA}
  %p.total = getelementptr i8, ptr %place, i64 {at.TOTAL}
  %p.part = getelementptr i8, ptr %place, i64 {at.PART}
  %p.wanted = getelementptr i8, ptr %place, i64 {at.WANTED}
  %p.joined = getelementptr i8, ptr %place, i64 {at.JOINED}
  %p.next = getelementptr i8, ptr %place, i64 {at.NEXT}
  %p.launches = getelementptr i8, ptr %place, i64 {at.LAUNCHES}
  %p.open = getelementptr i8, ptr %place, i64 {at.OPEN}
  %p.inside = getelementptr i8, ptr %place, i64 {at.INSIDE}
  %p.sleep = getelementptr i8, ptr %place, i64 {at.SLEEP}
  store atomic ptr %task, ptr %p.task seq_cst, align 8
  store atomic i64 %number, ptr %p.data seq_cst, align 8
  store atomic i64 %total, ptr %p.total seq_cst, align 8
  store atomic i64 %part, ptr %p.part seq_cst, align 8
  %helpers = sub i64 %threads, 1
  store atomic i64 %helpers, ptr %p.wanted seq_cst, align 8
  store atomic i64 0, ptr %p.joined seq_cst, align 8
  store atomic i64 0, ptr %p.next seq_cst, align 8
  %before = atomicrmw add ptr %p.launches, i64 1 seq_cst
  %now = add i64 %before, 1
  store atomic i64 %now, ptr %p.open seq_cst, align 8
  call void @take_parts(i64 %words)
  store atomic i64 0, ptr %p.open seq_cst, align 8
  %sleep = load atomic ptr, ptr %p.sleep seq_cst, align 8
  br label %look
look:
  %looks = phi i64 [ 0, %share ], [ %more, %wait ], [ %more, %long ]
  %more = add i64 %looks, 1
  %inside = load atomic i64, ptr %p.inside seq_cst, align 8
  %left = icmp eq i64 %inside, 0
  br i1 %left, label %end, label %wait
wait:
  %patient = icmp ult i64 %looks, 20000
  br i1 %patient, label %look, label %long
long:
  %slept = call i32 %sleep(i64 {at.NAP})
  br label %look
end:
  store atomic i64 0, ptr %p.busy seq_cst, align 8
  ret void
}}
"""


class Module:
    """The text of a module with its function ``entry``.

    Attributes:
        inputs: the buffers at the beginning of the argument tuple, in order. Results, the arena and, if the module is
            ``threaded``, the pool follow. The pool is two integers: the address of its words, and the thread count.
        kernels: the number of kernels.
    """

    def __init__(self, steps: Sequence[Step], inputs: Sequence[Buffer], outs: Sequence[Buffer], arena: int) -> None:
        self.inputs = list(inputs)
        self.threaded = any(step.parts[0] > 1 for step in steps)
        self._names: dict[Kernel, str] = {}
        self._functions: list[str] = []
        self._declared: set[str] = set()
        body = Body()
        self._body = body
        slots = {buffer: number for number, buffer in enumerate([*inputs, *outs])}
        self._data = {buffer: self._item(number) for buffer, number in slots.items()}
        self._arena = self._item(len(slots)) if arena else "null"
        for number, buffer in enumerate(outs):
            buffer.index = len(inputs) + number
        self._extras = len(slots) + bool(arena) + self.threaded  # tuple index after inputs, results, arena and pool
        if self.threaded:
            pool = self._item(len(slots) + bool(arena))
            self._words = body.give(f"load i64, ptr {pool}, align 8")
            size = body.give(f"getelementptr inbounds i64, ptr {pool}, i64 1")
            self._threads = body.give(f"load i64, ptr {size}, align 8")
            body.do(f"%shared = alloca [{max(len(step.operands) for step in steps)} x ptr]")
        self._check_overlaps(steps)
        self._write_steps(steps)
        body.do("ret i32 0")
        body.block("others")
        body.do(f"ret i32 {ELEMENTS_DIFFER}")
        body.block("overlap")
        body.do(f"ret i32 {INPUTS_OVERLAP}")
        self.kernels = len(self._names)
        if self.threaded:
            self._declared.add("declare i64 @llvm.smin.i64(i64, i64)")
        entry = "define i32 @entry(ptr %tuple) {\nbegin:\n" + "\n".join(body.lines) + "\n}\n"
        shared = _LAUNCH if self.threaded else ""
        self.text = "\n".join([*sorted(self._declared), shared, *self._functions, entry, SCALAR_TEXT])

    def _write_steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._step(step)

    def _item(self, number: int) -> str:
        """Return a register with the address of the elements of an array in the tuple."""
        body = self._body
        slot = body.give(f"getelementptr inbounds i8, ptr %tuple, i64 {ITEMS + 8 * number}")
        item = body.give(f"load ptr, ptr {slot}, align 8")
        field = body.give(f"getelementptr inbounds i8, ptr {item}, i64 {HEAD}")
        return body.give(f"load ptr, ptr {field}, align 8")

    def _check_overlaps(self, steps: Sequence[Step]) -> None:
        """Check that two inputs, one of them written, do not overlap if they did not overlap in the trace."""
        body = self._body
        for pair in checked_pairs(steps):
            bounds = []
            for buffer in pair:
                start = body.give(f"ptrtoint ptr {self._data[buffer]} to i64")
                bounds.append([body.give(f"add i64 {start}, {away}") for away in (buffer.low, buffer.high)])
            (low, high), (other_low, other_high) = bounds
            before = body.give(f"icmp ult i64 {low}, {other_high}")
            behind = body.give(f"icmp ult i64 {other_low}, {high}")
            both, label = body.give(f"and i1 {before}, {behind}"), body.name()[1:]
            body.do(f"br i1 {both}, label %overlap, label %{label}")
            body.block(label)

    def _pointer(self, place: Place) -> str:
        buffer, offset = place.buffer, place.offset
        base = self._data.get(buffer)
        if base is None:
            base, offset = self._arena, offset + buffer.index
        return self._body.give(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def _step(self, step: Step) -> None:
        kernel = step.make(step)
        shared = step.parts[0] > 1
        name = self._names.get(kernel)
        if name is None:
            name = self._names[kernel] = f"k{len(self._names)}"
            parameters = kernel.parameters + (", i64 %start, i64 %stop" if shared else "")
            lines = "\n".join(kernel.lines)
            self._functions.append(
                f"define internal {kernel.result} @{name}({parameters}) noinline nounwind {{\nbegin:\n{lines}\n}}\n"
            )
            self._declared.update(kernel.declared)
            if shared:
                self._functions.append(_task(name, len(step.operands)))
        body, pointers = self._body, [self._pointer(place) for place in step.operands]
        given = ", ".join(f"ptr {pointer}" for pointer in pointers)
        if shared:
            blocks, least, _, each = step.parts
            for k, pointer in enumerate(pointers):
                body.do(f"store ptr {pointer}, ptr {body.give(f'getelementptr inbounds ptr, ptr %shared, i64 {k}')}")
            shares = body.give(f"mul i64 {self._threads}, {each}")
            if least > 1:  # as in ``threads.launch``
                most = body.give(f"mul i64 {self._threads}, {SHORT * least}")
                short = body.give(f"icmp sle i64 {blocks}, {most}")
                shares = body.give(f"select i1 {short}, i64 {self._threads}, i64 {shares}")
            raised = body.give(f"add i64 {shares}, {blocks - 1}")
            part = body.give(f"udiv i64 {raised}, {shares}")
            self._declared.add("declare i64 @llvm.smax.i64(i64, i64)")
            part = body.give(f"call i64 @llvm.smax.i64(i64 {part}, i64 {least})")
            body.do(
                f"call void @launch(i64 {self._words}, i64 {self._threads}, i64 {blocks}, i64 {part}, "
                f"ptr @{name}_task, ptr %shared)"
            )
        elif kernel.result == "i1":
            fine, label = body.give(f"call i1 @{name}({given})"), body.name()[1:]
            body.do(f"br i1 {fine}, label %{label}, label %others")
            body.block(label)
        else:
            body.do(f"call void @{name}({given})")


def _task(name: str, count: int) -> str:
    """Return a task of the thread pool that calls a kernel on a range."""
    lines = [
        f"define internal i32 @{name}_task(i64 %data, i64 %start, i64 %stop) {{",
        "  %place = inttoptr i64 %data to ptr",
    ]
    for k in range(count):
        lines.append(f"  %s{k} = getelementptr inbounds ptr, ptr %place, i64 {k}")
        lines.append(f"  %p{k} = load ptr, ptr %s{k}, align 8")
    given = "".join(f"ptr %p{k}, " for k in range(count))
    return "\n".join([*lines, f"  call void @{name}({given}i64 %start, i64 %stop)", "  ret i32 0", "}", ""])
