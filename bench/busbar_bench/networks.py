"""What the ranks of a job do over and over, each on a device of its own.

Networks that are trained whole on each GPU, with averaged gradients (``resnet50``, ``bert-large``);
one whose parameters are spread over the GPUs by FSDP (``gpt-1.3b``); and one that decodes with
each layer split among them, an all_reduce twice a layer, in a CUDA graph (``gpt-1.3b-split``).

PyTorch is imported inside functions, so that names can be listed on a machine without it.
"""

import contextlib
import dataclasses
from collections.abc import Callable

VOCABULARY = 50304
# name: layers, width, heads, length
GPT = {"gpt-1.3b": (24, 2048, 16, 1024), "gpt-tiny": (2, 64, 4, 32)}


@dataclasses.dataclass
class Kind:
    """A network: what is counted, and how many a rank takes at once."""

    unit: str
    batch: int
    # How ranks share the work.
    how: str = "DDP"

    @property
    def alone(self):
        """With one GPU there is nothing to spread or split."""
        return self.how == "DDP"


KINDS = {
    "resnet50": Kind("images", 128),
    "bert-large": Kind("sequences", 32),
    "gpt-1.3b": Kind("sequences", 4, "FSDP"),
    "gpt-1.3b-split": Kind("tokens", 8, "split layers"),
    "tiny": Kind("images", 32),
    "gpt-tiny": Kind("sequences", 4, "FSDP"),
    "gpt-tiny-split": Kind("tokens", 4, "split layers"),
}


@dataclasses.dataclass
class Job:
    """One rank's part: `step` is done over and over, and counts for `items`."""

    step: Callable
    items: int


def averaged(torch, name, batch):
    """A network, and how its loss is computed on a device; whole on each GPU."""
    if name == "bert-large":
        from busbar_bench.workloads import bert

        length, masked = bert.SHORT
        network = bert.model(*bert.SIZES[name], length)
        inputs = [
            torch.randint(0, bert.VOCABULARY, (batch, length)),
            torch.randint(0, 2, (batch, length)),
            torch.randint(0, length, (batch, masked)),
        ]
        hidden = torch.randint(0, bert.VOCABULARY, (batch * masked,))
        rights = [hidden, torch.randint(0, 2, (batch,))]
    elif name == "tiny":
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 1000))
        inputs = [torch.randn(batch, 3, 4, 4)]
        rights = [torch.randint(1000, (batch,))]
    else:
        from busbar_bench.workloads import resnet50

        network = resnet50.model(stride_in_3x3=True)
        inputs = [torch.randn(batch, 3, 224, 224)]
        rights = [torch.randint(1000, (batch,))]
    return network, inputs, rights


def loss_of(torch, network, inputs, rights):
    """The sum of the losses of what a network says."""
    said = network(*inputs)
    said = said if isinstance(said, tuple) else (said,)
    losses = [
        torch.nn.functional.cross_entropy(one.reshape(-1, one.shape[-1]).float(), right)
        for one, right in zip(said, rights)
    ]
    return sum(losses[1:], losses[0])


def training(torch, network, optimizer, inputs, rights, precision):
    """What one step of training is."""
    device = rights[0].device.type
    wide = precision == "fp32"

    def step():
        optimizer.zero_grad()
        context = contextlib.nullcontext() if wide else torch.autocast(device, torch.bfloat16)
        with context:
            loss = loss_of(torch, network, inputs, rights)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def gpt(torch, layers, width, heads, length):
    """A decoder, to be trained on whole sequences."""
    from torch import nn
    from torch.nn import functional as F

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, words, _ = x.shape
            qkv = self.qkv(self.norm1(x)).view(batch, words, 3, heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(x.shape))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, VOCABULARY, bias=False)

        def forward(self, words):
            x = self.words(words) + self.places.weight
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    return Gpt()


def spread(torch, name, batch, device):
    """Trains a GPT whose parameters, gradients and moments FSDP spreads over the ranks."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    size = GPT[name]
    with device:
        network = gpt(torch, *size)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in network.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(network, mp_policy=policy)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    words = torch.randint(VOCABULARY, (batch, size[3] + 1)).to(device)
    inputs, rights = [words[:, :-1].contiguous()], [words[:, 1:].reshape(-1)]
    return Job(training(torch, network, optimizer, inputs, rights, "fp32"), batch)


def split(torch, name, batch, device, ranks):
    """Decodes with a GPT of which each rank has a part of every layer's heads and width."""
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional as F

    layers, width, heads, length = GPT[name.removesuffix("-split")]
    mine, inner, each = heads // ranks, 4 * width // ranks, width // heads
    with device:
        words, norm = nn.Embedding(VOCABULARY, width), nn.LayerNorm(width)
        places = torch.arange(length)
        # What each rank has is another part; what all have is the same.
        torch.manual_seed(2 + dist.get_rank())
        parts = nn.ModuleList()
        for _ in range(layers):
            parts.append(nn.ModuleDict({
                "norm1": nn.LayerNorm(width), "norm2": nn.LayerNorm(width),
                "qkv": nn.Linear(width, 3 * mine * each), "out": nn.Linear(mine * each, width),
                "up": nn.Linear(width, inner), "down": nn.Linear(inner, width),
            }))  # fmt: skip
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    for module in (parts, words, norm):
        module.to(dtype)
    keys, values = torch.zeros(2, layers, batch, mine, length, each, dtype=dtype, device=device)
    token = torch.zeros(batch, 1, dtype=torch.long, device=device)
    place = torch.zeros(1, dtype=torch.long, device=device)

    @torch.no_grad()
    def decode():
        x = words(token)
        mask = (places <= place).view(1, 1, 1, length)
        for index, part in enumerate(parts):
            qkv = part["qkv"](part["norm1"](x)).view(batch, 1, 3, mine, each).permute(2, 0, 3, 1, 4)
            keys[index].index_copy_(2, place, qkv[1])
            values[index].index_copy_(2, place, qkv[2])
            y = F.scaled_dot_product_attention(qkv[0], keys[index], values[index], attn_mask=mask)
            y = part["out"](y.transpose(1, 2).reshape(batch, 1, mine * each))
            dist.all_reduce(y)
            x = x + y
            y = part["down"](F.gelu(part["up"](part["norm2"](x))))
            dist.all_reduce(y)
            x = x + y
        token.copy_(F.linear(norm(x), words.weight).argmax(-1))
        # At the end of the cache it starts again at the front.
        place.add_(1).remainder_(length)
        return token

    if device.type != "cuda":
        return Job(decode, batch)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            decode()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decode()

    def step():
        graph.replay()
        return token.flatten()[0]

    return Job(step, batch)
