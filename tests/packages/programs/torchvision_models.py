"""torchvision: models, transforms and boxes."""

import torch
import torchvision
from common import data, filled, gradients, show, tokens
from torchvision import ops
from torchvision.transforms import v2

image = data("image", 2, 3, 64, 64)
for name in ("resnet18", "mobilenet_v3_small", "densenet121", "vgg11_bn", "shufflenet_v2_x0_5", "squeezenet1_1"):
    model = filled(getattr(torchvision.models, name)(num_classes=5)).eval()
    loss = model(image).pow(2).mean()
    loss.backward()
    show(**{f"{name}_loss": float(loss), f"{name}_gradient": gradients(model)})

changed = v2.Compose([v2.Resize((32, 40), antialias=True), v2.CenterCrop(24), v2.Normalize([0.1] * 3, [0.5] * 3)])
show(transformed=changed(image), flipped=v2.functional.horizontal_flip(image)[..., :3].sum())
pixels = tokens("pixels", 256, 3, 20, 20).to(torch.uint8)
show(gray=v2.functional.rgb_to_grayscale(pixels).double(), blurred=v2.functional.gaussian_blur(image, 5))

corner = tokens("corner", 30, 12, 2).double()
boxes = torch.cat([corner, corner + 4 + tokens("side", 20, 12, 2)], 1)
show(iou=ops.box_iou(boxes, boxes), giou=ops.generalized_box_iou(boxes, boxes), focal=ops.sigmoid_focal_loss(
    data("logits", 4, 3), (data("targets", 4, 3) > 0).double()).sum())  # fmt: skip
show(drop=ops.stochastic_depth(image, 0.5, "row", training=False), fpn=ops.FeaturePyramidNetwork([3], 4).double()(
    {"a": image})["a"].shape)  # fmt: skip
