"""Attacks on the unpickler of ``load``: pickles made opcode by opcode, in a process of its own with little memory.

What must hold: a pickle is loaded or refused by a CorruptFileError of one line; no class, function or module has
changed afterwards; what is loaded are plain values, Tensors and Modules, with no method replaced and no array of
objects.
"""

import io
import json
import pickle
import pickletools
import struct
import subprocess
import sys
import time
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from random import Random

import numpy as np
import pytest

import retrograd as rg
from retrograd.compat.files.sealed_pickle import Opaque
from retrograd.serialization import CorruptFileError

NAMES = [
    "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3", "torch._utils _rebuild_parameter_with_state",
    "torch._tensor _rebuild_from_type_v2", "torch Tensor", "torch Size", "torch device", "torch FloatStorage",
    "torch BoolStorage", "torch.storage UntypedStorage", "torch float32", "torch bool", "collections OrderedDict",
    "collections defaultdict", "collections Counter", "builtins set", "builtins frozenset", "__builtin__ dict",
    "builtins list", "builtins tuple", "builtins slice", "builtins range", "builtins complex", "builtins bytearray",
    "_codecs encode", "numpy._core.multiarray _reconstruct", "numpy._core.multiarray scalar", "numpy ndarray",
    "numpy dtype", "numpy._core.numeric _frombuffer", "retrograd.core.tensor.copies _rebuild",
    "retrograd.core.tensor.tensor Tensor",
    "retrograd.nn.parameter Parameter", "retrograd.nn.parameter Buffer", "retrograd.core.arrays.layout Size",
    "retrograd.core.arrays.devices Device", "retrograd.nn.layers.linear Linear",
    "retrograd.nn.base.containers Sequential",
    "retrograd.ops.reduce.reductions sum_", "retrograd.ops.nn.activations.rectifiers _relu", "os system",
    "builtins eval", "builtins getattr", "retrograd.nn.base.module Module.forward",
    "retrograd.nn.init np", "numpy memmap",
]  # fmt: skip
TEXTS = [
    "storage", "0", "1", "cpu", "cuda:0", "f4", "O", "i8", "b1", "U3", "V8", ">", "<", "|", "forward", "backward",
    "training", "_parameters", "_modules", "_buffers", "weight", "__class__", "_forward_hooks", "keys", "latin1", "C",
]  # fmt: skip
NUMBERS = [0, 1, 2, 3, 4, -1, 255, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63, -(2**63), 2**70]
RECORDS = {"0": bytes(range(1, 17)), "1": bytes(16)}


def named(name):
    return b"c%s\n%s\n" % tuple(name.encode().split(b" "))


def text(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value):
    return b"K%c" % value if 0 <= value < 256 else b"\x8a\x10" + value.to_bytes(16, "little", signed=True)


def some_number(random):
    return number(random.choice(NUMBERS[:5] if random.random() < 0.7 else NUMBERS))


def shape(random):
    return b"(" + b"".join(some_number(random) for _ in range(random.randrange(4))) + b"t"


def tensor(random):
    version, kind = (
        random.choice("23"),
        random.choice(["torch FloatStorage", "torch BoolStorage", "torch.storage UntypedStorage"]),
    )
    count = number(4 if "Float" in kind else 16) if random.random() < 0.8 else some_number(random)
    storage = b"(" + text("storage") + named(kind) + text(random.choice("012")) + text("cpu") + count + b"tQ"
    dtype = named(random.choice(["torch bool", "torch float32", "torch complex128"])) if version == "3" else b""
    args = (
        storage + some_number(random) + shape(random) + shape(random) + random.choice([b"\x88", b"\x89"]) + b"}" + dtype
    )
    return named(f"torch._utils _rebuild_tensor_v{version}") + b"(" + args + b"tR"


def array(random):
    empty = named("numpy._core.multiarray _reconstruct") + named("numpy ndarray") + b"K\0\x85C\1b\x87R"
    dtype = named("numpy dtype") + text(random.choice(["f4", "i8", "b1", "O", "V8", "U1"])) + b"\x89\x88\x87R"
    dtype += b"(K\3" + text(random.choice("<>|")) + b"NNN" + 3 * some_number(random) + b"tb"
    data = b"C%c" % (size := random.choice([0, 1, 4, 8, 16])) + random.choice([b"A", b"\0", b"\1"]) * size
    state = b"(K\1" + shape(random) + dtype + random.choice([b"\x88", b"\x89"]) + data + b"t"
    return empty + state + b"b" * random.choice([1, 1, 1, 2])


def copied(random):
    kind = random.choice(
        ["retrograd.core.tensor.tensor Tensor", "retrograd.nn.parameter Parameter", "retrograd.nn.parameter Buffer"]
    )
    attributes = b"}" + text(random.choice(TEXTS)) + plain(random, 4) + b"s"
    return (
        named("retrograd.core.tensor.copies _rebuild")
        + b"("
        + named(kind)
        + array(random)
        + text("cpu")
        + b"\x89"
        + attributes
        + b"tR"
    )


def module(random):
    kind = random.choice(
        [
            "retrograd.nn.layers.linear Linear",
            "retrograd.nn.base.containers Sequential",
            "retrograd.nn.base.module Module",
        ]
    )
    items = [text(random.choice(TEXTS)) + value(random, 3) for _ in range(random.randrange(4))]
    return named(kind) + b")\x81}(" + b"".join(items) + b"ub"


def plain(random, depth):
    inside = b"".join(value(random, depth + 1) for _ in range(random.randrange(4) if depth < 4 else 0))
    return random.choice(
        [
            some_number(random), text(random.choice(TEXTS)), b"N", b"\x88", b"G" + random.randbytes(8), b"C\2ab",
            b"\x8f", b"(" + inside + b"t", b"](" + inside + b"e", b"}(" + inside + b"u", b"\x8f(" + inside + b"\x90",
            named(random.choice(NAMES)), b"h%c" % random.randrange(4),
        ]
    )  # fmt: skip


def called(random, depth):
    args = b"(" + b"".join(value(random, depth + 1) for _ in range(random.randrange(4))) + b"t"
    state = value(random, depth + 1) + b"b" if random.random() < 0.3 else b""
    return named(random.choice(NAMES)) + args + random.choice([b"R", b"R", b"\x81", b"}\x92"]) + state


def value(random, depth=0):
    kind = random.randrange(10) if depth < 5 else 9
    made = (
        [tensor, array, copied, module][kind](random)
        if kind < 4
        else called(random, depth)
        if kind == 4
        else named(random.choice(NAMES)) + value(random, depth + 1) + b"b"
        if kind == 5
        else plain(random, depth)
    )
    return made + (b"q%c" % random.randrange(4) if random.random() < 0.3 else b"")


OPCODES = [opcode.code.encode("latin1") for opcode in pickletools.opcodes]
WHOLE = {
    "a": [1, 2.5, "x", None, (True, b"b"), {3}, 2**80], "array": np.arange(6.0).reshape(2, 3).T, "od": OrderedDict(b=1),
    "tensor": rg.ones(2, 3), "layer": rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.ReLU()), "size": rg.Size([1]),
    "c": 1j, "dd": defaultdict(list, a=[1]), "f": np.float32(1), "device": rg.device("cpu"), "sum": rg.sum,
}  # fmt: skip


def damaged(random):
    data = bytearray(pickle.dumps(WHOLE, random.choice([2, 4, 5])))
    for _ in range(random.choice([1, 1, 2, 4])):
        place = random.randrange(len(data))
        kind = random.randrange(5)
        if kind == 0:
            data[place] = random.randrange(256)
        elif kind == 1:
            del data[place : place + random.randrange(1, 9)]
        elif kind == 2:
            data[place:place] = random.choice([value(random), random.choice(OPCODES), random.randbytes(3)])
        elif kind == 3:
            other = random.randrange(len(data))
            data[place:place] = data[other : other + random.randrange(60)]
        else:
            data[place : place + 1] = random.choice(OPCODES)
    return bytes(data)


def files(content):
    """The pickle in each kind of file that holds one."""
    yield b"retrograd objects\n" + content
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, record in {"data.pkl": content, **{f"data/{key}": data for key, data in RECORDS.items()}}.items():
            file.writestr(f"archive/{name}", record)
    yield archive.getvalue()
    keys = [key for key in RECORDS if text(key) in content]
    storages = b"".join(struct.pack("<Q", 4 if key == "0" else 16) + RECORDS[key] for key in keys)
    head = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    yield b"".join(head) + content + pickle.dumps(keys, 2) + storages


def check(loaded, seen):
    if id(loaded) in seen or len(seen) > 300:
        return
    seen[id(loaded)] = loaded
    assert not isinstance(loaded, Opaque)
    attributes = getattr(loaded, "__dict__", {}) if isinstance(loaded, (rg.Tensor, rg.nn.Module, OrderedDict)) else {}
    assert not any(callable(getattr(type(loaded), name, None)) for name in attributes), attributes
    inside = list(attributes.values())
    if isinstance(loaded, (rg.Tensor, np.ndarray)):
        numbers = loaded.array if isinstance(loaded, rg.Tensor) else loaded
        assert not numbers.dtype.hasobject
        if numbers.size < 10_000:
            numbers.tobytes(), repr(numbers)  # the memory is there
    elif isinstance(loaded, dict):
        inside += loaded.values()
    elif isinstance(loaded, (list, tuple, set, frozenset)):
        inside += loaded
    for item in inside:
        check(item, seen)


def everything():
    """What no file may change."""
    kinds = [rg.Tensor, rg.nn.Parameter, rg.nn.Buffer, rg.nn.Module, rg.nn.Linear, rg.Size, OrderedDict, Counter]
    return [dict(vars(item)) for item in (*kinds, rg.sum, rg.nn.functional.relu, rg.nn.init, rg.serialization)]


def limit():
    """Little memory and time from now on, where the system can."""
    try:
        import resource
    except ImportError:
        return
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), used + (1 << 30)))


def attack(seed, seconds):
    for file in files(pickle.dumps(WHOLE["a"], 2)):
        rg.load(io.BytesIO(file))  # the libraries are there before the limit is
    rg.load(io.BytesIO(b"retrograd objects\n" + pickle.dumps(WHOLE, 4)))
    limit()
    before, end, counts = everything(), time.monotonic() + seconds, Counter()
    while time.monotonic() < end or counts["made"] < 20:
        print(f"Random({seed + counts['made']})", file=sys.stderr, flush=True)
        random = Random(seed + counts["made"])
        counts["made"] += 1
        content = damaged(random) if random.random() < 0.5 else b"\x80\2" + value(random) + b"."
        for file in files(content):
            try:
                loaded = rg.load(io.BytesIO(file))
            except CorruptFileError as error:
                assert str(error).isprintable() and len(str(error)) < 700, str(error)
                counts["refused"] += 1
            else:
                check(loaded, {})
                counts["loaded"] += 1
    assert everything() == before
    print(json.dumps(counts))


def run(statement, timeout):
    command = [sys.executable, "-c", f"from tests.attack import test_pickles as t; {statement}"]
    folder = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")


@pytest.mark.slow
@linux
def test_pickles_made_at_random_are_loaded_or_refused_and_change_nothing(long, random):
    counts = run(f"t.attack({int(random.integers(2**30))}, {120 if long else 1.0})", 300)
    print(counts)
    assert counts["refused"] and counts["loaded"]


MANY = b"".join(struct.pack("<cB", b"K", n) for n in range(200)) * 500
# A tuple of tuples, each twice in the next: its repr, and its hash, would never end.
ENDLESS = b"K\0\x94" + b"".join(b"h%ch%c\x86\x94" % (n, n) for n in range(60)) + b"0"
FLOATS = (
    named("numpy dtype") + text("f4") + b"\x89\x88\x87R(K\3" + text("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
)
HOSTILE = {
    "endless-shape": ENDLESS + named("numpy._core.multiarray _reconstruct") + named("numpy ndarray")
    + b"K\0\x85C\1b\x87R(K\1h\x3c" + FLOATS + b"\x89C\0tb",
    "endless-options": ENDLESS + named("retrograd.nn.layers.linear Linear") + b")}" + text("a") + b"h\x3cs\x92",
    "endless-size": ENDLESS + named("torch Size") + b"h\x3c\x85R",
    "endless-function": ENDLESS + b"h\x3c)R",
    "nested-defaults": named("collections defaultdict") + b"\x940" + b"h\0)RN" * 50_000 + b"h\0)R" + b"s" * 50_000,
    "class-as-container": named("builtins list") + b"]a",
    "forged-objects": named("builtins set") + named("numpy ndarray") + b"K\1\x85" + named("numpy dtype") + text("O")
    + b"\x85RC\x08" + b"A" * 8 + b"\x87R\x85R",
    "replaced-backward": named("retrograd.core.tensor.tensor Tensor") + b"}" + text("backward")
    + named("retrograd.ops.nn.activations.rectifiers _relu") + b"sb",
    "replaced-backward-slot": named("retrograd.core.tensor.tensor Tensor") + b"N}" + text("backward") + b"Ns\x86b",
    "attribute-of-an-operator": named("retrograd.ops.reduce.reductions sum_") + b"}" + text("x") + b"Nsb",
    "called-operator": named("retrograd.ops.reduce.reductions sum_") + b"K\1\x85R",
    "replaced-forward": named("retrograd.nn.layers.linear Linear") + b")\x81}" + text("forward") + b"Nsb",
    "replaced-class": named("retrograd.nn.layers.linear Linear") + b")\x81}" + text("__class__") + b"Nsb",
    "parameter-that-is-none": named("retrograd.nn.layers.linear Linear") + b")\x81}" + text("_parameters") + b"}"
    + text("weight") + b"K\1ssb",
    "two-states": named("retrograd.nn.layers.linear Linear") + b")\x81}b}b",
    "huge-memo": b"Nr\xff\xff\xff\xff" + b"h\0",
    "huge-bytes": b"\x8e" + struct.pack("<Q", 1 << 62),
    "large-bytes": b"\x8e" + struct.pack("<Q", 1 << 33),
    "huge-frame": b"\x95" + struct.pack("<Q", 1 << 62) + b"N",
    "huge-range": named("builtins list") + named("builtins range") + number(2**62) + b"\x85R\x85R",
    "huge-shape": named("numpy._core.multiarray _reconstruct") + named("numpy ndarray") + number(2**40)
    + b"\x85C\1b\x87R",
    "long-number": b"I" + b"9" * 100_000 + b"\n",
    "endless-hash": b"K\0\x94" + b"".join(b"h%ch%c\x86\x94" % (n, n) for n in range(60)) + b"0}h\x3cNs",
    "one-hash": b"}(" + b"".join(number(256 + n * (2**61 - 1)) + b"N" for n in range(20_000)) + b"u",
    "copies-of-bytes": b"B" + struct.pack("<I", 1 << 20) + bytes(1 << 20) + b"\x94" + named("builtins bytearray")
    + b"\x94](" + b"h\1h\0\x85R" * 20_000 + b"e",
    "copies-of-a-list": b"](" + MANY + b"e\x94" + named("builtins list") + b"\x94](" + b"h\1h\0\x85R" * 20_000 + b"e",
    "deep-key": b"}N" + b"\x85" * 100_000 + b"Ns",
    "nested-slices": named("builtins slice") + b"\x94N\x85R\x94" + b"0h\0h\1\x85R",
    "extension": b"\x82\1", "instance": b"(ios\nsystem\n", "object": b"(" + named("os system") + b"o",
    "persistent-text": b"Pa\n", "buffer": b"\x97", "no-utf-8": b"c\xff\n\xff\n",
    "long-name": b"c" + b"a." * 100_000 + b"\nb\n", "dots": named("retrograd.nn..x y"), "list-key": b"}]Ns",
    "function-in-a-list": b"]" + named("_codecs encode") + b"a",
    "storage-as-value": b"(" + text("storage") + named("torch FloatStorage") + text("0") + text("cpu") + b"K\4tQ",
    "left-over": b"NN", "no-value": b"", "mark": b"(", "odd-items": b"}(Nu", "terminal": named("os\x1b[2J system"),
}  # fmt: skip
DEEP = {
    "lists": b"]" * 100_000 + b"a" * 99_999,
    "tuples": b"N" + b"\x85" * 100_000,
    "dictionaries": b"}N" * 50_000 + b"}" + b"s" * 50_000,
    "shared": b"(]\x94" + b"".join(b"](" + b"h%c" % n * 9 + b"e\x94" for n in range(60)) + b"t",
    "circle": b"]\x94h\0a",
}


def refuse_all():
    rg.load(io.BytesIO(b"retrograd objects\n" + pickle.dumps(WHOLE, 4)))
    limit()
    found = {}
    for name, content in {**HOSTILE, **DEEP}.items():
        print(name, file=sys.stderr, flush=True)
        for file in list(files(b"\x80\4" + content + b"."))[:2]:
            try:
                loaded = rg.load(io.BytesIO(file))
                found.setdefault(name, []).append(f"loaded a {type(loaded).__name__}")
                del loaded
            except CorruptFileError as error:
                found.setdefault(name, []).append("refused" if str(error).isprintable() else repr(error))
    print(json.dumps(found))


@pytest.mark.slow
@linux
def test_hostile_pickles_are_refused_and_deep_ones_loaded_in_little_memory_and_time():
    before = everything()
    found = run("t.refuse_all()", 120)
    assert {name: found[name] for name in HOSTILE} == {name: ["refused"] * 2 for name in HOSTILE}
    assert all(answer.startswith("loaded") for name in DEEP for answer in found[name])
    assert everything() == before
