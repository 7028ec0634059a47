"""Published figures, and the bars that Busbar sets itself. Ratios are remote over local speed."""

from dataclasses import dataclass, field

from busbar_bench.spec import Spec, parse


@dataclass(frozen=True)
class Mark:
    """A published ratio, or the range of which only the ends are known."""

    source: str
    low: float
    high: float
    note: str = ""

    def __str__(self):
        value = f"{self.low:g}" if self.low == self.high else f"{self.low:.2f}-{self.high:.2f}"
        return f"{self.source} {value}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    spec: Spec
    # The least ratio wanted; None where the bar is another kind.
    bar: float | None
    marks: tuple = ()
    # "ratio"; "round-trips": at most local step time + `trips` round trips;
    # "link": a ratio to the smaller of local speed and what the link carries.
    kind: str = "ratio"
    trips: float = 0.0
    # Bytes that one item sends over the link, where that may be the limit.
    bytes_per_item: int = 0
    # Part of the quick version of the table.
    smoke: bool = True
    link: str | None = None


@dataclass(frozen=True)
class Table:
    """Rows that are measured together."""

    name: str
    title: str
    link: str
    rows: tuple = field(default_factory=tuple)


def mark(source, low, high=None, note=""):
    """A figure, or a range."""
    return Mark(source, low, low if high is None else high, note)


def _row(spec, bar, *marks, **more):
    return Row(parse(spec), bar, tuple(marks), **more)


RADIUM, LUPINE = "Radium", "Lupine"
RADIUM_AMD = mark(RADIUM, 0.50, 0.99, "range of the table")
BITFUSION_RDMA = mark("Bitfusion RDMA", 0.43, 0.89, "100 Gb/s, range of the table")
BITFUSION_TCP = mark("Bitfusion TCP", 0.15, 0.90, "100 Gb/s, range of the table")

# Presets of the link emulator: one-way delay in seconds, bytes a second (None: no limit).
LINKS = {
    "vmxnet3-10g": (80e-6, 4.75e9 / 8),
    "ethernet-10g": (25e-6, 9.4e9 / 8),
    "roce-100g": (1.66e-6, 96e9 / 8),
    "wan-10ms": (10e-3, 1e9 / 8),
    "loopback": (0.0, None),
}

_CIFAR_BATCHES = (32, 128, 512)
_AMD_MODELS = ("resnet20_v2", "resnet56_v2", "resnet110_v2")
# Bytes of one uint8 image.
_IMAGE = {"resnet50": 3 * 224 * 224, "inception3": 3 * 299 * 299}

_TABLES = (
    Table(
        "radium-small",
        "CIFAR-10 shapes, batch 32, one GPU (Radium's small models)",
        "vmxnet3-10g",
        (
            _row("alexnet:32:fp32", 1.00, mark(RADIUM, 0.42), mark(LUPINE, 0.33)),
            _row("resnet32_v2:32:fp32", 1.10, mark(RADIUM, 0.93), mark(LUPINE, 0.77, note="v1")),
            _row("resnet56:32:fp32", 1.10, mark(RADIUM, 0.97), mark(LUPINE, 0.66)),
        ),
    ),
    Table(
        "radium-large",
        "CIFAR-10 shapes, batch 512, one GPU (Radium's large batches)",
        "vmxnet3-10g",
        (
            _row("alexnet:512:fp32", 0.99, mark(RADIUM, 0.84)),
            _row("resnet32_v2:512:fp32", 0.99, mark(RADIUM, 0.85)),
            _row("resnet56:512:fp32", 0.99, mark(RADIUM, 0.996), mark(LUPINE, 0.33)),
        ),
    ),
    Table(
        "radium-amd",
        "ResNet v2 for CIFAR-10 shapes at three batch sizes (Radium's second table)",
        "vmxnet3-10g",
        tuple(
            _row(f"{model}:{batch}:fp32", 0.99, RADIUM_AMD, smoke=batch == 32)
            for model in _AMD_MODELS
            for batch in _CIFAR_BATCHES
        ),
    ),
    Table(
        "bitfusion-networks",
        "inception3 and resnet50 over three networks (Bitfusion's table)",
        "vmxnet3-10g",
        tuple(
            _row(
                f"{model}:64:fp32",
                0.99,
                BITFUSION_RDMA if link == "roce-100g" else BITFUSION_TCP,
                link=link,
                smoke=model == "resnet50",
            )
            for link in ("vmxnet3-10g", "ethernet-10g", "roce-100g")
            for model in ("inception3", "resnet50")
        ),
    ),
    Table(
        "imagenet",
        "resnet50 and inception3, synthetic data on the device",
        "vmxnet3-10g",
        tuple(
            _row(f"{model}:{batch}:{precision}", 0.99, smoke=batch == 32)
            for model in ("resnet50", "inception3")
            for precision in ("fp32", "bf16")
            for batch in (32, 128, 256)
        ),
    ),
    Table(
        "imagenet-host",
        "resnet50 and inception3 fed from host memory as uint8 images",
        "ethernet-10g",
        tuple(
            # As tf_cnn_benchmarks feeds its models, whose next batch is on its way to the device
            # while a step is computed; and once as the simplest program does, which has nothing to
            # compute during the first batch after each reading of time.
            _row(
                f"{model}:{batch}:{precision}:{feed}",
                0.97,
                kind="link",
                bytes_per_item=_IMAGE[model],
                smoke=batch == 64,
            )
            for model in ("resnet50", "inception3")
            for precision in ("fp32", "bf16")
            for batch, feed in ((64, "host+ahead"), (256, "host+ahead"), (256, "host"))
        ),
    ),
    Table(
        "every-step",
        "the program reads its loss every step",
        "vmxnet3-10g",
        tuple(
            _row(f"{model}:{batch}:fp32:read", None, kind="round-trips", trips=1.2)
            for model, batch in (("resnet32", 32), ("resnet56", 32), ("resnet50", 32))
        ),
    ),
    Table(
        "llm",
        "decoding, torch.compile, CUDA graphs, BERT-large pre-training",
        "vmxnet3-10g",
        (
            _row("gpt2-decode:1:bf16", 0.97),
            _row("gpt2-decode:1:bf16:compile", 0.97, smoke=False),
            _row("gpt2-decode:1:bf16:graphs", 0.97),
            _row("gpt2-decode:1:bf16:read", None, kind="round-trips", trips=1.2),
            _row("gpt-1.3b-decode:1:bf16", 0.97, smoke=False),
            _row("gpt-1.3b-decode:1:bf16:graphs", 0.97, smoke=False),
            _row("resnet50:64:bf16:compile", 0.97, smoke=False),
            _row("resnet32:32:fp32:graphs", 0.97),
            _row("bert-large:8:bf16", 0.97, smoke=False),
            _row("bert-large:32:bf16", 0.97, smoke=False),
        ),
    ),
    Table(
        "correct",
        "losses bit for bit: deterministic algorithms, local against remote",
        "vmxnet3-10g",
        tuple(
            _row(f"{model}:32:{precision}:det", None, kind="losses")
            for model, precision in (
                ("alexnet", "fp32"),
                ("resnet32_v2", "fp32"),
                ("resnet56", "amp-bf16"),
                ("resnet50", "bf16"),
            )
        ),
    ),
)

_SWITCHES = Table(
    "switches",
    "what each optimisation buys: a launch-bound training and a decoding loop without it",
    "vmxnet3-10g",
    (_row("resnet32:32:fp32", None), _row("gpt2-decode:1:bf16", None)),
)
_TABLES = (*_TABLES, _SWITCHES)

TABLES = {table.name: table for table in _TABLES}

# Bars of the micro-benchmarks: what is measured, the bound, and whether less is better.
MICRO_BARS = {
    "launch_ns_1": (500.0, "at most"),
    "launch_ns_8": (500.0, "at most"),
    "launches_per_s": (300_000.0, "at least"),
    "pinned_loopback_gb_s": (8.0, "at least"),
    "pinned_shared_gb_s": (40.0, "at least"),
    "link_part": (0.95, "at least"),
    "client_memory_mib": (64.0, "at most"),
    "worker_memory_mib": (300.0, "at most"),
    "first_result_extra_s": (0.150, "at most"),
}

# The same in words.
MICRO_NAMES = {
    "launch_ns_1": "queued launch, 1 thread, ns",
    "launch_ns_8": "queued launch, 8 threads, ns",
    "launches_per_s": "launches sustained a second",
    "pinned_loopback_gb_s": "pinned copies over TCP on one host, GB/s",
    "pinned_shared_gb_s": "pinned copies through shared memory, GB/s",
    "link_part": "slowest copy above 1 MiB, part of the link",
    "client_memory_mib": "client's memory at its peak, MiB",
    "worker_memory_mib": "worker's host memory beyond a bare context's, MiB",
    "first_result_extra_s": "first result, warm, beyond local, s",
}

# Off switches of Busbar: the variable that is set to 0, and what is then done without.
SWITCHES = {
    "QUEUE": "queued launches",
    "LOCAL": "local answers",
    "IDLE": "idle waits answered locally",
    "GATHER": "gathering of records",
    "LANES": "a lane for each thread",
    "SIDE": "a second connection for long copies",
    "POLL": "looking before sleeping",
    "BORROW": "sending in place",
    "CONTENT": "content by hash",
    "STAGING": "page-locked staging",
    "SPARE": "worker started ahead",
    "REPEAT": "what the worker has is named",
    "SHM": "shared memory",
}

# How many times as fast as one: VMware, 1 to 4 machines with a T4 each, ResNet-50 of tf_cnn with
# Horovod, fp16, batch 32.
SCALING = {
    "VMware TCP": {1: 1.00, 2: 1.07, 3: 1.29, 4: 1.62},
    "VMware PVRDMA": {1: 1.00, 2: 1.57, 3: 2.30, 4: 3.00},
}
SCALING_NOTES = (
    "DeepOps, 2 DGX-1 with 16 V100 over RoCE: 234.8 images/s a GPU of ResNet-50, 22.9 GB/s busbw",
    "Azure, NC24rs_v3 over InfiniBand: over 90 % of linear with Horovod and DDP",
)
