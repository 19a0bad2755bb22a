"""Every way out of a Tensor into Python is a guard, a refusal or right, with fallback and without."""

# ruff: noqa: F401 (the expressions below use what is imported)
import collections
import copy
import decimal
import fractions
import gc
import io
import itertools
import json
import math
import pickle
import struct
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import retrograd as rg
from retrograd.compiler import DataDependent
from tests.compiler.programs.ways import compiling


@pytest.fixture(autouse=True, scope="module")
def few_objects():
    """Hide what earlier tests have made from the collector, as conftest.py does: a refused trace searches the rest."""
    gc.freeze()


def on_a_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def on_a_pool(function):
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(function, [1.0, 2.0]))


def printed(value):
    file = io.StringIO()
    print(value, file=file)
    return len(file.getvalue())


def matched(n):
    match n:
        case 1.0:
            return 3.0
        case 2.0:
            return 4.0
    return 5.0


def caught(n):
    try:
        return float(n)
    except RuntimeError:
        return 0.0


# Expressions of a Tensor x with one element, its sum n and that as an int, i.
TEXT = """
format(n, '.1f') | '{}'.format(n) | '{:.2f}'.format(n) | f'{n}' | f'{n!r}' | str(n) | repr(n) | '%s' % n
'%.3f' % n | str(x * 1000) | repr(x.sum() * 1000) | f'{x.sum() * 1000}' | f'{x.sum():.2f}' | '%s' % (x * 1000)
str([n]) | str({'a': n}) | f'{i:03d}' | str(i) | str(np.sqrt(n) * 1000) | f'{np.sqrt(n):.3f}' | f'{n=}' | '%d' % n
bin(i) | hex(i) | np.array_str(x.numpy()) | str(x.tolist()) | str((x > 1.5).item())
"""
NUMBER = """
round(n) | round(n * 1.234, 1) | divmod(n, 2)[1] | divmod(30, i)[1] | divmod(i, 3)[0] | pow(i, 2, 7) | pow(2, n)
n ** 0.5 | n // 3 | n % 3 | -n | abs(-n) | ~i | i << 2 | 1 << i | ~(n > 1.5) | (n > 1.5) * 2.0 | i & 1
i.bit_length() | math.sqrt(n) | math.floor(n) | math.ceil(n * 1.1) | math.isnan(n) | math.fsum([n, 1])
math.comb(12, i) | np.sqrt(n) | np.maximum(n, 1.5) | np.array([n, 1.0]).sum() | np.float32(n)
np.where(n > 1.5, 1.0, 2.0) | np.arange(n).sum() | np.sqrt(n).is_integer() | np.sqrt(n).astype(np.float32)
np.sqrt(n).tobytes()[7] | round(np.sqrt(n), 1) | hash(np.sqrt(n)) % 5 | hash(n) % 7
{1.0: 5.0, 2.0: 6.0}.get(n, 0.0) | {1: 5.0, 2: 6.0}.get(i, 0.0) | n in {1.0, 2.0} | n in [1.0] | len({n, 1.0})
sorted([n, 1.5])[0] | sorted([1.5, 3.0], key=lambda v: abs(v - n))[0] | min(n, 1.5) | max([n, 1.5]) | sum([n, n])
any([n > 1.5]) | struct.unpack('f', struct.pack('f', n))[0] | pickle.loads(pickle.dumps(n)) | copy.deepcopy([n])[0]
copy.copy(n) | float(fractions.Fraction(n)) | float(decimal.Decimal(str(n))) | n.is_integer()
n.as_integer_ratio()[0] | len(n.hex()) | n.real | 1.0 if n > 1.5 else 2.0 | n and 3.0 | not n | float(n) | int(n)
complex(n).real | bool(n > 1.5) | n == 1.0 | (n > 1.5) is True | (x.sum() > 1.5).item() is True
{True: 3.0, False: 4.0}[n == 1.0] | (3.0, 4.0)[n == 1.0] | matched(n) | caught(n) | sum(range(i))
list(range(20))[i] | 'abcdefghijklm'[i] == 'b' | len('ab' * i) | len(i * [1.0]) | len((1.0,) * i) | len(b'a' * i)
len([1, 2, 3, 4][:i]) | np.arange(20.0)[i] | np.arange(20.0)[:i].sum() | len(list(itertools.repeat(1.0, i)))
chr(65 + i) == 'B' | len(list(itertools.takewhile(lambda v: v < n, [0.0, 1.0, 2.0])))
sum(v * n for v in (1.0, 2.0)) | collections.Counter([n])[1.0] | x.tolist()[0] | x.numpy()[0]
float(sum(x.numpy())) | x.numpy().mean().item() | float(x.sum()) | [v.item() for v in x][0] | 1.0 in x
x.is_nonzero() | rg.equal(x, rg.ones(1)) | rg.allclose(x, rg.ones(1)) | (x == 1).all().item() | len(x[x > 1.5])
x.nonzero().shape[0] | list(range(20))[x.sum().long()] | pickle.loads(pickle.dumps(x)).sum()
copy.deepcopy(x).sum() | rg.tensor(n) | rg.tensor([n, 2.0])[0] | rg.full((1,), n) | rg.arange(n).sum()
rg.ones(i).sum() | x.repeat(i).sum() | x ** n | on_a_thread(lambda: n * 2) | on_a_thread(lambda: (x * 2).sum())
on_a_thread(lambda: float(f'{n}')) | on_a_pool(lambda k: n * k) | on_a_pool(lambda k: (x * k).sum())
on_a_thread(lambda: 1.0 if n > 1.5 else 2.0) | printed(n * 1000) | printed(x * 1000)
"""
REFUSED_BY_C = """
json.loads(json.dumps(n)) | json.loads(json.dumps({'a': n}))['a'] | float(decimal.Decimal(n))
float.__add__(n, 1.0)
"""


def expressions(text):
    return [part.strip() for line in text.strip().splitlines() for part in line.split(" | ")]


def check(text, fallback, refused):
    value_of = eval(f"lambda x, n, i: {text}", globals())

    def f(x):
        n, i = x.sum().item(), x.sum().long().item()
        value = value_of(x, n, i)
        if isinstance(value, str):
            value = sum(map(ord, value))
        return x * value, value

    compiled = rg.compile(f, fallback=fallback)
    for k in (1.0, 2.0, 10.0, 1.0, 5.0):
        wanted = f(rg.full((1,), k))
        try:
            found = compiled(rg.full((1,), k))
        except refused:
            assert not fallback, f"{text}: refused with fallback"
            continue
        for got, want in zip(found, wanted, strict=True):
            arrays = isinstance(got, np.ndarray) and isinstance(want, np.generic)  # a scalar may be an array
            assert arrays or type(got) is type(want), f"{type(got)} for {type(want)}"
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6, err_msg=text)


def check_all(texts, fallback, refused=(DataDependent,)):
    failed = []
    with warnings.catch_warnings(), compiling("loops"):
        warnings.simplefilter("ignore")
        for text in texts:
            try:
                check(text, fallback, refused)
            except Exception as error:
                failed.append(f"{text}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("fallback", [False, True], ids=["strict", "fallback"])
def test_text_made_of_numbers_is_of_the_call(fallback):
    check_all(expressions(TEXT), fallback)


@pytest.mark.slow
@pytest.mark.parametrize("fallback", [False, True], ids=["strict", "fallback"])
def test_numbers_that_python_makes_of_tensors_are_of_the_call(fallback):
    check_all(expressions(NUMBER), fallback)


def test_functions_in_c_that_want_a_float_itself_get_it_with_fallback():
    check_all(expressions(REFUSED_BY_C), True)
    check_all(expressions(REFUSED_BY_C), False, (TypeError,))
    with pytest.raises(TypeError) as caught:
        rg.compile(lambda x: json.dumps(x.sum().item()), fallback=False)(rg.ones(1))
    assert "fallback=True" in caught.value.__notes__[0]


def test_a_refusal_that_the_function_catches_is_raised_all_the_same():
    def f(x):
        try:
            return x * float(x.sum())
        except RuntimeError:
            return x

    with pytest.raises(DataDependent):
        rg.compile(f, fallback=False)(rg.ones(2))


def test_a_number_stays_one_when_it_is_copied():
    @rg.compile(fallback=False)
    def f(x):
        return copy.deepcopy({"n": x.sum().item()})["n"] * x

    assert [f(rg.full((1,), k)).item() for k in (1.0, 2.0, 3.0)] == [1.0, 4.0, 9.0] and f.traces == 1


SHAPED_BY_ELEMENTS = {
    "unique": rg.unique,
    "unique with counts": lambda x: rg.unique(x, return_inverse=True, return_counts=True),
    "unique rows": lambda x: rg.unique(x.reshape(2, 2), dim=0),
    "unique_consecutive": lambda x: rg.unique_consecutive(x, return_inverse=True, return_counts=True),
    "count_nonzero": rg.count_nonzero,
    "count_nonzero of rows": lambda x: rg.count_nonzero(x.reshape(2, 2), dim=1),
    "nonzero": rg.nonzero,
    "argwhere": rg.argwhere,
    "masked_select": lambda x: x.masked_select(x > 0),
    "a mask": lambda x: x[x > 0],
    "where": lambda x: rg.where(x > 0),
    "bincount": lambda x: rg.bincount(x.long()),
    "histc": lambda x: rg.histc(x, bins=3),
    "isin": lambda x: rg.isin(x, x.unique()),
    "bucketize": lambda x: rg.bucketize(x, x.unique()),
    "repeat_interleave": lambda x: rg.repeat_interleave(x, x.long()),
    "one_hot": lambda x: rg.nn.functional.one_hot(x.long()),
    "median": rg.median,
    "mode": rg.mode,
    "broadcast_tensors": lambda x: rg.broadcast_tensors(x, x.reshape(4, 1)),
    "meshgrid": lambda x: rg.meshgrid(x, x + 1, indexing="ij"),
    "aminmax": rg.aminmax,
    "cumulative": lambda x: rg.cummax(x, 0),
    "a quantile": lambda x: rg.quantile(x, 0.3),
    "tensor_split": lambda x: rg.tensor_split(x, 3),
    "lstsq": lambda x: rg.linalg.lstsq(x.reshape(2, 2) + rg.eye(2), x.reshape(2, 2)).solution,
    "matrix_rank": lambda x: rg.linalg.matrix_rank(x.reshape(2, 2)),
    "slogdet": lambda x: rg.linalg.slogdet(x.reshape(2, 2)),
    "frexp": rg.frexp,
}


@pytest.mark.parametrize("name", SHAPED_BY_ELEMENTS)
def test_results_whose_shape_or_number_depends_on_elements_are_of_the_call(name):
    function = SHAPED_BY_ELEMENTS[name]
    compiled = rg.compile(function, fallback=True)
    for numbers in ([1.0, 1.0, 0.0, 2.0], [1.0, 2.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0], [3.0, 3.0, 1.0, 1.0]):
        for _ in range(2):
            one, other = compiled(rg.tensor(numbers)), function(rg.tensor(numbers))
            rg.testing.assert_close(one, other)
