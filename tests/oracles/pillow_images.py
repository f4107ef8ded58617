"""Images of many kinds, and what Pillow and NumPy make of each for an ImageNet model: NAME and NAME.npy in the folder.

From two photographs that NumPy paints: smooth, with edges, of an odd size.
"""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

MEAN, STD = (np.array(values, np.float32) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def painted(width, height):
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    planes = [127 + 120 * np.sin(x / 31 + k) * np.cos(y / (17 + 5 * k)) for k in range(3)]
    picture = np.stack(planes, 2)
    picture[height // 3 : height // 2, width // 4 : width // 2] = (250, 20, 60)
    noise = np.random.default_rng(5).normal(0, 6, picture.shape)
    return Image.fromarray(np.clip(picture + noise, 0, 255).astype(np.uint8))


def variants():
    image = painted(641, 427)
    for name, options in {
        "444": {"subsampling": 0}, "422": {"subsampling": 1}, "420": {"subsampling": 2}, "low": {"quality": 20},
        "progressive": {"progressive": True}, "optimised": {"optimize": True, "quality": 95},
    }.items():  # fmt: skip
        yield f"{name}.jpg", image, options
    yield "grey.jpg", image.convert("L"), {}
    yield "upright.jpg", painted(333, 500), {}
    yield "plain.png", image, {}
    yield "grey.png", image.convert("L"), {}
    yield "palette.png", image.convert("P"), {}
    yield "bits.png", image.convert("1"), {}
    yield "small.png", painted(250, 260), {}
    yield "tiny.png", painted(5, 7), {}
    yield "flat.png", painted(900, 20), {}


def prepared(path):
    image = Image.open(path).convert("RGB")
    width, height = image.size
    shorter = min(width, height)
    image = image.resize((width * 256 // shorter, height * 256 // shorter), Image.Resampling.BICUBIC)
    left, top = round((image.width - 224) / 2), round((image.height - 224) / 2)
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32)
    return ((pixels / 255 - MEAN) / STD).transpose(2, 0, 1)[None]


folder, names = Path(sys.argv[1]), []
for name, image, options in variants():
    image.save(folder / name, **options)
    np.save(folder / f"{name}.npy", prepared(folder / name))
    names.append(name)
(folder / "answer.json").write_text(json.dumps(names))
