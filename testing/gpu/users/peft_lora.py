"""peft: low-rank adapters on a frozen Llama in bf16, merged, saved and loaded again."""
import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
device = "cuda" if torch.cuda.is_available() else "cpu"
kind = torch.bfloat16 if device == "cuda" else torch.float32
torch.use_deterministic_algorithms(True, warn_only=True)
config = LlamaConfig(
    vocab_size=4000,
    hidden_size=768,
    intermediate_size=2048,
    num_hidden_layers=8,
    num_attention_heads=12,
    num_key_value_heads=12,
    use_cache=False,
)


def base():
    torch.manual_seed(0)
    return LlamaForCausalLM(config).to(device, kind)


torch.manual_seed(1)
lora = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj", "down_proj"])
model = get_peft_model(base(), lora)
trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
print("trained", trained, "of", sum(p.numel() for p in model.parameters()))
model.gradient_checkpointing_enable()
model.enable_input_require_grads()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-3)
g = torch.Generator().manual_seed(2)
text = torch.randint(0, 4000, (8, 128), generator=g).to(device)
for step in range(steps):
    loss = model(input_ids=text, labels=text).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % max(1, steps // 6) == 0:
        print("step", step, f"loss {loss.item():.7g}")
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    again = PeftModel.from_pretrained(base(), folder).eval()
    model.eval()
    with torch.no_grad():
        a, b = model(input_ids=text).logits, again(input_ids=text).logits
        print("loaded alike", torch.equal(a, b), f"{a.double().mean().item():.9g}")
        merged = again.merge_and_unload()
        print("merged", f"{merged(input_ids=text, labels=text).loss.item():.6g}")
