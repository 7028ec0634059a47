"""A pre-training step of BERT-large: masked words and next sentence, AdamW."""

from busbar_bench.workloads._train import SEED, Base, dtypes, prepare

# name: layers, width, heads
SIZES = {"bert-large": (24, 1024, 16), "bert-base": (12, 768, 12)}
NAMES = tuple(SIZES)
VOCABULARY = 30522
# Sequence length and masked words: the two phases of the original training.
SHORT, LONG = (128, 20), (512, 80)


def model(layers, width, heads, length):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

        def forward(self, x):
            batch, words, _ = x.shape
            q, k, v = self.qkv(x).view(batch, words, 3, heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            x = self.norm1(x + F.dropout(self.out(y), 0.1, self.training))
            y = self.down(F.gelu(self.up(x)))
            return self.norm2(x + F.dropout(y, 0.1, self.training))

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(VOCABULARY, width)
            self.places = nn.Parameter(torch.randn(length, width) * 0.02)
            self.segments = nn.Embedding(2, width)
            self.norm = nn.LayerNorm(width)
            self.layers = nn.Sequential(*[Layer() for _ in range(layers)])
            self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
            self.bias = nn.Parameter(torch.zeros(VOCABULARY))
            self.pooler = nn.Linear(width, width)
            self.next = nn.Linear(width, 2)
            nn.init.normal_(self.words.weight, std=0.02)

        def forward(self, words, segments, masked):
            x = self.norm(self.words(words) + self.places + self.segments(segments))
            x = self.layers(F.dropout(x, 0.1, self.training))
            chosen = torch.gather(x, 1, masked.unsqueeze(-1).expand(-1, -1, width))
            guesses = F.linear(self.transform(chosen), self.words.weight, self.bias)
            return guesses, self.next(torch.tanh(self.pooler(x[:, 0])))

    return Bert()


class Pretraining(Base):
    unit = "sequences/s"

    def __init__(self, spec):
        torch, self.device = prepare(spec)
        self.torch, self.items_per_step = torch, spec.batch
        dtype, self.autocast = dtypes(torch, spec.precision)
        if spec.precision.endswith("fp16"):
            raise ValueError("BERT is trained in fp32, bf16 or amp-bf16 here")
        if spec.has("graphs") or spec.has("host"):
            raise ValueError(f"{spec.name} has no such variant")
        length, masked = LONG if spec.has("long") else SHORT
        bert = model(*SIZES[spec.name], length).to(self.device, dtype)
        self.optimizer = torch.optim.AdamW(bert.parameters(), lr=1e-4)
        self.model = torch.compile(bert) if spec.has("compile") else bert
        generator = torch.Generator().manual_seed(SEED)

        def draw(high, *shape):
            return torch.randint(0, high, shape, generator=generator).to(self.device)

        self.inputs = (
            draw(VOCABULARY, spec.batch, length),
            draw(2, spec.batch, length),
            draw(length, spec.batch, masked),
        )
        self.hidden = draw(VOCABULARY, spec.batch * masked)
        self.follows = draw(2, spec.batch)

    def losses(self):
        cross_entropy = self.torch.nn.functional.cross_entropy
        guesses, follows = self.model(*self.inputs)
        words = cross_entropy(guesses.reshape(-1, VOCABULARY).float(), self.hidden)
        return words + cross_entropy(follows.float(), self.follows)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        if self.autocast is None:
            loss = self.losses()
        else:
            with self.torch.autocast(self.device.type, dtype=self.autocast):
                loss = self.losses()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build(spec, feed):
    return Pretraining(spec)
