"""Weights in files of safetensors: shared Tensors, lazy reading, a whole model."""

import tempfile

import torch
from common import data, filled, show
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/weights.safetensors"
    tensors = {"a": data("a", 3, 4), "b": torch.arange(6, dtype=torch.int32).reshape(2, 3), "c": torch.ones(2).half(),
               "d": torch.tensor([True, False])}  # fmt: skip
    save_file(tensors, path, metadata={"made": "here"})
    again = load_file(path)
    print("dtypes", [str(again[name].dtype).split(".")[-1] for name in sorted(again)])
    show(same=str(all(torch.equal(again[name], tensors[name]) for name in tensors)), a=again["a"])
    with safe_open(path, framework="pt") as file:
        print("keys", sorted(file.keys()), file.metadata())
        show(part=file.get_slice("a")[1:, :2], shape=str(list(file.get_slice("a").get_shape())))
    show(bytes=load(save({"x": tensors["a"]}))["x"])
    model = filled(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)))
    model[1].weight = model[0].weight
    save_model(model, path)
    other = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)).double()
    other[1].weight = other[0].weight
    print("missing", *load_model(other, path))
    show(output=other(data("x", 2, 4)))
