"""A DataLoader with forked workers and pinned memory feeds a training loop."""
import torch
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return (torch.randint(0, 256, (3, 64, 64), generator=g, dtype=torch.uint8), i % 10)


def main():
    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
    ).cuda()
    loader = DataLoader(Data(), 32, num_workers=4, pin_memory=True)
    net(torch.zeros(1, 3, 64, 64, device="cuda"))
    opt = torch.optim.SGD(net.parameters(), 0.01)
    for epoch in range(2):
        for x, y in loader:
            x = x.cuda(non_blocking=True).float() / 255
            loss = torch.nn.functional.cross_entropy(net(x), y.cuda(non_blocking=True))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item().hex())


main()
