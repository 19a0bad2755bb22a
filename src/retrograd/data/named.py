"""The named data sets, as NumPy arrays and text.

Files are searched in the folder that ``RETROGRAD_DATA`` names and in the cache folder, and otherwise downloaded to the
cache folder; ``progress(file, received, total)`` is called during the download. Without a network connection
``DataUnavailable`` says which file to save where; a damaged or truncated file raises ``DataCorrupt``.
"""

from __future__ import annotations

import hashlib
import io
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..ops.table.documentation import like
from .download import DataCorrupt, Progress, RemoteFile, read

HOUSING_COLUMNS = (
    "MedInc",
    "HouseAge",
    "AveRooms",
    "AveBedrms",
    "Population",
    "AveOccup",
    "Latitude",
    "Longitude",
    "MedHouseVal",
)
FASHION_MNIST_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

_HOUSING_FILE = Path(__file__).with_name("housing.npz")
_HOUSING_SHA256 = "dfc7196b549ceb93965f28d3f7ccebe691dd64f824df83055fad5dd58e1c15cd"


class HousingData(NamedTuple):
    """California housing: eight features of 20,640 block groups, and the target."""

    features: np.ndarray
    """float64, shape (20640, 8), in the order of `feature_names`."""
    target: np.ndarray
    """float64, shape (20640,): the median house value in units of 100,000 $."""
    feature_names: tuple[str, ...] = HOUSING_COLUMNS[:-1]


class ImageData(NamedTuple):
    """Labeled images in the standard split; images are uint8 of shape (n, 28, 28), labels int64 of shape (n,)."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def housing() -> HousingData:
    """California housing, included in the package, with scikit-learn's columns, order and units.

    From the 1990 census, StatLib; R. K. Pace and R. Barry, Sparse Spatial Autoregressions, Statistics and Probability
    Letters 33 (1997) 291-297.

    >>> from retrograd.data import housing
    >>> features, target, names = housing()
    >>> features.shape, target.shape, names[0], float(features[0, 0])
    ((20640, 8), (20640,), 'MedInc', 8.3252)
    """
    try:
        with np.load(io.BytesIO(_HOUSING_FILE.read_bytes())) as archive:
            table = np.ascontiguousarray(archive["table"], dtype=np.float64)
    except Exception as error:  # a damaged archive raises many types of errors
        raise DataCorrupt(f"{_HOUSING_FILE} is corrupt ({error}); install retrograd again") from error
    if table.shape != (20640, 9) or hashlib.sha256(table.astype("<f8").tobytes()).hexdigest() != _HOUSING_SHA256:
        raise DataCorrupt(f"{_HOUSING_FILE} is corrupt (its SHA-256 is not {_HOUSING_SHA256}); install retrograd again")
    return HousingData(table[:, :-1].copy(), table[:, -1].copy())


def mnist(download: bool = True, progress: Progress | None = None) -> ImageData:
    """MNIST: 60,000 and 10,000 handwritten digits.

    Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-based learning applied to document recognition, Proceedings of
    the IEEE 86 (1998) 2278-2324. In a data folder the files are ``mnist/train-images-idx3-ubyte.gz`` and so on, or the
    same without ``.gz``, decompressed.

    Args:
        download: download missing files to the cache; if False, missing files raise DataUnavailable.
        progress: called as ``progress(name, done, total)`` in bytes during a download.

    Raises:
        DataUnavailable: a file is missing and not downloaded.
        DataCorrupt: a file does not match its checksum.
    """
    return _images(_MNIST, download, progress)


@like(mnist, raises="DataUnavailable, DataCorrupt")
def fashion_mnist(download: bool = True, progress: Progress | None = None) -> ImageData:
    """Fashion-MNIST: 60,000 and 10,000 articles of clothing in the ten ``FASHION_MNIST_CLASSES``.

    H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747. In a data folder the files are
    ``fashion_mnist/train-images-idx3-ubyte.gz`` and so on, or the same without ``.gz``, decompressed.
    """
    return _images(_FASHION_MNIST, download, progress)


@like(mnist, raises="DataUnavailable, DataCorrupt")
def shakespeare(download: bool = True, progress: Progress | None = None) -> str:
    """Tiny Shakespeare: 1,115,394 characters of plays, 65 of them distinct. The file is ``tiny_shakespeare.txt``."""
    return read(_SHAKESPEARE, download, progress).decode("ascii")


@like(mnist, raises="DataUnavailable, DataCorrupt")
def names(download: bool = True, progress: Progress | None = None) -> list[str]:
    """32,033 first names in lower case, from US social security records of 2018. The file is ``names.txt``."""
    return read(_NAMES, download, progress).decode("ascii").splitlines()


_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_FASHION_MNIST_MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)


class _IdxFile(NamedTuple):
    name: str
    shape: tuple[int, ...]

    @property
    def header(self) -> bytes:
        """The IDX header: two zero bytes, the type (8 is uint8), the number of dimensions, each size in four bytes."""
        return bytes([0, 0, 8, len(self.shape)]) + b"".join(size.to_bytes(4, "big") for size in self.shape)

    def remote(
        self, folder: str, mirrors: tuple[str, ...], sha256: str | None = None, md5_of_download: str | None = None
    ) -> RemoteFile:
        urls = tuple(f"{mirror}{self.name}.gz" for mirror in mirrors)
        size = len(self.header) + math.prod(self.shape)
        return RemoteFile(f"{folder}/{self.name}", urls, size, sha256, md5_of_download, self.problem)

    def problem(self, content: bytes) -> str | None:
        """Return a description of what is wrong with the content, or None; labels must be 1-d and at most 9."""
        if content[: len(self.header)] != self.header or len(content) != len(self.header) + math.prod(self.shape):
            return f"not uint8 of shape {self.shape} in IDX format"
        if len(self.shape) == 1 and max(content[len(self.header) :]) > 9:
            return "it has labels above 9"
        return None

    def array(self, content: bytes) -> np.ndarray:
        """The content after the header; labels as int64."""
        array = np.frombuffer(content, np.uint8, offset=len(self.header)).reshape(self.shape)
        return array.astype(np.int64 if array.ndim == 1 else np.uint8)


_IDX_FILES = (
    _IdxFile("train-images-idx3-ubyte", (60000, 28, 28)),
    _IdxFile("train-labels-idx1-ubyte", (60000,)),
    _IdxFile("t10k-images-idx3-ubyte", (10000, 28, 28)),
    _IdxFile("t10k-labels-idx1-ubyte", (10000,)),
)
_MNIST_SHA256 = (
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)
# Checksums of the compressed files, because the authors publish none of the content.
_FASHION_MNIST_MD5 = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)
_MNIST = tuple(
    idx.remote("mnist", _MNIST_MIRRORS, sha256=sha256) for idx, sha256 in zip(_IDX_FILES, _MNIST_SHA256, strict=True)
)
_FASHION_MNIST = tuple(
    idx.remote("fashion_mnist", _FASHION_MNIST_MIRRORS, md5_of_download=md5)
    for idx, md5 in zip(_IDX_FILES, _FASHION_MNIST_MD5, strict=True)
)
_SHAKESPEARE = RemoteFile(
    "tiny_shakespeare.txt",
    ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",),
    1_115_394,
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
)
_NAMES = RemoteFile(
    "names.txt",
    ("https://raw.githubusercontent.com/karpathy/makemore/master/names.txt",),
    228_145,
    "0a30b5557f192f32ab962680889aac5f6fda0f4cecf40a6d0b5694f58ea8cc4d",
)


def _images(files: tuple[RemoteFile, ...], download: bool, progress: Progress | None) -> ImageData:
    return ImageData(*(idx.array(read(file, download, progress)) for idx, file in zip(_IDX_FILES, files, strict=True)))
