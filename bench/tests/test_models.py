"""The models' shapes and one training step each, on the CPU, where PyTorch is installed."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from busbar_bench import workloads
from busbar_bench.spec import parse
from busbar_bench.workloads import alexnet, inception3, resnet50, resnet_cifar

MODELS = {
    "alexnet": (alexnet.cifar, 32, 10, 1_756_426),
    "alexnet224": (alexnet.imagenet, 224, 1000, 61_100_840),
    "resnet20": (lambda: resnet_cifar.model(20, False), 32, 10, 269_722),
    "resnet110_v2": (lambda: resnet_cifar.model(110, True), 32, 10, None),
    "resnet50": (lambda: resnet50.model(True), 224, 1000, 25_557_032),
    "inception3": (inception3.model, 299, 1000, 23_834_568),
}


@pytest.mark.parametrize("name", MODELS)
def test_output_shapes_and_sizes(name):
    make, pixels, classes, parameters = MODELS[name]
    model = make().eval()
    with torch.no_grad():
        assert model(torch.zeros(2, 3, pixels, pixels)).shape == (2, classes)
    if parameters is not None:
        assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("spec", ["alexnet:4", "resnet20_v2:4:bf16", "resnet20:2:fp32:host",
                                  "gpt2-decode:1", "bert-base:1"])  # fmt: skip
def test_steps_run_and_repeat(spec):
    def run():
        workload = workloads.build(parse(spec), {"workers": 0})
        return workload.read_all([workload.step() for _ in range(2)])

    first = run()
    assert len(first) == 2 and first == run()
