"""Detection: a small DETR whose boxes are matched on the host each step; overlaps are dropped."""
import sys

import torch
import torchvision
from scipy.optimize import linear_sum_assignment
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)


class Detr(nn.Module):
    def __init__(self, width=128, queries=16, classes=4):
        super().__init__()
        whole = torchvision.models.resnet18(weights=None)
        self.body = nn.Sequential(*list(whole.children())[:-3])
        self.narrow = nn.Conv2d(256, width, 1)
        self.places = nn.Parameter(torch.randn(64, width) * 0.1)
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.mix = nn.Transformer(width, 4, 2, 2, 256, dropout=0.0, batch_first=True)
        self.kind, self.box = nn.Linear(width, classes + 1), nn.Linear(width, 4)

    def forward(self, x):
        x = self.narrow(self.body(x)).flatten(2).transpose(1, 2) + self.places
        x = self.mix(x, self.queries.expand(len(x), -1, -1))
        return self.kind(x), self.box(x).sigmoid()


def scenes(g, count=16):
    """Images of 128 by 128 with one to four coloured boxes."""
    images, targets = torch.zeros(count, 3, 128, 128), []
    for image in images:
        number = int(torch.randint(1, 5, (1,), generator=g))
        kinds = torch.randint(0, 4, (number,), generator=g)
        boxes = torch.rand(number, 4, generator=g) * 0.4 + torch.tensor([0.25, 0.25, 0.1, 0.1])
        for kind, box in zip(kinds, boxes):
            x, y, w, h = (box * 128).int().tolist()
            image[int(kind) % 3, y - h // 2:y + h // 2, x - w // 2:x + w // 2] = 0.3 + kind / 4
        targets.append((kinds, boxes))
    return images, targets


def corners(b):
    return torchvision.ops.box_convert(b, "cxcywh", "xyxy")


net = Detr().to(device)
optimizer = torch.optim.AdamW(net.parameters(), 3e-4)
g = torch.Generator().manual_seed(1)
weight = torch.tensor([1.0, 1, 1, 1, 0.2], device=device)
for step in range(steps):
    images, targets = scenes(g)
    kinds, boxes = net(images.to(device, non_blocking=True))
    want = torch.full(kinds.shape[:2], 4, dtype=torch.long, device=device)
    near = torch.zeros((), device=device)
    for i, (k, b) in enumerate(targets):
        k, b = k.to(device), b.to(device)
        with torch.no_grad():
            cost = torch.cdist(boxes[i], b, p=1) - kinds[i].softmax(-1)[:, k]
            cost -= torchvision.ops.generalized_box_iou(corners(boxes[i]), corners(b))
        rows, columns = linear_sum_assignment(cost.cpu().numpy())
        rows, columns = torch.as_tensor(rows, device=device), torch.as_tensor(columns).to(device)
        want[i, rows] = k[columns]
        near = near + (boxes[i, rows] - b[columns]).abs().mean()
    entropy = nn.functional.cross_entropy(kinds.flatten(0, 1), want.flatten(), weight)
    loss = entropy + near / len(targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % max(1, steps // 5) == 0:
        print("step", step, f"loss {loss.item():.6g}")
net.eval()
with torch.no_grad():
    kinds, boxes = net(scenes(g, 4)[0].to(device))
for k, b in zip(kinds.softmax(-1), boxes):
    scores, which = k[:, :4].max(-1)
    kept = torchvision.ops.batched_nms(corners(b), scores, which, 0.5)
    print(kept.tolist()[:8], [f"{s:.4f}" for s in scores[kept][:4].tolist()])
