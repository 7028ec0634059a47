"""transformers' Whisper: features of a synthetic sound, an encoder, and greedy decoding."""
import sys

import numpy as np
import torch
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 96
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = WhisperConfig(
    vocab_size=8000,
    d_model=384,
    encoder_layers=6,
    decoder_layers=6,
    encoder_attention_heads=6,
    decoder_attention_heads=6,
    encoder_ffn_dim=1536,
    decoder_ffn_dim=1536,
    pad_token_id=1,
    bos_token_id=2,
    eos_token_id=3,
    decoder_start_token_id=4,
    suppress_tokens=[],
    begin_suppress_tokens=[],
)
model = WhisperForConditionalGeneration(config).to(device).eval()
extractor = WhisperFeatureExtractor(feature_size=80)
time = np.arange(16000 * 20) / 16000
sounds = [np.sin(2 * np.pi * f * time * (1 + 0.1 * time)).astype(np.float32) for f in (220, 440)]
features = extractor(sounds, sampling_rate=16000, return_tensors="pt").input_features.to(device)
print("features", tuple(features.shape), f"{features.double().mean().item():.9g}")
with torch.no_grad():
    encoded = model.model.encoder(features).last_hidden_state
    print("encoded", f"{encoded.double().std().item():.7g}")
    ids = torch.full((2, 1), 4, device=device)
    cache = None
    for _ in range(tokens):
        out = model(
            encoder_outputs=(encoded,),
            decoder_input_ids=ids[:, -1:],
            past_key_values=cache,
            use_cache=True,
        )
        cache = out.past_key_values
        ids = torch.cat([ids, out.logits[:, -1].argmax(-1, keepdim=True)], 1)
for row in ids.tolist():
    print(row)
