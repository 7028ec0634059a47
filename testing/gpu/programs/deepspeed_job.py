"""A rank of DeepSpeed's launcher trains with its ZeRO stages 0 to 3, and prints its losses.

``deepspeed --num_gpus 2 deepspeed_job.py``. The optimizer is PyTorch's: no extension is compiled.
"""

import argparse
import json
import os
import sys

import deepspeed
import hosts
import torch

STEPS = 12


def model():
    torch.manual_seed(3)
    layers = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU()) for _ in range(4)]
    return torch.nn.Sequential(torch.nn.Linear(64, 256), *layers, torch.nn.Linear(256, 10))


def train(stage, rank):
    net = model()
    zero = {"stage": stage, "overlap_comm": True, "stage3_param_persistence_threshold": 0}
    config = {
        "train_micro_batch_size_per_gpu": 32,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": stage > 0},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 1 << 30,
    }
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    engine, *_ = deepspeed.initialize(model=net, optimizer=optimizer, config=config)
    dtype = torch.bfloat16 if stage else torch.float32
    generator = torch.Generator(device="cuda").manual_seed(100 + rank)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(32, 64, device="cuda", generator=generator).to(dtype)
        y = torch.randint(10, (32,), device="cuda", generator=generator)
        loss = torch.nn.functional.cross_entropy(engine(x).float(), y)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    engine.destroy()
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", "0")))
    local = parser.parse_args().local_rank
    torch.cuda.set_device(local)
    hosts.divide(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    deepspeed.init_distributed("nccl")
    rank = torch.distributed.get_rank()
    for stage in range(4):
        said = {"rank": rank, "stage": stage, "losses": train(stage, rank)}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
