"""Loss and gradients of models of timm, its optimizer and scheduler."""

import timm
import torch
from common import data, filled, gradients, show
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

image = data("image", 2, 3, 64, 64)
MODELS = {
    "resnet18": {}, "convnext_atto": {}, "efficientnet_b0": {}, "mobilenetv3_small_050": {},
    "vit_tiny_patch16_224": {"img_size": 64},
    "swin_tiny_patch4_window7_224": {"img_size": 64, "window_size": 4, "depths": (1, 1, 1, 1), "drop_path_rate": 0.0},
    "mixer_s32_224": {"img_size": 64}, "regnety_002": {}, "deit_tiny_patch16_224": {"img_size": 64},
}  # fmt: skip
for name, options in MODELS.items():
    model = filled(timm.create_model(name, num_classes=5, drop_rate=0.0, **options)).train()
    loss = model(image).pow(2).mean()
    loss.backward()
    show(**{f"{name}_loss": float(loss), f"{name}_gradient": gradients(model)})

features = filled(timm.create_model("resnet18", features_only=True)).eval()
print("features", [tuple(x.shape) for x in features(image)])
model = filled(timm.create_model("resnet18", num_classes=5)).eval()
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
scheduler = CosineLRScheduler(optimizer, t_initial=10)
for step in range(2):
    loss = torch.nn.functional.cross_entropy(model(image), torch.tensor([1, 2]))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step(step + 1)
show(loss=float(loss), rate=optimizer.param_groups[0]["lr"])
