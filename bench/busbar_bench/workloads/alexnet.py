"""AlexNet: the small one of tf_cnn_benchmarks for CIFAR-10, and the original for 224 pixels."""

from busbar_bench.workloads._train import Training

NAMES = ("alexnet", "alexnet224")


def cifar():
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), nn.LocalResponseNorm(9, alpha=0.001, beta=0.75),
        nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(),
        nn.LocalResponseNorm(9, alpha=0.001, beta=0.75), nn.MaxPool2d(3, 2, 1),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 384), nn.ReLU(),
        nn.Linear(384, 192), nn.ReLU(),
        nn.Linear(192, 10),
    )  # fmt: skip


def imagenet():
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, 1000),
    )  # fmt: skip


def build(spec, feed):
    if spec.name == "alexnet":
        return Training(spec, cifar, (3, 32, 32), 10, feed)
    return Training(spec, imagenet, (3, 224, 224), 1000, feed)
