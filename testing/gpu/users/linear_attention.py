"""flash-linear-attention: gated delta networks and gated linear attention, all of it Triton that
tries out its own settings."""
import sys

import torch
from fla.layers import GatedDeltaNet, GatedLinearAttention

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
torch.manual_seed(0)
for kind, more in ((GatedLinearAttention, {}), (GatedDeltaNet, {"head_dim": 64})):
    layer = kind(hidden_size=256, num_heads=4, **more).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(layer.parameters(), 1e-3)
    g = torch.Generator().manual_seed(1)
    for step in range(steps):
        x = torch.randn(4, 512, 256, generator=g).to("cuda", torch.bfloat16)
        out = layer(x)[0]
        loss = (out.float() - x.float().roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % max(1, steps // 4) == 0:
            print(kind.__name__, step, f"loss {loss.item():.5g}")
