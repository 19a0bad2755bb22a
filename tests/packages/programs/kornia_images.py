"""kornia: colors, filters, geometry, and augmentations without random parameters."""

import kornia
import torch
from common import data, show

x = data("image", 1, 3, 8, 8).sigmoid().requires_grad_()
results = {
    "gray": kornia.color.rgb_to_grayscale(x),
    "hsv": kornia.color.rgb_to_hsv(x),
    "lab": kornia.color.rgb_to_lab(x),
    "blurred": kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)),
    "edges": kornia.filters.sobel(x),
    "median": kornia.filters.median_blur(x, (3, 3)),
    "turned": kornia.geometry.rotate(x, torch.tensor([30.0], dtype=x.dtype)),
    "resized": kornia.geometry.resize(x, (4, 4)),
    "dilated": kornia.morphology.dilation(x, torch.ones(3, 3, dtype=x.dtype)),
    "ssim": kornia.losses.ssim_loss(x, x.detach() * 0.9, 5),
    "flipped": kornia.augmentation.RandomHorizontalFlip(p=1.0)(x),
}
show(**results)
sum(value.pow(2).sum() for value in results.values()).backward()
show(gradient=x.grad)
matrix = kornia.geometry.axis_angle_to_rotation_matrix(torch.tensor([[0.1, 0.2, 0.3]], dtype=x.dtype))
points = data("points", 1, 5, 2)
show(rotation=matrix, homography=kornia.geometry.find_homography_dlt(points, points * 2 + 0.1))
