"""What the training workloads share: data, precision, SGD with momentum, one step.

PyTorch is imported inside functions, so that names can be listed on a machine without it.
"""

import os
import time

SEED = 1234
# Images made once and dealt out again and again, as a decoded cache would.
POOL = 512
LOSS_SCALE = 128.0


def prepare(spec):
    """Sets PyTorch up; returns it and the device."""
    if spec.has("det"):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch

    torch.manual_seed(SEED)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = spec.has("det")
    torch.use_deterministic_algorithms(spec.has("det"), warn_only=True)
    return torch, torch.device("cuda" if torch.cuda.is_available() else "cpu")


def dtypes(torch, precision):
    """The dtype of the parameters, and that of autocast or None."""
    return {
        "fp32": (torch.float32, None),
        "fp16": (torch.float16, None),
        "bf16": (torch.bfloat16, None),
        "amp-fp16": (torch.float32, torch.float16),
        "amp-bf16": (torch.float32, torch.bfloat16),
    }[precision]


def image_pool(torch, shape, classes, count=POOL):
    """uint8 images and labels that depend on the seed alone."""
    generator = torch.Generator().manual_seed(SEED)
    images = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, classes, (count,), generator=generator)
    return images, labels


def loader(torch, spec, shape, classes, workers):
    """An endless DataLoader over the pool: worker processes, pinned memory."""
    images, labels = image_pool(torch, shape, classes)

    class Endless(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, index):
            return images[index % POOL], labels[index % POOL]

    return torch.utils.data.DataLoader(
        Endless(),
        batch_size=spec.batch,
        sampler=torch.utils.data.SequentialSampler(range(1 << 30)),
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),
        persistent_workers=workers > 0,
        prefetch_factor=2 if workers > 0 else None,
        drop_last=True,
    )


class Mark:
    """A place behind the work that was started so far."""

    def __init__(self, torch):
        self.event = torch.cuda.Event(enable_timing=True)
        self.event.record()

    def wait(self):
        self.event.synchronize()

    def since(self, earlier):
        """Seconds from one place to this one, by the device's own clock."""
        return earlier.event.elapsed_time(self.event) / 1e3


class HostMark:
    """The same where work is done when it is started."""

    def __init__(self):
        self.at = time.monotonic()

    def wait(self):
        pass

    def since(self, earlier):
        return self.at - earlier.at


class Base:
    """Waiting and reading, the same for every workload on PyTorch."""

    def synchronize(self):
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def mark(self):
        return Mark(self.torch) if self.device.type == "cuda" else HostMark()

    def read(self, result):
        return result.item()

    def read_all(self, results):
        """Reads many results with one copy."""
        if not results:
            return []
        return [float(v) for v in self.torch.stack(results).reshape(len(results), -1)[:, 0].cpu()]

    def close(self):
        pass


class Training(Base):
    """Trains an image classifier: momentum SGD, softmax cross entropy."""

    unit = "images/s"

    def __init__(self, spec, make_model, shape, classes, feed):
        torch, self.device = prepare(spec)
        self.torch, self.spec = torch, spec
        self.items_per_step = spec.batch
        self.dtype, self.autocast = dtypes(torch, spec.precision)
        layout = torch.channels_last if spec.has("nhwc") else torch.contiguous_format
        model = make_model().to(self.device, self.dtype, memory_format=layout)
        self.layout = layout
        self.parameters = list(model.parameters())
        self.model = torch.compile(model) if spec.has("compile") else model
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.01, momentum=0.9)
        scaled = spec.precision == "amp-fp16" and self.device.type == "cuda"
        self.scaler = torch.amp.GradScaler("cuda", enabled=scaled)
        self.static_scale = LOSS_SCALE if spec.precision == "fp16" else 1.0
        self.batches = self.staged = None
        if spec.has("ahead") and not spec.has("host"):
            raise ValueError("only batches from host memory can be copied ahead")
        if spec.has("host"):
            self.batches = iter(loader(torch, spec, shape, classes, feed["workers"]))
        else:
            images, labels = image_pool(torch, shape, classes, spec.batch)
            self.images, self.labels = self.normalised(images), labels.to(self.device)
        self.graph = None
        if spec.has("graphs"):
            if self.batches is not None or spec.precision == "amp-fp16":
                raise ValueError("a CUDA graph needs data on the device and no loss scaler")
            self.capture()

    def normalised(self, images):
        images = images.to(self.device, non_blocking=True)
        images = images.to(memory_format=self.layout).to(self.dtype)
        return images.sub_(127.5).div_(127.5)

    def next_batch(self):
        if self.batches is None:
            return self.images, self.labels
        images, labels = next(self.batches)
        return self.normalised(images), labels.to(self.device, non_blocking=True)

    def forward(self, images, labels):
        cross_entropy = self.torch.nn.functional.cross_entropy
        if self.autocast is None:
            return cross_entropy(self.model(images).float(), labels)
        with self.torch.autocast(self.device.type, dtype=self.autocast):
            return cross_entropy(self.model(images), labels)

    def train(self, images, labels):
        self.optimizer.zero_grad(set_to_none=self.graph is None)
        loss = self.forward(images, labels)
        if self.static_scale == 1.0:
            self.scaler.scale(loss).backward()
        else:
            (loss * self.static_scale).backward()
            self.torch._foreach_mul_([p.grad for p in self.parameters], 1 / self.static_scale)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def capture(self):
        """Captures one step, as PyTorch's documentation shows it."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.train(self.images, self.labels)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.loss = self.train(self.images, self.labels)
        self.graph = graph

    def step(self):
        if self.graph is None:
            loss = self.train(*(self.staged or self.next_batch()))
            if self.spec.has("ahead"):
                self.staged = self.next_batch()
            return loss
        self.graph.replay()
        return self.loss.clone()

    def close(self):
        self.batches = self.staged = None
