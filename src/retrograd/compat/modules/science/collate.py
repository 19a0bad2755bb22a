"""``utils.data._utils.collate``: names of PyTorch for the functions of ``data.collate``."""

from __future__ import annotations

import re
from typing import Any

from ....data.collate import (
    collate,
    collate_number_fn,
    collate_numpy_array_fn,
    collate_str_fn,
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
    default_convert,
)

NAMES: dict[str, str | dict[str, Any]] = {
    "collate": {
        "collate": collate, "collate_float_fn": collate_number_fn, "collate_int_fn": collate_number_fn,
        "collate_numpy_array_fn": collate_numpy_array_fn, "collate_numpy_scalar_fn": collate_numpy_array_fn,
        "collate_str_fn": collate_str_fn, "collate_tensor_fn": collate_tensor_fn, "default_collate": default_collate,
        "default_collate_err_msg_format": (
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
        ),
        "default_collate_fn_map": default_collate_fn_map, "default_convert": default_convert,
        "np_str_obj_array_pattern": re.compile(r"[SaUO]"),
    },
}  # fmt: skip
