"""CUDA tensors and events between processes. Plain output, the same natively and through Busbar."""
import torch
import torch.multiprocessing as mp


def child(inbox, outbox):
    small, large, view = inbox.get()
    outbox.put((small.sum().item(), large.double().sum().item(), view.tolist()))
    large.mul_(2)
    small.fill_(4)
    torch.cuda.synchronize()
    outbox.put("changed")
    inbox.get()
    del small, large, view
    outbox.put("gone")


def wait(handle, data, outbox):
    event = torch.cuda.Event.from_ipc_handle(0, handle)
    event.wait()
    torch.cuda.synchronize()
    outbox.put(data.sum().item())


def main():
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(inbox, outbox))
    process.start()
    small = torch.arange(10, device="cuda", dtype=torch.float32)
    large = torch.arange(3_000_000, device="cuda", dtype=torch.int32)
    view = large.view(1000, 3000)[5, 7:11]
    inbox.put((small, large, view))
    print("child saw", outbox.get(timeout=60))
    print(outbox.get(timeout=60), small.tolist(), large[:5].tolist(), view.tolist())
    inbox.put("go")
    print(outbox.get(timeout=60))
    process.join(60)
    print("child ended with", process.exitcode)

    event = torch.cuda.Event(interprocess=True)
    data = torch.ones(1000, device="cuda")
    data += 1
    event.record()
    process = context.Process(target=wait, args=(event.ipc_handle(), data, outbox))
    process.start()
    print("after the event", outbox.get(timeout=60))
    process.join(60)
    print("child ended with", process.exitcode)


if __name__ == "__main__":
    main()
