"""A detector of torchvision, whose compiled operators Retrograd has itself: training losses and detections."""

import torch
import torchvision
from common import data, filled, tokens

image = data("image", 3, 64, 64)
corner = tokens("corner", 30, 3, 2).double()
boxes = torch.cat([corner, corner + 8], 1)
detector = filled(torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
    weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=64, box_score_thresh=0.0
))  # fmt: skip
losses = detector.train()([image], [{"boxes": boxes, "labels": torch.tensor([1, 2, 1])}])
sum(losses.values()).backward()
print("losses", sorted(losses), all(bool(loss.isfinite()) for loss in losses.values()))
print("gradient", detector.roi_heads.box_head.fc6.weight.grad.abs().sum().item() > 0)
print("found", sorted(detector.eval()([image])[0]))
