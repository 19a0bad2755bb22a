"""Diffusers: a training step of a U-Net, denoising with a scheduler, and an autoencoder."""

import torch
from common import data, filled, gradients, show, tokens
from diffusers import AutoencoderKL, DDIMScheduler, DDPMScheduler, UNet2DConditionModel, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel

unet = filled(UNet2DModel(
    sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
))  # fmt: skip
scheduler = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
rates = get_cosine_schedule_with_warmup(optimizer, 1, 10)
average = EMAModel(unet.parameters(), decay=0.9)
clean, noise, steps = data("clean", 2, 3, 16, 16), data("noise", 2, 3, 16, 16), tokens("steps", 100, 2)
for _ in range(2):
    noisy = scheduler.add_noise(clean, noise, steps)
    loss = torch.nn.functional.mse_loss(unet(noisy, steps, return_dict=False)[0], noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    rates.step()
    average.step(unet.parameters())
    show(loss=float(loss), gradient=gradients(unet))
    optimizer.zero_grad()

ddim = DDIMScheduler(num_train_timesteps=100)
ddim.set_timesteps(4)
image = data("start", 1, 3, 16, 16)
with torch.no_grad():
    for t in ddim.timesteps:
        image = ddim.step(unet(image, t).sample, t, image).prev_sample
show(image=image)

conditional = filled(UNet2DConditionModel(
    sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    cross_attention_dim=24, attention_head_dim=8,
))  # fmt: skip
out = conditional(data("latent", 2, 4, 8, 8), 7, encoder_hidden_states=data("text", 2, 5, 24)).sample
out.pow(2).mean().backward()
show(conditional=out, conditional_gradient=gradients(conditional))

vae = filled(AutoencoderKL(in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 2,
                           up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(16, 32), latent_channels=4,
                           norm_num_groups=8))  # fmt: skip
posterior = vae.encode(clean).latent_dist
show(mean=posterior.mean, kl=posterior.kl(), decoded=vae.decode(posterior.mode()).sample)
