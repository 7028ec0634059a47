"""gpytorch and botorch: a Gaussian process is fitted, then others guide a search for a maximum."""
import sys
import warnings

import gpytorch
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf

warnings.filterwarnings("ignore")
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


x = torch.linspace(0, 6, 700, dtype=torch.float64, device=device)
y = torch.sin(2 * x) + 0.3 * torch.cos(7 * x)
y += 0.1 * torch.randn(700, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(x)
likelihood = gpytorch.likelihoods.GaussianLikelihood().to(x)
model = Exact(x, y, likelihood).to(x)
bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
optimizer = torch.optim.Adam(model.parameters(), 0.1)
for step in range(steps):
    optimizer.zero_grad()
    loss = -bound(model(x), y)
    loss.backward()
    optimizer.step()
    if step % max(1, steps // 4) == 0:
        print("step", step, f"loss {loss.item():.9f}")
model.eval()
with torch.no_grad():
    at = torch.tensor([1.0, 3.0, 7.0], dtype=torch.float64, device=device)
    guess = likelihood(model(at))
    print("mean", [f"{v:.6f}" for v in guess.mean.tolist()])
    print("variance", [f"{v:.6f}" for v in guess.variance.tolist()])


def bowl(p):
    return -((p - 0.3) ** 2).sum(-1, keepdim=True) + 0.1 * torch.cos(9 * p).sum(-1, keepdim=True)


points = torch.rand(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
points = points.to(device)
limits = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64, device=device)
for round in range(max(1, steps // 15)):
    values = bowl(points)
    surrogate = SingleTaskGP(points, values)
    fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(surrogate.likelihood, surrogate))
    gain = LogExpectedImprovement(surrogate, values.max())
    torch.manual_seed(round)
    new, _ = optimize_acqf(gain, limits, q=1, num_restarts=4, raw_samples=64)
    points = torch.cat([points, new])
    print("round", round, f"best {bowl(points).max().item():.4f}")
