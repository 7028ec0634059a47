"""Images of several formats, coded and decoded on the device by nvImageCodec, in batches."""
import sys

import cupy as cp
import numpy as np
from nvidia import nvimgcodec as codec

batch = int(sys.argv[1]) if len(sys.argv) > 1 else 24
random = np.random.default_rng(0)


def picture(i):
    """Smooth colours and some edges."""
    y, x = np.mgrid[0:480 + 8 * (i % 5), 0:640 + 16 * (i % 3)]
    waves = [np.sin(x / (9 + i + k)) + np.cos(y / (7 + i * k)) for k in range(3)]
    rgb = np.stack(waves, axis=-1) * 60 + 128
    rgb[40 + i:90 + i, 50:200] = random.integers(0, 255, 3)
    return rgb.clip(0, 255).astype(np.uint8)


def told(name, decoded):
    arrays = [cp.asarray(d) for d in decoded]
    sums = [int(a.astype(cp.int64).sum()) for a in arrays]
    mean = float(cp.concatenate([a.ravel() for a in arrays]).astype(cp.float64).mean())
    print(name, len(arrays), arrays[0].shape, arrays[0].dtype, sums[:3], sum(sums), f"{mean:.6f}")


pictures = [picture(i) for i in range(batch)]
on_device = codec.as_images([cp.asarray(p) for p in pictures])
coder, decoder = codec.Encoder(), codec.Decoder()
for name, how in (
    ("jpeg", codec.EncodeParams(quality_type=codec.QualityType.QUALITY, quality_value=90)),
    ("jpeg2k", codec.EncodeParams(quality_type=codec.QualityType.LOSSLESS)),
    ("png", None),
    ("bmp", None),
):
    try:
        coded = coder.encode(on_device, codec=name, params=how)
    except RuntimeError as e:
        print(name, "is not coded:", str(e).splitlines()[0])
        continue
    if any(c is None for c in coded):
        print(name, "is not coded")
        continue
    told(name, decoder.decode(coded))
    again = decoder.decode(coded)
    same = all(bool((cp.asarray(a) == cp.asarray(b)).all())
               for a, b in zip(again, decoder.decode(coded)))
    exact = all(bool((cp.asarray(a) == cp.asarray(p)).all()) for a, p in zip(again, pictures))
    print(name, "the same again", same, "exactly", exact)
    part = codec.Region(16, 32, 216, 332)
    told(name + " parts", decoder.decode([s.get_sub_code_stream(region=part) for s in coded[:4]]))
    print(name, "on the host", int(np.asarray(decoder.decode(coded[0]).cpu()).astype(int).sum()))
