"""Every operator of PyTorch's own table, forward and backward on the GPU, against the CPU."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)
# What these give is arbitrary by design.
RANDOM = (
    "rand",
    "normal",
    "bernoulli",
    "multinomial",
    "dropout",
    "empty",
    "uniform",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "rrelu",
    "svd_lowrank",
    "pca_lowrank",
    "fractional_max",
    "item",
)


def cases():
    for op in op_db:
        dtype = next((d for d in DTYPES if d in op.dtypes), None)
        if dtype is not None:
            name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
            yield pytest.param(op, dtype, id=f"{name}-{str(dtype)[6:]}")


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return []


def close(a, b):
    a, b = tensors(a), tensors(b)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert x.shape == y.shape and x.dtype == y.dtype
        if x.layout == torch.strided and not x.is_quantized:
            torch.testing.assert_close(x.cpu(), y.cpu(), rtol=1e-2, atol=1e-2, equal_nan=True)


@pytest.mark.parametrize("op,dtype", list(cases()))
def test_op(op, dtype):
    backward = dtype == torch.float32 and op.supports_autograd
    arbitrary = any(word in op.name for word in RANDOM)
    for number, sample in enumerate(op.sample_inputs("cuda", dtype, requires_grad=backward)):
        if number == 4:
            break
        result = op(sample.input, *sample.args, **sample.kwargs)
        if backward:
            sums = [
                t.sum() for t in tensors(result) if t.requires_grad and t.dtype.is_floating_point
            ]
            leaves = [t for t in tensors(sample.input) if t.requires_grad]
            if sums and leaves:
                torch.autograd.grad(sum(sums), leaves, allow_unused=True)
        torch.cuda.synchronize()
        if not arbitrary:
            host = sample.transform(lambda v: v.detach().cpu() if isinstance(v, torch.Tensor) else (
                torch.device("cpu") if v == torch.device("cuda:0") or v == "cuda" else v))
            close(result, op(host.input, *host.args, **host.kwargs))
