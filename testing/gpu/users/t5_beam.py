"""transformers' T5 learns to turn sequences round, then writes them by a search with four beams."""
import sys

import torch
from transformers import T5Config, T5ForConditionalGeneration

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 120
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)
config = T5Config(
    vocab_size=64,
    d_model=256,
    d_kv=32,
    d_ff=1024,
    num_layers=4,
    num_heads=8,
    decoder_start_token_id=0,
    dropout_rate=0.0,
)
model = T5ForConditionalGeneration(config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
g = torch.Generator().manual_seed(1)
for step in range(steps):
    source = torch.randint(2, 64, (64, 16), generator=g).to(device)
    loss = model(input_ids=source, labels=source.flip(1)).loss
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % max(1, steps // 6) == 0:
        print("step", step, f"loss {loss.item():.7g}")
model.eval()
source = torch.randint(2, 64, (4, 16), generator=g).to(device)
out = model.generate(
    source, num_beams=4, max_new_tokens=16, num_return_sequences=2, length_penalty=0.8,
    return_dict_in_generate=True, output_scores=True,
)
for row, score in zip(out.sequences.tolist(), out.sequences_scores.tolist()):
    print(row, f"{score:.6g}")
