"""Augmentation on the GPU by torchvision and by hand, and a model of timm with its optimizer."""
import sys

import numpy
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3
from torchvision.transforms import v2

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 80
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)
labels = torch.randint(0, 10, (512,), generator=g)
images = torch.randint(0, 128, (512, 3, 72, 72), generator=g, dtype=torch.uint8)
images += (labels * 12).to(torch.uint8).view(-1, 1, 1, 1)
images, labels = images.to(device), labels.to(device)
augment = v2.Compose([
    v2.RandomResizedCrop(64, scale=(0.6, 1.0), antialias=True),
    v2.RandomHorizontalFlip(),
    v2.ColorJitter(0.2, 0.2, 0.2, 0.05),
    v2.GaussianBlur(3),
    v2.ToDtype(torch.float32, scale=True),
    v2.Normalize([0.5] * 3, [0.25] * 3),
    v2.RandomErasing(0.3),
])
mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=0.0, label_smoothing=0.1, num_classes=10)
net = timm.create_model(
    "convnext_atto", pretrained=False, num_classes=10, drop_path_rate=0.0
).to(device)
average = ModelEmaV3(net, decay=0.98)
optimizer = create_optimizer_v2(net, "adamw", lr=2e-3, weight_decay=0.05)
schedule = CosineLRScheduler(optimizer, t_initial=steps, warmup_t=5, warmup_lr_init=1e-5)
criterion = SoftTargetCrossEntropy()
numpy.random.seed(3)
for step in range(steps):
    part = torch.randint(0, 512, (32,), generator=g).to(device)
    x = torch.cat([augment(images[p]) for p in part.split(8)])
    x, y = mixup(x, labels[part])
    with torch.autocast(device, torch.bfloat16):
        loss = criterion(net(x), y.to(x.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step(step + 1)
    average.update(net)
    if step % max(1, steps // 5) == 0:
        print("step", step, f"loss {loss.item():.6g} seen {x.double().mean().item():.7g}")
plain = v2.Compose([
    v2.CenterCrop(64), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)
])
average.module.eval()
with torch.no_grad():
    out = torch.cat([average.module(plain(images[i:i + 64])) for i in range(0, 512, 64)])
print("out", f"{out.double().mean().item():.7g}", int((out.argmax(1) == labels).sum()))
