"""Training steps of real models: losses exact where the native run repeats itself."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, __file__.rsplit("/", 3)[0] + "/../bench")
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(False)


def run(name, make, data, steps, autocast=None, dtype=None, loss=F.cross_entropy, lr=0.01):
    torch.manual_seed(0)
    net = make().cuda()
    if dtype:
        net = net.to(dtype)
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    x, y = data()
    if dtype and x.is_floating_point():
        x = x.to(dtype)
    out = []
    for _ in range(steps):
        opt.zero_grad()
        with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
            p = net(x)
            v = loss(p.float() if dtype else p, y)
        v.backward()
        opt.step()
        out.append(v.item())
    print(name, *[o.hex() for o in out[:: max(1, steps // 5)]], out[-1].hex(), flush=True)


def images(n, s, c=1000):
    def make():
        torch.manual_seed(1)
        return torch.randn(n, 3, s, s).cuda(), torch.randint(0, c, (n,)).cuda()

    return make


class GPT(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.emb, self.pos = nn.Embedding(1000, 256), nn.Parameter(torch.randn(128, 256) * 0.02)
        layer = nn.TransformerEncoderLayer(
            256, 8, 1024, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head, self.causal = nn.Linear(256, 1000), causal

    def forward(self, x):
        mask = (
            nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
            if self.causal
            else None
        )
        return self.head(self.body(self.emb(x) + self.pos, mask=mask)).flatten(0, 1)


def tokens():
    torch.manual_seed(2)
    return torch.randint(0, 1000, (8, 128)).cuda(), torch.randint(0, 1000, (8 * 128,)).cuda()


import torchvision.models as tv

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 50
run("resnet50-fp32", tv.resnet50, images(16, 128), steps)
run("resnet50-bf16", tv.resnet50, images(16, 128), steps, dtype=torch.bfloat16)
run("resnet50-autocast", tv.resnet50, images(16, 128), steps, autocast=torch.bfloat16)
run("alexnet", lambda: tv.alexnet(dropout=0.0), images(16, 224), steps)
run("inception", lambda: tv.inception_v3(aux_logits=False, init_weights=False), images(4, 299), 20)
run("gpt", lambda: GPT(True), tokens, steps)
run("bert", lambda: GPT(False), tokens, steps)
