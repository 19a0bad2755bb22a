"""The public dtypes: objects like PyTorch's, which NumPy accepts as its own.

``retrograd.float32`` and ``x.dtype`` are instances of ``dtype``. NumPy's dtype cannot be subclassed, but NumPy accepts
any object as a dtype whose attribute ``dtype`` is one (``__numpy_dtype__`` from NumPy 2.4 on). The engine and the
operators work with NumPy's dtypes: ``x.array.dtype``, and the constants of the module ``dtypes``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

DType = np.dtype[Any]
if TYPE_CHECKING:
    _NumPyDType = DType
else:
    _NumPyDType = object


PublicDType: TypeAlias = "dtype"  # inside the class, ``dtype`` is an attribute

# NumPy's attributes except "shape" and "ndim": code treats objects with "dtype" and "shape" as arrays.
_NUMPY_ATTRIBUTES = (
    "alignment", "base", "byteorder", "char", "descr", "fields", "flags", "hasobject", "isalignedstruct", "isbuiltin",
    "isnative", "itemsize", "kind", "metadata", "name", "names", "newbyteorder", "num", "str", "subdtype", "type",
)  # fmt: skip


class dtype(_NumPyDType):  # type: ignore[misc]  # numpy.dtype is final; type checkers need its attributes
    """The dtype of a Tensor. There is one instance for each dtype, such as ``retrograd.float32``.

    NumPy accepts this object wherever NumPy accepts a dtype. The object equals NumPy's dtype and has the hash and the
    attributes of NumPy's dtype, such as ``kind``, ``name`` and ``type``.

    Args:
        spec: a dtype, its name, or its type.

    Attributes:
        is_floating_point: whether the numbers are floating-point numbers.
        is_complex: whether the numbers are complex.
        is_signed: whether the numbers can be negative.
        itemsize: bytes per number.
        dtype: NumPy's dtype.

    Raises:
        TypeError: Tensors have no such dtype: text, records, dates, and numbers in foreign byte order.

    >>> rg.dtype("float32") is rg.float32, rg.float32 == np.float32, rg.float32.is_floating_point
    (True, True, True)
    >>> np.zeros(2, rg.int16).dtype
    dtype('int16')
    """

    # __class__ is a subclass of numpy.dtype, so that isinstance(x.dtype, numpy.dtype) is True.
    __slots__ = (
        *_NUMPY_ATTRIBUTES, "__class__", "__numpy_dtype__", "dtype", "is_complex", "is_floating_point", "is_signed",
    )  # fmt: skip
    __module__ = "retrograd"

    package: ClassVar[str] = "retrograd"  # the prefix of printed names
    if TYPE_CHECKING:
        dtype: np.dtype[Any]
        is_complex: bool
        is_floating_point: bool
        is_signed: bool
    else:

        def __new__(cls, spec: object) -> Self:
            if type(spec) is cls:
                return spec
            if isinstance(spec, str):
                name = spec.removeprefix("torch.").removeprefix("retrograd.")
                spec = _BY_NAME.get(name, name)
                if type(spec) is cls:
                    return spec
            if spec is None:
                raise TypeError("dtype: expected a dtype, its name or its type, got None")
            return DTYPES[np.dtype(spec)]

        def __getattr__(self, name: str) -> Any:
            """Set NumPy's attributes on bfloat16 when one of them is first read, since importing ml_dtypes is slow."""
            if name not in ("dtype", "__class__", *_NUMPY_ATTRIBUTES):
                raise AttributeError(f"dtype {self.name} has no attribute {name!r}")
            try:
                _fill(self, _numpy_dtype(self.name))
            except TypeError as error:
                if name == "__class__":
                    return dtype
                raise error if name == "dtype" else AttributeError(str(error)) from None
            return getattr(self, name)

    @property
    def abbr(self) -> str:
        """PyTorch's short name, such as ``f32``."""
        short = self.name.replace("bool", "b8").replace("_", "")
        for word in ("complex", "float", "uint", "int"):
            short = short.replace(word, word[0])
        return short

    def to_complex(self) -> PublicDType:
        """Return the complex dtype whose parts have this dtype; a complex dtype returns itself."""
        if self.is_complex:
            return self
        name = _COMPLEX.get(self.name)
        if name is None:
            raise RuntimeError(f"to_complex: there are no complex numbers with parts in {self.name}")
        return _BY_NAME[name]

    def to_real(self) -> PublicDType:
        """Return the dtype of the parts of a complex dtype; a real dtype returns itself."""
        return _BY_NAME[_REAL[self.name]] if self.is_complex else self

    def __eq__(self, other: object) -> bool:
        if self is other or type(other) is dtype:
            return self is other
        try:
            return other is not None and bool(self.dtype == other)
        except TypeError:  # this dtype exists by name only
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        try:
            return hash(self.dtype)
        except TypeError:  # a dtype without numbers
            return hash(self.name)

    def __repr__(self) -> str:
        return f"{self.package}.{self.name}"

    __str__ = __repr__

    def __reduce__(self) -> str:
        return self.name  # pickled by name, in the module given by __module__, as in PyTorch

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _numpy_dtype(name: str) -> DType:
    """Return ml_dtypes' dtype for the name bfloat16; for other names, which no Tensor can have, raise TypeError."""
    if name != "bfloat16":
        named = _BY_NAME[name]
        use = "complex64" if named.is_complex else "float16 or float32" if named.is_floating_point else "int8 or uint8"
        raise TypeError(f"{dtype.package}.{name} exists by name only: Tensors cannot hold such numbers; use {use}")
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            "dtype bfloat16 needs ml_dtypes: pip install 'retrograd[bfloat16]', or use float32 or float16"
        ) from None
    return np.dtype(ml_dtypes.bfloat16)


def _new_dtype(name: str, kind: str, signed: bool, itemsize: int) -> dtype:
    made: dtype = object.__new__(dtype)
    attributes = {"is_floating_point": kind == "f", "is_complex": kind == "c", "is_signed": signed}
    for attribute, value in {"name": name, "itemsize": itemsize, **attributes}.items():
        setattr(made, attribute, value)
    _BY_NAME[name] = made
    return made


def _fill(made: dtype, numpy: DType) -> None:
    of_numpy = {name: getattr(numpy, name) for name in _NUMPY_ATTRIBUTES}
    for name, value in {**of_numpy, "__class__": type(numpy), "dtype": numpy, "__numpy_dtype__": numpy}.items():
        setattr(made, name, value)


class _Dtypes(dict[DType, dtype]):
    """A mapping from NumPy's dtypes. Platform-dependent dtypes (float128) are added at the first look-up."""

    def __missing__(self, numpy: DType) -> dtype:
        if numpy.name == "bfloat16":
            found = bfloat16
        elif numpy.kind in "fc" and numpy.isnative:
            return _known(numpy.type)
        elif numpy.kind in "biufc":
            raise TypeError(
                f"dtype: Tensors have no foreign byte order, got {numpy.str}; convert the array with "
                f"array.astype('{numpy.newbyteorder('=')}')"
            )
        else:
            raise TypeError(f"dtype: Tensors hold numbers, got {numpy}")
        self[numpy] = found
        return found


_BY_NAME: dict[str, dtype] = {}
DTYPES = _Dtypes()

_COMPLEX = {"float16": "complex32", "bfloat16": "complex64", "float32": "complex64", "float64": "complex128",
            "float128": "complex256"}  # fmt: skip
_REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64", "complex256": "float128"}


def _known(scalar: type[np.generic]) -> dtype:
    numpy = np.dtype(scalar)
    made = DTYPES[numpy] = _new_dtype(numpy.name, numpy.kind, numpy.kind not in "bu", numpy.itemsize)
    _fill(made, numpy)
    return made


bool_, uint8, int8, int16 = _known(np.bool_), _known(np.uint8), _known(np.int8), _known(np.int16)
int32, int64, uint16, uint32 = _known(np.int32), _known(np.int64), _known(np.uint16), _known(np.uint32)
uint64, float16, float32 = _known(np.uint64), _known(np.float16), _known(np.float32)
float64, complex64, complex128 = _known(np.float64), _known(np.complex64), _known(np.complex128)
bfloat16 = _new_dtype("bfloat16", "f", True, 2)


def _by_name(kind: str, signed: bool, itemsize: int, names: str) -> dict[str, dtype]:
    made = {name: _new_dtype(name, kind, signed, itemsize) for name in names.split()}
    for each in made.values():
        each.__class__ = dtype
    return made


# PyTorch's dtypes that exist by name only: programs import and compare them, but no Tensor has them.
NAMED_ONLY = {
    **_by_name("f", True, 1, "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float4_e2m1fn_x2"),
    **_by_name("f", False, 1, "float8_e8m0fnu"),
    **_by_name("c", True, 4, "complex32"),
    **_by_name("i", True, 1, "qint8 int1 int2 int3 int4 int5 int6 int7"),
    **_by_name("i", True, 4, "qint32"),
    **_by_name("u", False, 2, "bits16"),
    **_by_name(
        "u",
        False,
        1,
        "bits1x8 bits2x4 bits4x2 bits8 quint8 quint4x2 quint2x4 uint1 uint2 uint3 uint4 uint5 uint6 uint7",
    ),
}
