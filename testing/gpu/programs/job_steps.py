"""Ranks that train for ever, started as a script starts them, each left alone if others end.

``job_steps.py [RANKS]`` starts two or as many as that and waits for all; what each prints begins
with its rank: its process, its steps, and how it ended. ``jobs.py`` kills what they need meanwhile.
"""

import os
import socket
import subprocess
import sys
import threading
import time

RANKS = int(os.environ.get("WORLD_SIZE") or (sys.argv[1:] or ["2"])[0])


def work():
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    say = lambda text: print(f"rank {rank}: {text}", flush=True)
    say(f"process {os.getpid()}")
    x = torch.ones(1 << 20, device="cuda")
    step = 0
    while True:
        y = x * (rank + 1)
        dist.all_reduce(y)
        value = y[0].item()
        assert value == RANKS * (RANKS + 1) / 2, value
        step += 1
        if step % 20 == 0:
            say(f"step {step}")
        time.sleep(0.005)


def launch():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = []
    for rank in range(RANKS):
        env = dict(
            os.environ,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(RANKS),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            PYTHONUNBUFFERED="1",
        )
        command = [sys.executable, __file__, "work"]
        started.append(
            subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        )

    def say(text):
        # In one piece: two ranks' lines must not meet in one.
        os.write(1, f"{text}\n".encode())

    def follow(rank, child):
        for line in child.stdout:
            text = line.decode(errors="replace").rstrip()
            mine = text.startswith(f"rank {rank}: ")
            say(text if mine else f"rank {rank} said: {text}")
        say(f"rank {rank}: ended with {child.wait()}")

    threads = [threading.Thread(target=follow, args=pair) for pair in enumerate(started)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


work() if sys.argv[1:] == ["work"] else launch()
