"""Decoding as servers do it: a step for each batch size recorded as a CUDA graph in one pool, with
pages of keys and values, and sequences that come and go."""
import sys

import torch
from torch import nn

requests = int(sys.argv[1]) if len(sys.argv) > 1 else 48
torch.manual_seed(0)
width, heads, layers, page, pages, most = 256, 4, 4, 16, 512, 16
size = width // heads
half = torch.bfloat16


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.one, self.two = nn.RMSNorm(width), nn.RMSNorm(width)
        self.register_buffer("kept", torch.zeros(2, pages, page, heads, size, dtype=half))

    def forward(self, x, table, at):
        n = x.shape[0]
        q, k, v = self.qkv(self.one(x)).view(n, 3, heads, size).unbind(1)
        block = table.gather(1, (at // page)[:, None])[:, 0]
        self.kept[0].index_put_((block, at % page), k)
        self.kept[1].index_put_((block, at % page), v)
        keys, values = (kept[table].flatten(1, 2) for kept in self.kept)
        scores = torch.einsum("nhd,nthd->nht", q, keys).float() * size**-0.5
        late = torch.arange(keys.shape[1], device=x.device) > at[:, None]
        weights = scores.masked_fill(late[:, None], float("-inf")).softmax(-1).to(half)
        x = x + self.out(torch.einsum("nht,nthd->nhd", weights, values).flatten(1))
        return x + self.down(nn.functional.silu(self.up(self.two(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.head = nn.Linear(width, 1000)

    def forward(self, token, table, at):
        x = self.words(token)
        for layer in self.layers:
            x = layer(x, table, at)
        return self.head(x).float().argmax(-1)


model = Model().to("cuda", half).eval()
inputs = {"token": torch.zeros(most, dtype=torch.long, device="cuda"),
          "table": torch.zeros(most, 8, dtype=torch.long, device="cuda"),
          "at": torch.zeros(most, dtype=torch.long, device="cuda")}
graphs, pool = {}, torch.cuda.graph_pool_handle()
with torch.no_grad():
    for n in range(most, 0, -1):
        part = [x[:n] for x in inputs.values()]
        model(*part)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            out = model(*part)
        graphs[n] = graph, out

free = list(range(1, pages))
g = torch.Generator().manual_seed(1)
waiting = [(i, int(torch.randint(1, 1000, (1,), generator=g)),
            int(torch.randint(20, 100, (1,), generator=g))) for i in range(requests)]
running, said, steps = [], {}, 0
while waiting or running:
    while waiting and len(running) < most:
        i, token, length = waiting.pop(0)
        blocks = [free.pop() for _ in range(8)]
        running.append({"i": i, "token": token, "left": length, "at": 0, "blocks": blocks})
        said[i] = []
    n = len(running)
    for name, values in (("token", [r["token"] for r in running]),
                         ("table", [r["blocks"] for r in running]),
                         ("at", [r["at"] for r in running])):
        inputs[name][:n].copy_(torch.tensor(values).pin_memory(), non_blocking=True)
    graph, out = graphs[n]
    graph.replay()
    for r, token in zip(running, out.tolist()):
        r["token"], r["at"], r["left"] = token, r["at"] + 1, r["left"] - 1
        said[r["i"]].append(token)
        if not r["left"]:
            free.extend(r["blocks"])
    running = [r for r in running if r["left"]]
    steps += 1
print("steps", steps, "graphs", len(graphs))
for i in range(0, requests, max(1, requests // 8)):
    print("request", i, len(said[i]), said[i][:12], sum(said[i]))
