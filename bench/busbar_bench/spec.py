"""How a run of a workload is written: ``NAME:BATCH:PRECISION[:OPTION[+OPTION...]]``."""

from dataclasses import dataclass, replace

PRECISIONS = ("fp32", "fp16", "bf16", "amp-fp16", "amp-bf16")

# What each option means, as the help shows it.
OPTIONS = {
    "host": "feed uint8 images from host memory through a DataLoader",
    "ahead": "with host: copy the next batch while the present one is computed",
    "read": "read the loss (or the token) every step",
    "compile": "through torch.compile",
    "graphs": "through a CUDA graph",
    "nhwc": "channels-last memory format",
    "det": "deterministic algorithms, so that losses can be compared bit for bit",
    "long": "the longer of two sequence lengths",
}


@dataclass(frozen=True)
class Spec:
    """One workload with its parameters."""

    name: str
    batch: int = 1
    precision: str = "fp32"
    options: tuple = ()

    def __str__(self):
        text = f"{self.name}:{self.batch}:{self.precision}"
        return text + (":" + "+".join(self.options) if self.options else "")

    def has(self, option):
        """Whether an option was given."""
        return option in self.options

    def with_options(self, *more):
        """The same with further options."""
        return replace(self, options=tuple(sorted(set(self.options) | set(more))))


def parse(text):
    """Reads one specification; raises ValueError with a sentence that says what is wrong."""
    parts = text.strip().split(":")
    if not parts[0] or len(parts) > 4:
        raise ValueError(f"{text!r} is not NAME:BATCH:PRECISION[:OPTIONS]")
    batch = parts[1] if len(parts) > 1 and parts[1] else "1"
    if not batch.isdigit() or int(batch) < 1:
        raise ValueError(f"{text!r}: the batch size {batch!r} is not a positive number")
    precision = parts[2] if len(parts) > 2 and parts[2] else "fp32"
    if precision not in PRECISIONS:
        raise ValueError(f"{text!r}: precision {precision!r} is not one of {', '.join(PRECISIONS)}")
    options = tuple(sorted(filter(None, parts[3].split("+")))) if len(parts) > 3 else ()
    for option in options:
        if option not in OPTIONS:
            raise ValueError(f"{text!r}: option {option!r} is not one of {', '.join(OPTIONS)}")
    return Spec(parts[0], int(batch), precision, options)


def parse_list(text):
    """Reads several, separated by commas."""
    return [parse(part) for part in text.split(",") if part.strip()]
