"""Operators that reach for different libraries: each line is exact."""
import torch
import torch.nn.functional as F

torch.use_deterministic_algorithms(False)
torch.backends.cudnn.deterministic = True
g = torch.Generator(device="cuda").manual_seed(7)


def rnd(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", generator=g).to(dtype)


def show(name, *ts):
    h = [t.detach().double().abs().sum().item().hex() for t in ts]
    print(name, *h)


q, k, v = (rnd(2, 4, 128, 64, dtype=torch.bfloat16).requires_grad_() for _ in range(3))
o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
show("sdpa", o)
show("sdpa-math", F.scaled_dot_product_attention(q.float(), k.float(), v.float()))
o.sum().backward()
show("sdpa-v-grad", v.grad)
lstm = torch.nn.LSTM(32, 64, 2).cuda()
with torch.no_grad():
    for i, p in enumerate(lstm.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel(), device="cuda").float() + i).view_as(p) * 0.1)
y, _ = lstm(rnd(20, 8, 32))
show("lstm", y)
show("fft", torch.fft.fft(rnd(64, 1000)).abs())
show("rfft2", torch.fft.rfft2(rnd(4, 60, 64)).abs())
m = rnd(64, 64)
show("svd", torch.linalg.svdvals(m))
show("solve", torch.linalg.solve(m + 64 * torch.eye(64, device="cuda"), rnd(64, 3)))
show("qr", torch.linalg.qr(m)[1])
show("cholesky", torch.linalg.cholesky(m @ m.T + 64 * torch.eye(64, device="cuda")))
show("eigh", torch.linalg.eigvalsh(m + m.T))
sp = torch.eye(100, device="cuda").to_sparse_csr()
show("sparse", sp @ rnd(100, 5))
x = rnd(100000)
show("sort", x.sort()[0])
show("topk", x.topk(10)[0])
show("cumsum", x[:1000].cumsum(0))
show("unique", torch.randint(0, 50, (1000,), device="cuda", generator=g).unique())
show("conv3d", F.conv3d(rnd(1, 4, 8, 8, 8), rnd(8, 4, 3, 3, 3)))
show("convT", F.conv_transpose2d(rnd(2, 8, 16, 16), rnd(8, 4, 3, 3)))
show("half-gemm", rnd(256, 256, dtype=torch.half) @ rnd(256, 256, dtype=torch.half))
show("bmm", torch.bmm(rnd(8, 64, 32), rnd(8, 32, 64)))
show(
    "int8",
    torch._int_mm(
        torch.ones(32, 64, device="cuda", dtype=torch.int8),
        torch.ones(64, 32, device="cuda", dtype=torch.int8),
    ),
)
show("embedding", F.embedding(torch.arange(10, device="cuda"), rnd(20, 8)))
show("interp", F.interpolate(rnd(1, 3, 8, 8), scale_factor=2, mode="bilinear"))
show(
    "ctc",
    F.ctc_loss(
        rnd(50, 4, 20).log_softmax(2), torch.arange(40).view(4, 10) % 19 + 1, [50] * 4, [10] * 4
    ),
)
s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
e1, e2 = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
a = rnd(1 << 20)
torch.cuda.synchronize()
with torch.cuda.stream(s1):
    e1.record()
    b = a * 2
    e2.record()
s2.wait_event(e2)
with torch.cuda.stream(s2):
    c = b + 1
s2.synchronize()
print("streams", torch.equal(c, a * 2 + 1), e1.elapsed_time(e2) > 0, e1.query(), s1.query())
torch.manual_seed(3)
show("dropout", F.dropout(torch.ones(1000, device="cuda")))
print(
    "memory",
    torch.cuda.memory_allocated() > 0,
    torch.cuda.mem_get_info()[1] == torch.cuda.get_device_properties(0).total_memory,
)
print(
    "props",
    torch.cuda.get_device_properties(0).multi_processor_count,
    torch.cuda.get_arch_list()[-1] != "",
)
try:
    torch.zeros(4, device="cuda")[torch.tensor([10], device="cuda")].sum().item()
    print("no assert")
except RuntimeError as e:
    print("assert", "device-side assert" in str(e))
