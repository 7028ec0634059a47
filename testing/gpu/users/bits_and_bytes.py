"""bitsandbytes: weights of four bits, products of eight, and an optimizer of eight bits."""
import sys

import bitsandbytes as bnb
import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)
net = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
for name, kind in (("adam8bit", bnb.optim.Adam8bit), ("paged", bnb.optim.PagedAdamW8bit),
                   ("lion", bnb.optim.Lion8bit)):
    optimizer = kind(net.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(64, 256, generator=g).cuda()
        loss = (net(x) - x.flip(1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(name, f"loss {loss.item():.6g}")
four = bnb.nn.Linear4bit(256, 1024, compute_dtype=torch.bfloat16, quant_type="nf4").cuda()
eight = bnb.nn.Linear8bitLt(256, 1024, has_fp16_weights=False).cuda()
x = torch.randn(64, 256, generator=g).cuda()
for name, layer, kind in (("four", four, torch.bfloat16), ("eight", eight, torch.float16)):
    with torch.no_grad():
        print(name, f"{layer(x.to(kind)).double().square().mean().item():.7g}")
packed, state = bnb.functional.quantize_4bit(x)
back = bnb.functional.dequantize_4bit(packed, state)
print("there and back", f"{(back - x).abs().max().item():.7g}")
