"""The ResNets of tf_cnn_benchmarks for CIFAR-10, version 1 and 2."""

from busbar_bench.workloads._train import Training

DEPTHS = (20, 32, 56, 110)
NAMES = tuple(f"resnet{depth}{version}" for depth in DEPTHS for version in ("", "_v2"))


def model(depth, version2):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        """Two 3x3 convolutions; a shortcut without parameters."""

        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.stride, self.extra = stride, outputs - inputs
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(inputs if version2 else outputs)
            self.norm2 = nn.BatchNorm2d(outputs)

        def shortcut(self, x):
            if self.stride > 1:
                x = F.avg_pool2d(x, self.stride)
            if self.extra:
                x = F.pad(x, (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2))
            return x

        def forward(self, x):
            if version2:
                y = torch.relu(self.norm1(x))
                y = self.conv2(torch.relu(self.norm2(self.conv1(y))))
                return y + self.shortcut(x)
            y = torch.relu(self.norm1(self.conv1(x)))
            return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))

    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
    if not version2:
        layers += [nn.BatchNorm2d(16), nn.ReLU()]
    width = 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        for index in range((depth - 2) // 6):
            layers.append(Block(width, outputs, stride if index == 0 else 1))
            width = outputs
    if version2:
        layers += [nn.BatchNorm2d(64), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*layers)


def build(spec, feed):
    depth = int(spec.name.removeprefix("resnet").removesuffix("_v2"))
    version2 = spec.name.endswith("_v2")
    return Training(spec, lambda: model(depth, version2), (3, 32, 32), 10, feed)
