"""Batched and single generation with vLLM: its engine in a process of its own, compiled, with CUDA
graphs; a Llama-shaped model whose weights are made in place."""

import json
import os
import pathlib
import sys
import tempfile

for name, value in {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_DEEP_GEMM": "0",
}.items():
    os.environ.setdefault(name, value)

SHAPE = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=2048,
    intermediate_size=5632, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=8,
    vocab_size=32000, max_position_embeddings=4096, rms_norm_eps=1e-5, rope_theta=10000.0,
    hidden_act="silu", torch_dtype="bfloat16", tie_word_embeddings=False, bos_token_id=1,
    eos_token_id=2,
)


def main():
    from vllm import LLM, SamplingParams

    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 96
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "config.json").write_text(json.dumps(SHAPE))
    llm = LLM(
        model=str(folder), load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16",
        max_model_len=2048, seed=0, gpu_memory_utilization=0.25, disable_log_stats=True,
        compilation_config={"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 24]},
    )
    numbers = lambda n: [(17 * n + 31 * j * j) % 31000 + 5 for j in range(20 + 13 * n)]
    prompts = [{"prompt_token_ids": numbers(n)} for n in range(24)]

    def ask(prompts, **how):
        how = SamplingParams(ignore_eos=True, detokenize=False, **how)
        for answer in llm.generate(prompts, how, use_tqdm=False):
            said = list(answer.outputs[0].token_ids)
            print(len(said), sum(said), said[:12])

    ask(prompts, temperature=0.0, max_tokens=tokens)
    ask(prompts[:1], temperature=0.0, max_tokens=4 * tokens)
    ask(prompts[:4], temperature=0.8, top_p=0.9, top_k=50, seed=7, max_tokens=tokens // 2)


if __name__ == "__main__":
    main()
