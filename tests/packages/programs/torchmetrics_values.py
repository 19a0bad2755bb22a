"""Metrics of torchmetrics over batches."""

import torch
from common import data, show, tokens
from torchmetrics import AUROC, Accuracy, ConfusionMatrix, F1Score, MeanSquaredError, MetricCollection, PearsonCorrCoef
from torchmetrics.functional import r2_score

metrics = MetricCollection([Accuracy("multiclass", num_classes=4),
                            F1Score("multiclass", num_classes=4, average="macro"),
                            AUROC("multiclass", num_classes=4)])  # fmt: skip
matrix = ConfusionMatrix("multiclass", num_classes=4)
for batch in range(3):
    scores, target = data(f"scores{batch}", 16, 4).softmax(-1), tokens(f"target{batch}", 4, 16)
    metrics.update(scores, target)
    matrix.update(scores, target)
show(rounded=True, **{name: float(value) for name, value in metrics.compute().items()})
print("matrix", matrix.compute().tolist())
x, y = data("x", 20), data("y", 20)
error, correlation = MeanSquaredError().set_dtype(torch.float64), PearsonCorrCoef().set_dtype(torch.float64)
show(error=error(x, y), correlation=correlation(x, y), r2=r2_score(x, x + 0.1 * y))
