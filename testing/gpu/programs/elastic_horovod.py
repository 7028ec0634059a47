"""A worker of an elastic Horovod job, and the job: trains, and goes on when a worker is lost.

``elastic_horovod.py launch GPUS`` starts `horovodrun` with a host for each GPU, since Horovod gives
up the whole host of a worker that is lost; all of them are this machine, by names that mean the
same. Each worker says its process, its steps and how it ended. ``jobs.py`` kills one meanwhile.
"""

import json
import os
import stat
import subprocess
import sys
import tempfile

STEPS, COMMIT = 400, 5
# Names that a resolver takes for 127.0.0.1.
HOSTS = ["127.0.0.1", "127.1", "127.0.1", "0x7f.1", "0x7f.0.1", "0177.1", "0177.0.1", "2130706433"]


def work():
    import horovod.torch as hvd
    import torch

    place = HOSTS.index(os.environ["HOROVOD_HOSTNAME"])
    device = torch.device("cuda", place)
    torch.cuda.set_device(device)
    hvd.init()
    say = lambda text: os.write(1, f"worker {place}: {text}\n".encode())
    say(f"process {os.getpid()}")
    torch.manual_seed(3)
    layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    @hvd.elastic.run
    def train(state):
        say(f"rank {hvd.rank()} of {hvd.size()} from step {state.step}")
        while state.step < STEPS:
            # What a step learns from does not depend on who is there.
            draw = torch.Generator(device=device).manual_seed(state.step)
            x = torch.randn(64, 256, device=device, generator=draw)
            y = torch.randint(10, (64,), device=device, generator=draw)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            # A new list: what was committed is not to change with it.
            state.losses = [*state.losses, loss.item()]
            state.step += 1
            if state.step % COMMIT == 0:
                state.commit()
            if state.step % 20 == 0:
                say(f"step {state.step}")

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, losses=[])
    train(state)
    say(json.dumps({"steps": state.step, "ranks": hvd.size(), "losses": state.losses}))


def launch(gpus):
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "hosts.sh")
        with open(script, "w") as f:
            f.write("#!/bin/sh\n" + "".join(f"echo {h}:1\n" for h in HOSTS[:gpus]))
        os.chmod(script, stat.S_IRWXU)
        command = [sys.executable, "-m", "horovod.runner.launch", "--gloo"]
        command += ["-np", str(gpus), "--min-np", "1", "--max-np", str(gpus)]
        command += ["--host-discovery-script", script, "--network-interface", "lo"]
        command += [sys.executable, os.path.abspath(__file__), "work"]
        sys.exit(subprocess.call(command))


launch(int(sys.argv[2])) if sys.argv[1] == "launch" else work()
