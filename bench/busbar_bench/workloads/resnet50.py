"""ResNet-50 for 224 pixels: version 1, and 1.5 with the stride in the 3x3 convolution."""

from busbar_bench.workloads._train import Training

NAMES = ("resnet50", "resnet50_v1.5")


def model(stride_in_3x3):
    import torch
    from torch import nn

    def conv(inputs, outputs, size, stride=1):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            outputs = width * 4
            first, second = (1, stride) if stride_in_3x3 else (stride, 1)
            self.body = nn.Sequential(
                conv(inputs, width, 1, first), nn.ReLU(inplace=True),
                conv(width, width, 3, second), nn.ReLU(inplace=True),
                conv(width, outputs, 1),
            )  # fmt: skip
            same = stride == 1 and inputs == outputs
            self.shortcut = nn.Identity() if same else conv(inputs, outputs, 1, stride)

        def forward(self, x):
            return torch.relu(self.body(x) + self.shortcut(x))

    layers = [conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if index == 0 else 1))
            inputs = width * 4
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(*layers)


def build(spec, feed):
    stride_in_3x3 = spec.name != "resnet50"
    return Training(spec, lambda: model(stride_in_3x3), (3, 224, 224), 1000, feed)
