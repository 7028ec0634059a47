"""Flexible attention with a mask of its own, and a product whose settings inductor tries out."""
import sys

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 50
torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
near = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 128), 2, 4, 512, 512)
attend = torch.compile(flex_attention)
q, k, v = (torch.randn(2, 4, 512, 64, device="cuda", requires_grad=True) for _ in range(3))
for _ in range(repeats):
    out = attend(q, k, v, block_mask=near)
    out.square().sum().backward()
print("flexible", f"{out.double().mean().item():.6g}", f"{q.grad.double().std().item():.6g}")


@torch.compile(mode="max-autotune-no-cudagraphs")
def product(a, b):
    return torch.relu(a @ b) + 1


a, b = (torch.randn(512, 512, device="cuda") for _ in range(2))
print("tried out", f"{product(a, b).double().mean().item():.4g}")
