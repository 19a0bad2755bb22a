"""The dtypes that users see answer as PyTorch's, and NumPy takes them as its own."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg

NUMBERS = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
NAMED_ONLY = [
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32", "qint8",
    "quint8",
]  # fmt: skip


@pytest.fixture
def bfloat16():
    pytest.importorskip("ml_dtypes")
    return rg.bfloat16


@pytest.mark.parametrize("name", NUMBERS)
def test_numpy_takes_a_dtype_wherever_it_takes_its_own(name):
    ours, numpys = getattr(rg, name), np.dtype(name)
    assert np.dtype(ours) == numpys and np.zeros(3, dtype=ours).dtype == numpys
    assert np.zeros(2).astype(ours, casting="unsafe").dtype == np.asarray([1], ours).dtype == numpys
    assert np.result_type(ours, ours) == np.promote_types(ours, numpys) == numpys
    assert np.issubdtype(ours, numpys.type) and np.can_cast(ours, numpys) and np.isdtype(ours, numpys)
    assert np.dtype([("a", ours)])["a"] == numpys
    limits = np.finfo if numpys.kind in "fc" else np.iinfo if numpys.kind in "iu" else None
    assert limits is None or limits(ours).max == limits(numpys).max


@pytest.mark.parametrize("name", NUMBERS)
def test_a_dtype_equals_numpys_in_both_directions_and_has_its_hash(name):
    ours, numpys = getattr(rg, name), np.dtype(name)
    assert ours == numpys and numpys == ours and ours == numpys.type and ours == name
    assert not ours.__ne__(numpys) and not numpys.__ne__(ours)
    assert hash(ours) == hash(numpys) and {ours: 1}[numpys] == {numpys: 1}[ours] == 1
    other = np.dtype("int8" if name != "int8" else "int16")
    assert ours != other and other != ours and ours != None and ours != "other" and ours != 1  # noqa: E711


@pytest.mark.parametrize("name", NUMBERS)
def test_a_dtype_has_numpys_attributes(name):
    ours, numpys = getattr(rg, name), np.dtype(name)
    missing = {each for each in dir(numpys) if not each.startswith("_") and not hasattr(ours, each)}
    assert missing == {"shape", "ndim"}  # which programs take for signs of an array
    for each in set(dir(numpys)) - missing:
        if not each.startswith("_") and each != "newbyteorder":
            assert getattr(ours, each) == getattr(numpys, each), each
    assert isinstance(ours, np.dtype) and isinstance(ours, type(numpys)) and isinstance(ours, rg.dtype)
    with pytest.raises(AttributeError, match="has no attribute 'sharpe'"):
        ours.sharpe


@pytest.mark.parametrize("name", [*NUMBERS, "bfloat16", *NAMED_ONLY])
def test_a_dtype_answers_as_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(rg, name), getattr(torch, name)
    for question in ("is_floating_point", "is_complex", "itemsize") + (() if name.startswith("q") else ("is_signed",)):
        assert getattr(ours, question) == getattr(theirs, question), question
    for question in ("to_real", "to_complex"):
        try:
            wanted = getattr(theirs, question)()
        except RuntimeError:
            with pytest.raises(RuntimeError, match="to_complex"):
                getattr(ours, question)()
        else:
            assert getattr(ours, question)() is getattr(rg, str(wanted).removeprefix("torch."))
    assert repr(ours).removeprefix("retrograd.") == repr(theirs).removeprefix("torch.")
    if theirs.is_floating_point or theirs.is_complex:
        assert repr(rg.finfo(ours)) == repr(torch.finfo(theirs))
        for limit in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
            assert getattr(rg.finfo(ours), limit) == getattr(torch.finfo(theirs), limit), limit
    elif name in NUMBERS and name != "bool":
        mine, other = rg.iinfo(ours), torch.iinfo(theirs)
        assert (mine.min, mine.max, mine.bits, mine.dtype) == (other.min, other.max, other.bits, other.dtype)


@pytest.mark.parametrize("name", [*NUMBERS, "bfloat16", *NAMED_ONLY])
def test_there_is_one_instance_of_each_dtype(name):
    dtype = getattr(rg, name)
    assert rg.dtype(name) is rg.dtype(dtype) is rg.dtype(f"torch.{name}") is dtype
    assert copy.copy(dtype) is copy.deepcopy([dtype])[0] is dtype
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype


@pytest.mark.parametrize("name", NUMBERS)
def test_a_tensor_has_the_one_instance_of_its_dtype(name):
    dtype = getattr(rg, name)
    x = rg.tensor(np.zeros(2, name))
    assert x.dtype is dtype and x.detach().dtype is dtype and rg.zeros(2, dtype=dtype).dtype is dtype
    assert rg.result_type(x, x) is rg.promote_types(dtype, name) is dtype
    assert rg.zeros(2).to(dtype).dtype is rg.zeros(2).type(dtype).dtype is dtype


def test_bfloat16_is_a_dtype_as_others(bfloat16):
    import ml_dtypes

    x = rg.ones(2, dtype=bfloat16)
    assert x.dtype is bfloat16 and np.zeros(2, bfloat16).dtype == ml_dtypes.bfloat16
    assert bfloat16 == np.dtype(ml_dtypes.bfloat16) and np.dtype(ml_dtypes.bfloat16) == bfloat16
    assert hash(bfloat16) == hash(np.dtype(ml_dtypes.bfloat16)) and isinstance(bfloat16, np.dtype)
    assert bfloat16 != rg.float32 and rg.float32 != bfloat16 and np.dtype("float32") != bfloat16
    assert (x + x).dtype is bfloat16 and bfloat16.name == "bfloat16" and bfloat16.kind == "V"


def test_bfloat16_has_a_name_where_its_package_is_missing():
    program = """if True:
        import sys
        sys.modules["ml_dtypes"] = None
        import numpy as np
        import retrograd as rg
        d = rg.bfloat16
        assert d.is_floating_point and d.itemsize == 2 and d in {d} and d != np.float32 and isinstance(d, rg.dtype)
        for use in (lambda: rg.ones(2, dtype=d), lambda: rg.ones(2).to(d), lambda: np.zeros(2, d)):
            try:
                use()
            except TypeError as error:
                assert "needs ml_dtypes" in str(error) or "interpret" in str(error)  # NumPy 2.0 has its own words
            else:
                raise AssertionError("no error")
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("name", NAMED_ONLY)
def test_a_dtype_without_numbers_is_refused_by_name(name):
    dtype = getattr(rg, name)
    assert dtype != np.float32 and np.dtype("float32") != dtype and dtype in {dtype} and not isinstance(dtype, np.dtype)
    with pytest.raises(TypeError, match="exists by name only|Cannot interpret"):  # NumPy before 2.4 has its own words
        np.zeros(2, dtype)
    for use in (
        lambda: rg.zeros(2, dtype=dtype),
        lambda: rg.ones(2).to(dtype),
        lambda: rg.tensor([1.0], dtype=dtype),
        lambda: rg.nn.Linear(2, 2).to(dtype),
    ):
        with pytest.raises(TypeError, match=f"retrograd.{name} exists by name only"):
            use()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ((">f4", "<f4")[sys.byteorder == "big"], "foreign byte order"),
        ([("a", "f4")], "numbers"),
        ("U3", "numbers"),
        ("datetime64[s]", "numbers"),
        (object, "numbers"),
        (None, "got None"),
        ("float33", "float33"),
    ],
)
def test_what_tensors_cannot_hold_is_no_dtype(spec, message):
    with pytest.raises(TypeError, match=message):
        rg.dtype(spec)


@pytest.mark.slow
def test_dtypes_print_as_pytorchs_where_retrograd_runs_as_pytorch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, pickle\n"
        "x = torch.ones(2, dtype=torch.float64)\n"
        "print(x.dtype, repr(x.dtype), x, f'{torch.bool} {torch.complex64}', x.dtype is torch.float64)\n"
        "print(isinstance(x.dtype, torch.dtype), pickle.loads(pickle.dumps(x.dtype)) is torch.double)\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "retrograd", "run", str(script)], capture_output=True, text=True, timeout=60
    )
    assert run.stdout == (
        "torch.float64 torch.float64 tensor([1., 1.], dtype=torch.float64) torch.bool torch.complex64 True\nTrue True\n"
    ), run.stderr
    assert str(rg.float64) == "retrograd.float64"
