"""diffusers: a UNet learns to remove noise with an averaged copy of its weights, then draws."""
import sys

import torch
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)
net = UNet2DModel(
    sample_size=32,
    in_channels=3,
    out_channels=3,
    layers_per_block=2,
    block_out_channels=(64, 128, 128),
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
).to(device)
average = EMAModel(net.parameters(), decay=0.99)
noiser = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(net.parameters(), 2e-4)
g = torch.Generator().manual_seed(1)
images = (torch.rand(256, 3, 1, 1, generator=g) * 2 - 1).expand(-1, -1, 32, 32).contiguous()
for step in range(steps):
    clean = images[torch.randint(0, 256, (16,), generator=g)].to(device)
    noise = torch.randn(clean.shape, generator=g).to(device)
    times = torch.randint(0, 1000, (16,), generator=g).to(device)
    loss = torch.nn.functional.mse_loss(
        net(noiser.add_noise(clean, noise, times), times).sample, noise
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.step(net.parameters())
    if step % max(1, steps // 5) == 0:
        print("step", step, f"loss {loss.item():.7g}")
average.copy_to(net.parameters())
net.eval()
sampler = DDIMScheduler(num_train_timesteps=1000)
sampler.set_timesteps(max(2, steps // 2))
x = torch.randn(4, 3, 32, 32, generator=g).to(device)
with torch.no_grad():
    for t in sampler.timesteps:
        x = sampler.step(net(x, t).sample, t, x).prev_sample
pixels = ((x.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).cpu()
print("pixels", int(pixels.long().sum()), pixels[:, :, 16, 16].tolist())
