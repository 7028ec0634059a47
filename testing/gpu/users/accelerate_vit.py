"""accelerate with bf16 and accumulated gradients: transformers' ViT, clipped and scheduled."""
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import ViTConfig, ViTForImageClassification, get_cosine_schedule_with_warmup

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
torch.use_deterministic_algorithms(True, warn_only=True)
set_seed(0)
precision = "bf16" if torch.cuda.is_available() else "no"
accelerator = Accelerator(mixed_precision=precision, gradient_accumulation_steps=2)
config = ViTConfig(
    image_size=64,
    patch_size=8,
    hidden_size=384,
    num_hidden_layers=8,
    num_attention_heads=6,
    intermediate_size=1536,
    num_labels=10,
)
model = ViTForImageClassification(config)
g = torch.Generator().manual_seed(1)
labels = torch.randint(0, 10, (1024,), generator=g)
images = torch.rand(1024, 3, 64, 64, generator=g) + labels.view(-1, 1, 1, 1) / 10
loader = DataLoader(TensorDataset(images, labels), 64, shuffle=True, pin_memory=True)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
schedule = get_cosine_schedule_with_warmup(optimizer, 10, steps)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
done = 0
while done < steps:
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = model(pixel_values=x, labels=y).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        done += 1
        if done % max(1, steps // 5) == 0:
            print(done, f"loss {loss.item():.7g} norm {float(norm) if done > 1 else 0:.5g}")
        if done == steps:
            break
