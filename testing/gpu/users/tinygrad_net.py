"""tinygrad: a convolutional net trained with its JIT, which records CUDA graphs."""
import os
import sys

os.environ.setdefault("DEV", "CUDA")

from tinygrad import Tensor, TinyJit, dtypes, nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 150
Tensor.manual_seed(0)


class Net:
    def __init__(self):
        self.layers = [
            nn.Conv2d(1, 16, 5), Tensor.relu, nn.BatchNorm(16), Tensor.max_pool2d,
            nn.Conv2d(16, 32, 3), Tensor.relu, nn.BatchNorm(32), Tensor.max_pool2d,
            lambda x: x.flatten(1), nn.Linear(32 * 5 * 5, 10),
        ]

    def __call__(self, x):
        return x.sequential(self.layers)


pictures = Tensor.randn(2048, 1, 28, 28).realize()
teacher = Tensor.randn(28 * 28, 10).realize()
answers = (pictures.flatten(1) @ teacher).argmax(1).cast(dtypes.int32).realize()
net = Net()
optimizer = nn.optim.Adam(nn.state.get_parameters(net), 1e-3)


Tensor.training = True


@TinyJit
def step(at):
    optimizer.zero_grad()
    loss = net(pictures[at]).sparse_categorical_crossentropy(answers[at]).backward()
    optimizer.step()
    return loss.realize()


for i in range(steps):
    loss = step(Tensor.randint(256, high=2048).realize())
    if i % max(1, steps // 5) == 0:
        print("step", i, f"loss {loss.item():.7g}")
Tensor.training = False
right = (net(pictures).argmax(1) == answers).mean().item()
print("right", f"{right:.6f}")
