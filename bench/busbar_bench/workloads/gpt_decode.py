"""Decoding with a GPT: one token a step from a cache of keys and values, greedy.

In eager mode this is launch-bound inference; ``compile`` and ``graphs`` are the usual remedies.
"""

from busbar_bench.workloads._train import SEED, Base, dtypes, prepare

# name: layers, width, heads
SIZES = {
    "gpt2-decode": (12, 768, 12),
    "gpt-1.3b-decode": (24, 2048, 16),
    "gpt-6.7b-decode": (32, 4096, 32),
}
NAMES = tuple(SIZES)
VOCABULARY = 50304
SHORT, LONG = 1024, 4096


def model(layers, width, heads, batch, length, dtype, device):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)
            shape = (batch, heads, length, width // heads)
            self.register_buffer("keys", torch.zeros(shape))
            self.register_buffer("values", torch.zeros(shape))

        def forward(self, x, place, mask):
            qkv = self.qkv(self.norm1(x)).view(batch, 1, 3, heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = qkv[0], qkv[1], qkv[2]
            self.keys.index_copy_(2, place, k)
            self.values.index_copy_(2, place, v)
            y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
            x = x + self.out(y.transpose(1, 2).reshape(batch, 1, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(VOCABULARY, width)
            self.places = nn.Embedding(length, width)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.register_buffer("all_places", torch.arange(length))

        def forward(self, token, place):
            """Takes a token (batch, 1) and its place (1,), returns the next token."""
            x = self.words(token) + self.places(place)
            mask = (self.all_places <= place).view(1, 1, 1, length)
            for layer in self.layers:
                x = layer(x, place, mask)
            return F.linear(self.norm(x), self.words.weight).argmax(-1)

    # Made where it is used: random weights for billions of parameters take long on a CPU.
    with torch.device(device):
        gpt = Gpt()
    return gpt.to(dtype).eval()


class Decoding(Base):
    unit = "tokens/s"

    def __init__(self, spec):
        torch, self.device = prepare(spec)
        self.torch, self.items_per_step = torch, spec.batch
        dtype, autocast = dtypes(torch, spec.precision)
        if autocast is not None or spec.has("host"):
            raise ValueError("decoding runs in fp32, fp16 or bf16, on tokens of its own")
        self.length = LONG if spec.has("long") else SHORT
        self.eager = model(*SIZES[spec.name], spec.batch, self.length, dtype, self.device)
        self.model = torch.compile(self.eager) if spec.has("compile") else self.eager
        generator = torch.Generator().manual_seed(SEED)
        self.token = torch.randint(0, VOCABULARY, (spec.batch, 1), generator=generator)
        self.token = self.token.to(self.device)
        self.place = torch.zeros(1, dtype=torch.long, device=self.device)
        self.graph = None
        if spec.has("graphs"):
            self.capture()

    def decode(self):
        with self.torch.no_grad():
            self.token.copy_(self.model(self.token, self.place))
            # At the end of the cache it starts again at the front.
            self.place.add_(1).remainder_(self.length)
        return self.token

    def capture(self):
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.decode()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.decode()
        self.graph = graph

    def step(self):
        if self.graph is None:
            self.decode()
        else:
            self.graph.replay()
        return self.token.clone()

    def read(self, result):
        return int(result[0, 0])


def build(spec, feed):
    return Decoding(spec)
