"""transformers: a Llama of twelve layers in bf16 writes 128 tokens, greedily and by sampling."""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 128
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=16000,
    hidden_size=1024,
    intermediate_size=2816,
    num_hidden_layers=12,
    num_attention_heads=16,
    num_key_value_heads=4,
)
with torch.device(device):
    model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
print("parameters", sum(p.numel() for p in model.parameters()))
prompt = torch.randint(0, 16000, (2, 24), generator=torch.Generator().manual_seed(1)).to(device)
mask = torch.ones_like(prompt)
for settings in ({"do_sample": False}, {"do_sample": True, "top_k": 50, "temperature": 0.8}):
    with torch.inference_mode():
        out = model.generate(
            prompt, attention_mask=mask, max_new_tokens=tokens, pad_token_id=0, eos_token_id=None,
            **settings,
        )
    for row in out.tolist():
        print(row[24:])
