"""Segmentation models, losses and metrics of segmentation-models-pytorch."""

import segmentation_models_pytorch as smp
from common import data, filled, gradients, show

image, mask = data("image", 2, 3, 64, 64), (data("mask", 2, 1, 64, 64) > 0).double()
for kind in (smp.Unet, smp.FPN, smp.DeepLabV3Plus):
    model = filled(kind("resnet18", encoder_weights=None, classes=1)).eval()
    output = model(image)
    loss = smp.losses.DiceLoss("binary")(output, mask) + smp.losses.FocalLoss("binary")(output, mask)
    loss.backward()
    show(**{f"{kind.__name__}_loss": float(loss), f"{kind.__name__}_gradient": gradients(model)})
counts = smp.metrics.get_stats((output.sigmoid() > 0.5).long(), mask.long(), mode="binary")
show(iou=smp.metrics.iou_score(*counts, reduction="micro"))
