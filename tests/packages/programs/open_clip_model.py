"""A small CLIP of open_clip, with its loss."""

from common import data, filled, gradients, show, tokens
from open_clip.loss import ClipLoss
from open_clip.model import CLIP

vision = {"image_size": 32, "layers": 2, "width": 32, "head_width": 8, "patch_size": 8}
text = {"context_length": 12, "vocab_size": 64, "width": 32, "heads": 4, "layers": 2}
model = filled(CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text))
image, words, scale = model(data("image", 3, 3, 32, 32), tokens("text", 64, 3, 12))
loss = ClipLoss()(image, words, scale)
loss.backward()
show(loss=float(loss), gradient=gradients(model))
