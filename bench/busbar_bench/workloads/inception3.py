"""Inception v3 for 299 pixels, without the auxiliary classifier."""

from busbar_bench.workloads._train import Training

NAMES = ("inception3",)


def model():
    import torch
    from torch import nn

    def conv(inputs, outputs, size, stride=1, padding=0):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, size, stride, padding, bias=False),
            nn.BatchNorm2d(outputs, eps=0.001),
            nn.ReLU(inplace=True),
        )

    def same(inputs, outputs, size):
        height, width = size if isinstance(size, tuple) else (size, size)
        return conv(inputs, outputs, (height, width), 1, (height // 2, width // 2))

    class Branches(nn.Module):
        """Runs branches side by side and puts their channels together."""

        def __init__(self, *branches):
            super().__init__()
            self.branches = nn.ModuleList(branches)

        def forward(self, x):
            return torch.cat([branch(x) for branch in self.branches], 1)

    def pooled(inputs, outputs):
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(inputs, outputs, 1))

    def block_a(inputs, pool):
        return Branches(
            conv(inputs, 64, 1),
            nn.Sequential(conv(inputs, 48, 1), same(48, 64, 5)),
            nn.Sequential(conv(inputs, 64, 1), same(64, 96, 3), same(96, 96, 3)),
            pooled(inputs, pool),
        )

    def reduce_a(inputs):
        return Branches(
            conv(inputs, 384, 3, 2),
            nn.Sequential(conv(inputs, 64, 1), same(64, 96, 3), conv(96, 96, 3, 2)),
            nn.MaxPool2d(3, 2),
        )

    def block_b(inputs, width):
        return Branches(
            conv(inputs, 192, 1),
            nn.Sequential(
                conv(inputs, width, 1), same(width, width, (1, 7)), same(width, 192, (7, 1))
            ),
            nn.Sequential(
                conv(inputs, width, 1),
                same(width, width, (7, 1)), same(width, width, (1, 7)),
                same(width, width, (7, 1)), same(width, 192, (1, 7)),
            ),
            pooled(inputs, 192),
        )  # fmt: skip

    def reduce_b(inputs):
        return Branches(
            nn.Sequential(conv(inputs, 192, 1), conv(192, 320, 3, 2)),
            nn.Sequential(
                conv(inputs, 192, 1), same(192, 192, (1, 7)), same(192, 192, (7, 1)),
                conv(192, 192, 3, 2),
            ),
            nn.MaxPool2d(3, 2),
        )  # fmt: skip

    def block_c(inputs):
        def fork():
            return Branches(same(384, 384, (1, 3)), same(384, 384, (3, 1)))

        return Branches(
            conv(inputs, 320, 1),
            nn.Sequential(conv(inputs, 384, 1), fork()),
            nn.Sequential(conv(inputs, 448, 1), same(448, 384, 3), fork()),
            pooled(inputs, 192),
        )

    return nn.Sequential(
        conv(3, 32, 3, 2), conv(32, 32, 3), same(32, 64, 3), nn.MaxPool2d(3, 2),
        conv(64, 80, 1), conv(80, 192, 3), nn.MaxPool2d(3, 2),
        block_a(192, 32), block_a(256, 64), block_a(288, 64), reduce_a(288),
        block_b(768, 128), block_b(768, 160), block_b(768, 160), block_b(768, 192),
        reduce_b(768), block_c(1280), block_c(2048),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(2048, 1000),
    )  # fmt: skip


def build(spec, feed):
    return Training(spec, model, (3, 299, 299), 1000, feed)
