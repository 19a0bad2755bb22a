"""Embeddings and a training step of sentence-transformers, from a model and a tokenizer made here."""

import tempfile

import torch
from common import filled, show
from sentence_transformers import SentenceTransformer, losses, models, util
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as parts
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
words += ["a", "cat", "sits", "on", "the", "mat", "dog", "runs", "in", "park"]
tokenizer = Tokenizer(parts.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
                               sep_token="[SEP]", mask_token="[MASK]", model_max_length=16)  # fmt: skip
bert = BertModel(BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                            intermediate_size=48, hidden_dropout_prob=0.0,
                            attention_probs_dropout_prob=0.0))  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    filled(bert).save_pretrained(folder)
    fast.save_pretrained(folder)
    encoder = models.Transformer(folder, model_args={"dtype": torch.float64})
    model = SentenceTransformer(modules=[encoder, models.Pooling(32)], device="cpu")
sentences = ["a cat sits on the mat", "the dog runs in the park", "a cat"]
embeddings = model.encode(sentences, convert_to_tensor=True)
show(embeddings=embeddings, similarity=util.cos_sim(embeddings, embeddings))
features = [model.tokenize([s]) for s in sentences[:2]]
loss = losses.CosineSimilarityLoss(model)(features, torch.tensor([0.3], dtype=torch.float64))
loss.backward()
show(loss=float(loss))
