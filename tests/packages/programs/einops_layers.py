"""einops: rearranging, reducing, and its layers."""

import torch
from common import data, filled, gradients, show
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

x = data("x", 2, 3, 8, 8)
model = filled(torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
    EinMix("b n c -> b n d", weight_shape="c d", bias_shape="d", c=48, d=5), Reduce("b n d -> b d", "mean"),
))  # fmt: skip
model(x).pow(2).sum().backward()
show(output=model(x), gradient=gradients(model), reduced=reduce(x, "b c h w -> b c", "max"))
show(repeated=repeat(x, "b c h w -> b c h (w k)", k=2), product=einsum(x, x, "b c h w, b c h v -> b w v"))
packed, shapes = pack([x, data("y", 2, 5)], "b *")
show(packed=packed, parts=str([tuple(part.shape) for part in unpack(packed, shapes, "b *")]))
show(order=rearrange(x, "b c h w -> b h w c")[0, 1, 2])
