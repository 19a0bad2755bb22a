"""``SummaryWriter``, built on the package ``tensorboard``, for environments without tensorboardX."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from datetime import datetime
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np

from ....core.tensor.tensor import Tensor

Value: TypeAlias = Any  # an argument or a result of a function of PyTorch


def _array(value: Value) -> Value:
    return value.numpy(force=True) if isinstance(value, Tensor) else np.asarray(value)


class SummaryWriter:
    """Writes numbers, histograms, texts and images for TensorBoard.

    Args:
        log_dir: the folder; by default ``runs/`` with time and host name.
        comment: appended to the default folder.
        purge_step: accepted for compatibility.
        max_queue: how many events wait before they are written.
        flush_secs: seconds after which waiting events are written.
        filename_suffix: appended to the name of the file.

    Raises:
        ImportError: neither tensorboardX nor tensorboard is installed.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ImportError(
                "utils.tensorboard needs tensorboardX or tensorboard: pip install 'retrograd[tensorboard]'"
            ) from None
        if log_dir is None:
            log_dir = os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step, self.filename_suffix = purge_step, filename_suffix
        self.file_writer: Value = EventFileWriter(self.log_dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def _add(self, tag: str, step: int | None, walltime: float | None, plugin: str = "", **value: Value) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata

        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin)) if plugin else None
        summary = Summary(value=[Summary.Value(tag=tag, metadata=metadata, **value)])
        self.file_writer.add_event(
            Event(wall_time=time.time() if walltime is None else walltime, step=int(step or 0), summary=summary)
        )

    def add_scalar(
        self,
        tag: str,
        scalar_value: Value,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number."""
        self._add(tag, global_step, walltime, simple_value=float(_array(scalar_value).reshape(())))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Value],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers under ``main_tag/name``."""
        for name, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{name}", value, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Value,
        global_step: int | None = None,
        bins: Value = 64,
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how values are distributed."""
        from tensorboard.compat.proto.summary_pb2 import HistogramProto

        flat = _array(values).reshape(-1).astype(np.float64)
        if not flat.size:
            raise ValueError("The input has no element.")
        counts, edges = np.histogram(flat, max_bins or (64 if isinstance(bins, str) else bins))
        histogram = HistogramProto(
            min=flat.min(), max=flat.max(), num=flat.size, sum=flat.sum(), sum_squares=(flat * flat).sum(),
            bucket_limit=edges[1:], bucket=counts,
        )  # fmt: skip
        self._add(tag, global_step, walltime, histo=histogram)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a text in Markdown."""
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        text = TensorProto(dtype="DT_STRING", string_val=[text_string.encode()], tensor_shape=shape)
        self._add(f"{tag}/text_summary", global_step, walltime, "text", tensor=text)

    def add_image(
        self,
        tag: str,
        img_tensor: Value,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image. Floating-point pixels lie between 0 and 1, integers between 0 and 255."""
        from PIL import Image
        from tensorboard.compat.proto.summary_pb2 import Summary

        image = _array(img_tensor)
        if dataformats.upper() == "CHW":
            image = np.moveaxis(image, 0, -1)
        if image.dtype.kind == "f":
            image = np.clip(image * 255, 0, 255)
        image = image.astype(np.uint8)
        if image.ndim == 3 and image.shape[-1] == 1:
            image = image[..., 0]
        stream = BytesIO()
        Image.fromarray(image).save(stream, "PNG")
        encoded = Summary.Image(
            height=image.shape[0], width=image.shape[1], colorspace=image.shape[2] if image.ndim == 3 else 1,
            encoded_image_string=stream.getvalue(),
        )  # fmt: skip
        self._add(tag, global_step, walltime, image=encoded)

    def add_figure(
        self, tag: str, figure: Value, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a figure of Matplotlib as an image."""
        figure.canvas.draw()
        self.add_image(tag, np.asarray(figure.canvas.buffer_rgba()), global_step, walltime, "HWC")
        if close:
            from matplotlib import pyplot

            pyplot.close(figure)

    def add_hparams(
        self, hparam_dict: Mapping[str, Value], metric_dict: Mapping[str, Value], *args: Value, **options: Value
    ) -> None:
        """Write hyperparameters as a text, and metrics as numbers."""
        rows = "\n".join(f"| {name} | {value} |" for name, value in hparam_dict.items())
        self.add_text("hparams", f"| name | value |\n|---|---|\n{rows}")
        for name, value in metric_dict.items():
            self.add_scalar(name, value)

    def add_graph(self, model: Value, *args: Value, **options: Value) -> None:
        """Raise RuntimeError: there is no graph of PyTorch's compiler."""
        raise RuntimeError(
            "SummaryWriter.add_graph: there is no graph of PyTorch's compiler; use retrograd.inspect.draw"
        )

    def flush(self) -> None:
        """Write all waiting events to the file."""
        self.file_writer.flush()

    def close(self) -> None:
        """Write all waiting events and close the file."""
        self.file_writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
