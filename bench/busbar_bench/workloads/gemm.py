"""Products of two square matrices, again and again: a device that is busy with one short kernel.

The batch is the matrices' side: ``gemm:4096:bf16``.
"""

from busbar_bench.workloads._train import Base, dtypes, prepare

NAMES = ("gemm",)
# Of 4096 in bf16, about a millisecond on an H200.
PRODUCTS = 5


class Products(Base):
    unit = "products/s"
    items_per_step = PRODUCTS

    def __init__(self, spec):
        torch, self.device = prepare(spec)
        self.torch = torch
        dtype, autocast = dtypes(torch, spec.precision)
        if autocast is not None or spec.options:
            raise ValueError("products are in fp32, fp16 or bf16, and have no options")
        shape = (spec.batch, spec.batch)
        self.left = torch.randn(shape, device=self.device, dtype=dtype)
        self.right = torch.randn(shape, device=self.device, dtype=dtype)
        self.out = torch.empty_like(self.left)

    def step(self):
        for _ in range(PRODUCTS):
            self.torch.mm(self.left, self.right, out=self.out)
        return self.out[0, 0]


def build(spec, feed):
    return Products(spec)
