"""LoRA of peft on a small Llama: only the adapters are trained, saved, and merged."""

import tempfile

import torch
from common import data, filled, show, tokens
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def base():
    return filled(LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48,
    )))  # fmt: skip


lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.0, task_type="CAUSAL_LM")
model = get_peft_model(base(), lora).double()
print("trainable", *model.get_nb_trainable_parameters())
with torch.no_grad():
    for name, p in model.named_parameters():
        if p.requires_grad:
            p.copy_(0.1 * data(name, *p.shape))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
ids = tokens("ids", 64, 2, 12)
for _ in range(3):
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
show(loss=float(loss))
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    again = PeftModel.from_pretrained(base(), folder).double()
with torch.no_grad():
    show(loaded=float(again(input_ids=ids, labels=ids).loss))
    merged = again.merge_and_unload()
    show(merged=float(merged(input_ids=ids, labels=ids).loss))
