"""A language model that generates text: each token is a new shape, for which cuDNN compiles."""
import torch

try:
    from transformers import LlamaConfig, LlamaForCausalLM
except ImportError as e:
    print("skipped:", e)
    raise SystemExit from None

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=8000,
    hidden_size=512,
    intermediate_size=1024,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=8,
)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
prompt = torch.randint(0, 8000, (2, 16), device="cuda")
with torch.no_grad():
    for _ in range(2):
        tokens = model.generate(prompt, max_new_tokens=24, do_sample=False, pad_token_id=0)
        print(tokens.tolist())
