"""What Silero says of every 512 samples of each sound: NAME.npy in the folder, 16-bit at 16 kHz."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from silero_vad.utils_vad import OnnxWrapper

folder = Path(sys.argv[1])
model_file, names = json.loads((folder / "question.json").read_text(encoding="utf-8"))
model, answer = OnnxWrapper(model_file), []
for name in names:
    sound = torch.from_numpy(np.load(folder / f"{name}.npy").astype(np.float32) / 32768)
    model.reset_states()
    answer.append([float(model(piece, 16000)) for piece in sound[: len(sound) // 512 * 512].split(512)])
(folder / "answer.json").write_text(json.dumps(answer))
