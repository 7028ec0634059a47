"""liger-kernel: a small Llama trained with its Triton kernels in place of transformers' layers."""
import sys

import torch
from liger_kernel.transformers import apply_liger_kernel_to_llama
from transformers import LlamaConfig, LlamaForCausalLM

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)
apply_liger_kernel_to_llama()
config = LlamaConfig(vocab_size=4096, hidden_size=512, intermediate_size=1408,
                     num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), 3e-4, fused=True)
g = torch.Generator().manual_seed(1)
for step in range(steps):
    start = torch.randint(0, 4096, (8, 1), generator=g)
    tokens = (start + 7 * torch.arange(256)) % 4096
    tokens = tokens.to("cuda", non_blocking=True)
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % max(1, steps // 5) == 0:
        print("step", step, f"loss {loss.item():.6g}")
print("norm", f"{sum(p.double().square().sum().item() for p in model.parameters()) ** 0.5:.8g}")
