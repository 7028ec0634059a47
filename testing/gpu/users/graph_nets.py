"""torch_geometric: graph convolutions and graph attention on a random graph of communities."""
import sys

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import to_undirected

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 150
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.use_deterministic_algorithms(True, warn_only=True)
g = torch.Generator().manual_seed(0)
nodes = 20000
label = torch.randint(0, 7, (nodes,), generator=g)
order = label.argsort(stable=True)
near = torch.randint(-400, 400, (nodes * 5,), generator=g)
start = torch.randint(0, nodes, (nodes * 5,), generator=g)
edges = torch.stack([order[start], order[(start + near).clamp(0, nodes - 1)]])
features = torch.randn(nodes, 64, generator=g) + F.one_hot(label, 64) * 0.5
data = Data(features, to_undirected(edges), y=label).to(device)
train = torch.rand(nodes, generator=g).to(device) < 0.2
print("edges", data.num_edges)


class Net(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        more = {"heads": 4, "concat": False} if kind is GATConv else {}
        self.one, self.two = kind(64, 64, **more), kind(64, 7, **more)

    def forward(self, x, edges):
        return self.two(F.relu(self.one(x, edges)), edges)


for kind in (GCNConv, SAGEConv, GATConv):
    torch.manual_seed(1)
    net = Net(kind).to(device)
    optimizer = torch.optim.Adam(net.parameters(), 0.01, weight_decay=5e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(data.x, data.edge_index)[train], data.y[train])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = (net(data.x, data.edge_index).argmax(-1) == data.y)[~train].float().mean()
    print(kind.__name__, f"loss {loss.item():.3f} right {right.item():.2f}")
