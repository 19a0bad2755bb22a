"""Vision transformers of vit-pytorch."""

from common import data, filled, gradients, show
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cait import CaiT

image = data("image", 2, 3, 32, 32)
size = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "heads": 4, "mlp_dim": 48}
for model in (ViT(**size, depth=2), SimpleViT(**size, depth=2), CaiT(**size, depth=2, cls_depth=1)):
    name = type(model).__name__
    loss = filled(model)(image).pow(2).mean()
    loss.backward()
    show(rounded=True, **{f"{name}_loss": float(loss), f"{name}_gradient": gradients(model)})
