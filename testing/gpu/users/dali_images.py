"""Data loading with DALI: images are decoded, changed and put into batches on the GPU, and read by
PyTorch; spectra of noise."""

import pathlib
import sys
import tempfile

import numpy as np
import torch  # noqa: F401 (before DALI, so that both have one CUDA runtime)
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator
from PIL import Image


def make(folder, each):
    for c in range(4):
        (folder / str(c)).mkdir()
        for i in range(each):
            y, x = np.mgrid[0:256, 0:320]
            waves = (np.sin(x / (9 + c)) + np.cos(y / (5 + i % 7))) * 60 + 128
            image = np.stack([waves, (x + y * c) % 256, (x * i + y) % 256], -1)
            Image.fromarray(image.astype(np.uint8)).save(folder / str(c) / f"{i:03d}.jpg")


@pipeline_def(batch_size=16, num_threads=4, device_id=0, seed=3)
def pictures(folder, device):
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="files", seed=5)
    x = fn.decoders.image(files, device=device, output_type=types.RGB)
    x = fn.resize(x.gpu() if device == "cpu" else x, size=[224, 224])
    angle = fn.random.uniform(range=(-15, 15), seed=9)
    x = fn.rotate(x, angle=angle, fill_value=0, keep_size=True)
    x = fn.color_twist(x, brightness=1.1, hue=10.0)
    x = fn.crop_mirror_normalize(
        x, dtype=types.FLOAT, mean=[127.0] * 3, std=[60.0] * 3,
        mirror=fn.random.coin_flip(seed=11),
    )
    return x, labels.gpu()


@pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=3)
def spectra():
    noise = fn.random.normal(shape=[16000], device="gpu", seed=2)
    s = fn.spectrogram(noise, nfft=512, window_length=400, window_step=160)
    return fn.to_decibels(fn.mel_filter_bank(s, sample_rate=16000.0, nfilter=40))


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    make(folder, 32 // (int(sys.argv[1]) if len(sys.argv) > 1 else 1))
    for device in ("cpu", "mixed"):
        p = pictures(str(folder), device)
        p.build()
        batches = DALIGenericIterator([p], ["x", "y"], reader_name="files")
        total, labels = 0.0, []
        for _ in range(3):
            for (batch,) in batches:
                total += float(batch["x"].double().abs().mean())
                labels += batch["y"].flatten().tolist()
            batches.reset()
        print(device, round(total, 4), len(labels), sum(i * v for i, v in enumerate(labels)))
    p = spectra()
    p.build()
    print("spectra", np.round(np.array(p.run()[0][0].as_cpu())[:2, :3], 3).tolist())


main()
