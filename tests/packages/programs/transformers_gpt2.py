"""GPT-2 of transformers: training steps, saving and loading, greedy generation."""

import tempfile

import torch
from common import filled, show, tokens
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1,
                    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)  # fmt: skip
model = filled(GPT2LMHeadModel(config))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = get_linear_schedule_with_warmup(optimizer, 2, 10)
ids = tokens("ids", 64, 4, 16)
for _ in range(5):
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
show(rounded=True, loss=float(loss))
show(rate=scheduler.get_last_lr()[0])

with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    again = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float64)
show(rounded=True, loaded=float(again(input_ids=ids, labels=ids).loss))
result = again.generate(ids[:1, :4], max_new_tokens=8, do_sample=False, pad_token_id=0)
print("generated", result[0].tolist())
beams = again.generate(ids[:1, :4], max_new_tokens=6, num_beams=3, do_sample=False, pad_token_id=0)
print("beams", beams[0].tolist())
