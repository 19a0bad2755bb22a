"""tensordict: indexing, stacking, and a module over a dictionary."""

import torch
from common import data, filled, show
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

batch = TensorDict({"x": data("x", 4, 3), "nested": {"y": data("y", 4, 2)}}, batch_size=[4])
show(x=batch[1:3]["x"], y=batch["nested", "y"], size=str(tuple(batch.batch_size)))
both = torch.stack([batch, batch])
show(stacked=both["x"], shape=str(tuple(both.batch_size)))
model = TensorDictModule(filled(torch.nn.Linear(3, 5)), in_keys=["x"], out_keys=["out"])
show(out=model(batch)["out"])
