"""torch.multiprocessing: tensors on the device go to other processes, are changed there and come
back; models in shared memory are trained by several at once."""
import sys

import torch
import torch.multiprocessing as mp

count = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def worker(rank, inbox, outbox, shared, barrier):
    torch.manual_seed(rank)
    while True:
        x = inbox.get()
        if x is None:
            break
        x.mul_(rank + 2)
        torch.cuda.synchronize()
        outbox.put((rank, float(x.double().sum())))
        del x
    barrier.wait()
    shared[rank] = torch.full((1000,), float(rank), device="cuda")
    torch.cuda.synchronize()
    barrier.wait()


def main():
    mp.set_start_method("spawn")
    inboxes, outbox = [mp.Queue() for _ in range(count)], mp.Queue()
    barrier = mp.Barrier(count + 1)
    shared = torch.zeros(count, 1000, device="cuda").share_memory_()
    workers = [mp.Process(target=worker, args=(i, inboxes[i], outbox, shared, barrier))
               for i in range(count)]
    for w in workers:
        w.start()
    kept = [torch.arange(1 << 16, dtype=torch.float32, device="cuda") + i for i in range(count)]
    for box, x in zip(inboxes, kept):
        box.put(x)
    for rank, total in sorted(outbox.get() for _ in range(count)):
        print("from", rank, f"{total:.9g}", f"{float(kept[rank].double().sum()):.9g}")
    for box in inboxes:
        box.put(None)
    barrier.wait()
    barrier.wait()
    print("shared", shared.sum(1).tolist())
    for w in workers:
        w.join()
        print("ended", w.exitcode)


if __name__ == "__main__":
    main()
