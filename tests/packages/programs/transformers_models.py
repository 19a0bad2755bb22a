"""Loss and gradients of small models of transformers, one of each family."""

from common import data, filled, gradients, show, tokens
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    CLIPConfig,
    CLIPModel,
    CLIPTextConfig,
    CLIPVisionConfig,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    RobertaConfig,
    RobertaForTokenClassification,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
)  # fmt: skip

SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ids = tokens("ids", 64, 2, 12)
language = {"input_ids": ids, "labels": ids}
GQA = {"num_key_value_heads": 2}

CASES = {
    "bert": (BertForSequenceClassification, BertConfig(**SMALL, **NO_DROPOUT, num_labels=3),
             {"input_ids": ids, "attention_mask": (ids > 5).long(), "labels": tokens("y", 3, 2)}),
    "roberta": (RobertaForTokenClassification, RobertaConfig(**SMALL, **NO_DROPOUT, num_labels=3, pad_token_id=1),
                {"input_ids": ids, "labels": tokens("y", 3, 2, 12)}),
    "distilbert": (DistilBertForMaskedLM, DistilBertConfig(vocab_size=64, dim=32, n_layers=2, n_heads=4, hidden_dim=48,
                                                           dropout=0.0, attention_dropout=0.0), language),
    "gpt2": (GPT2LMHeadModel, GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0,
                                         embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=1), language),
    "llama": (LlamaForCausalLM, LlamaConfig(**SMALL, **GQA), language),
    "mistral": (MistralForCausalLM, MistralConfig(**SMALL, **GQA, sliding_window=6), language),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SMALL, **GQA), language),
    "opt": (OPTForCausalLM, OPTConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                      ffn_dim=48, dropout=0.0, word_embed_proj_dim=32, max_position_embeddings=32),
            language),
    "t5": (T5ForConditionalGeneration, T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                dropout_rate=0.0, decoder_start_token_id=0), language),
    "vit": (ViTForImageClassification, ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                                 intermediate_size=48, image_size=16, patch_size=4, num_labels=3,
                                                 **NO_DROPOUT),
            {"pixel_values": data("image", 2, 3, 16, 16), "labels": tokens("y", 3, 2)}),
    "clip": (CLIPModel, CLIPConfig(
        text_config=CLIPTextConfig(**SMALL, max_position_embeddings=16, eos_token_id=63).to_dict(),
        vision_config=CLIPVisionConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                                       image_size=16, patch_size=4).to_dict(), projection_dim=16),
             {"input_ids": ids, "pixel_values": data("image", 2, 3, 16, 16), "return_loss": True}),
    "whisper": (WhisperForConditionalGeneration, WhisperConfig(
        vocab_size=64, num_mel_bins=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, d_model=32, max_source_positions=10,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, dropout=0.0),
                {"input_features": data("sound", 2, 8, 20), "labels": ids}),
}  # fmt: skip

for name, (kind, config, inputs) in CASES.items():
    model = filled(kind(config)).train()
    loss = model(**inputs).loss
    loss.backward()
    show(rounded=True, **{f"{name}_loss": float(loss), f"{name}_gradient": gradients(model)})
