"""Map the tensor names of published GPT-2, Llama and BERT models to those of ``retrograd.models``.

An architecture is a function that constructs the model from its configuration, and rules for names: a pattern of the
published name, the corresponding name here, and a transformation of the array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import nn
from ..core.tensor.tensor import Tensor
from ..models import BERT, GPT2, Llama

Config = Mapping[str, Any]


def _same(x: Tensor) -> Tensor:
    return x


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(0, 1).contiguous()


@dataclass(frozen=True)
class Architecture:
    """A kind of model with published weights.

    ``prefixes`` may precede each name; ``names`` maps templates with ``{}`` for the layer number; ``ignored`` are
    prefixes of published names that the model does not use.
    """

    model: Callable[[Config, set[str]], nn.Module]
    prefixes: tuple[str, ...]
    names: dict[str, str]
    ignored: tuple[str, ...]
    changes: dict[str, Callable[[Tensor], Tensor]]

    def change(self, name: str) -> Callable[[Tensor], Tensor]:
        """Return the transformation of a tensor with this template as its published name."""
        return self.changes.get(name, _same)


def _refuse(config: Config, **wanted: object) -> None:
    """Raise ValueError if the configuration has an unsupported value."""
    for name, value in wanted.items():
        if name in config and config[name] not in (value if isinstance(value, tuple) else (value,)):
            raise ValueError(f"config.json has {name} = {config[name]!r}, which is not supported; it must be {value!r}")


def _number(config: Config, *names: str) -> Any:
    for name in names:
        if config.get(name) is not None:
            return config[name]
    raise ValueError(f"config.json has no {names[0]!r}")


def _gpt2(config: Config, names: set[str]) -> nn.Module:
    _refuse(
        config, activation_function=("gelu_new", "gelu_pytorch_tanh"), scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False, add_cross_attention=False, tie_word_embeddings=True,
    )  # fmt: skip
    return GPT2(
        _number(config, "vocab_size"), _number(config, "n_positions", "n_ctx"), _number(config, "n_layer"),
        _number(config, "n_head"), _number(config, "n_embd"), config.get("n_inner"), config.get("resid_pdrop", 0.1),
        config.get("layer_norm_epsilon", 1e-5),
    )  # fmt: skip


GPT2_NAMES = Architecture(
    _gpt2,
    ("transformer.",),
    {
        "wte.weight": "token.weight",
        "wpe.weight": "position.weight",
        "h.{}.ln_1.weight": "blocks.{}.norm1.weight",
        "h.{}.ln_1.bias": "blocks.{}.norm1.bias",
        "h.{}.attn.c_attn.weight": "blocks.{}.qkv.weight",
        "h.{}.attn.c_attn.bias": "blocks.{}.qkv.bias",
        "h.{}.attn.c_proj.weight": "blocks.{}.projection.weight",
        "h.{}.attn.c_proj.bias": "blocks.{}.projection.bias",
        "h.{}.ln_2.weight": "blocks.{}.norm2.weight",
        "h.{}.ln_2.bias": "blocks.{}.norm2.bias",
        "h.{}.mlp.c_fc.weight": "blocks.{}.mlp.0.weight",
        "h.{}.mlp.c_fc.bias": "blocks.{}.mlp.0.bias",
        "h.{}.mlp.c_proj.weight": "blocks.{}.mlp.2.weight",
        "h.{}.mlp.c_proj.bias": "blocks.{}.mlp.2.bias",
        "ln_f.weight": "norm.weight",
        "ln_f.bias": "norm.bias",
        "lm_head.weight": "head.weight",
    },
    ("h.{}.attn.bias", "h.{}.attn.masked_bias"),
    # The published layers compute x @ weight, so their weights are transposed.
    dict.fromkeys(
        ["h.{}.attn.c_attn.weight", "h.{}.attn.c_proj.weight", "h.{}.mlp.c_fc.weight", "h.{}.mlp.c_proj.weight"],
        _transposed,
    ),
)


def _llama(config: Config, names: set[str]) -> nn.Module:
    _refuse(config, hidden_act="silu", mlp_bias=False, pretraining_tp=1)
    rotary = config.get("rope_parameters") or config.get("rope_scaling")
    base = config.get("rope_theta") or (rotary or {}).get("rope_theta", 10000.0)
    return Llama(
        _number(config, "vocab_size"), _number(config, "max_position_embeddings"),
        _number(config, "num_hidden_layers"), _number(config, "num_attention_heads"), _number(config, "hidden_size"),
        config.get("num_key_value_heads"), _number(config, "intermediate_size"), config.get("head_dim"),
        config.get("rms_norm_eps", 1e-6), base, rotary, config.get("attention_bias", False),
        config.get("tie_word_embeddings", False),
    )  # fmt: skip


# The names of llama.cpp, of transformers, and here.
_LLAMA = [
    ("token_embd.weight", "embed_tokens.weight", "token.weight"),
    ("blk.{}.attn_norm.weight", "layers.{}.input_layernorm.weight", "blocks.{}.norm1.weight"),
    ("blk.{}.ffn_norm.weight", "layers.{}.post_attention_layernorm.weight", "blocks.{}.norm2.weight"),
    *[
        (f"blk.{{}}.ffn_{part}.weight", f"layers.{{}}.mlp.{part}_proj.weight", f"blocks.{{}}.{part}.weight")
        for part in ("gate", "up", "down")
    ],
    ("output_norm.weight", "norm.weight", "norm.weight"),
    ("output.weight", "lm_head.weight", "head.weight"),
    *[
        (f"blk.{{}}.attn_{other}.{kind}", f"layers.{{}}.self_attn.{theirs}_proj.{kind}", f"blocks.{{}}.{ours}.{kind}")
        for other, theirs, ours in (("q", "q", "q"), ("k", "k", "k"), ("v", "v", "v"), ("output", "o", "projection"))
        for kind in ("weight", "bias")
    ],
]
GGUF_NAMES = {other: theirs for other, theirs, _ in _LLAMA}

LLAMA_NAMES = Architecture(
    _llama,
    ("model.",),
    {theirs: ours for _, theirs, ours in _LLAMA},
    ("layers.{}.self_attn.rotary_emb.inv_freq",),
    {},
)


def _bert(config: Config, names: set[str]) -> nn.Module:
    _refuse(config, position_embedding_type="absolute", is_decoder=False)
    return BERT(
        _number(config, "vocab_size"), _number(config, "max_position_embeddings"),
        _number(config, "num_hidden_layers"), _number(config, "num_attention_heads"), _number(config, "hidden_size"),
        _number(config, "intermediate_size"), config.get("type_vocab_size", 2),
        config.get("hidden_dropout_prob", 0.1), config.get("layer_norm_eps", 1e-12),
        config.get("hidden_act", "gelu"), pooler="pooler.dense.weight" in names,
    )  # fmt: skip


def _pairs(theirs: str, ours: str) -> dict[str, str]:
    return {f"{theirs}.{kind}": f"{ours}.{kind}" for kind in ("weight", "bias")}


BERT_NAMES = Architecture(
    _bert,
    ("bert.",),
    {
        "embeddings.word_embeddings.weight": "token.weight",
        "embeddings.position_embeddings.weight": "position.weight",
        "embeddings.token_type_embeddings.weight": "segment.weight",
        **_pairs("embeddings.LayerNorm", "norm"),
        **_pairs("encoder.layer.{}.attention.self.query", "blocks.{}.q"),
        **_pairs("encoder.layer.{}.attention.self.key", "blocks.{}.k"),
        **_pairs("encoder.layer.{}.attention.self.value", "blocks.{}.v"),
        **_pairs("encoder.layer.{}.attention.output.dense", "blocks.{}.projection"),
        **_pairs("encoder.layer.{}.attention.output.LayerNorm", "blocks.{}.norm1"),
        **_pairs("encoder.layer.{}.intermediate.dense", "blocks.{}.mlp.0"),
        **_pairs("encoder.layer.{}.output.dense", "blocks.{}.mlp.2"),
        **_pairs("encoder.layer.{}.output.LayerNorm", "blocks.{}.norm2"),
        **_pairs("pooler.dense", "pooler"),
    },
    # Pre-training heads (masked words, next sentence) and heads of tasks.
    ("cls.", "embeddings.position_ids", "classifier.", "qa_outputs."),
    {},
)

ARCHITECTURES = {"gpt2": GPT2_NAMES, "llama": LLAMA_NAMES, "bert": BERT_NAMES}
