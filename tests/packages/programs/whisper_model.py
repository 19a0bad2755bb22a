"""A small model of openai-whisper: its encoder, its decoder and a training step."""

from common import data, filled, gradients, show, tokens
from torch.nn.functional import cross_entropy
from whisper.model import ModelDimensions, Whisper

size = ModelDimensions(n_mels=8, n_audio_ctx=10, n_audio_state=32, n_audio_head=4, n_audio_layer=2, n_vocab=64,
                       n_text_ctx=16, n_text_state=32, n_text_head=4, n_text_layer=2)  # fmt: skip
model = filled(Whisper(size)).float()  # its LayerNorm computes in float32
words = tokens("words", 64, 2, 12)
logits = model(data("sound", 2, 8, 20).float(), words)
loss = cross_entropy(logits[:, :-1].flatten(0, 1), words[:, 1:].flatten())
loss.backward()
show(rounded=True, loss=float(loss), gradient=gradients(model))
