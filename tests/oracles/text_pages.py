"""The lines that rapidocr's own pipeline finds and reads on each page that is asked about: text, score, box."""

import json
import sys
from pathlib import Path

from rapidocr import RapidOCR

folder, answer = Path(sys.argv[1]), []
reader = RapidOCR(params={"Global.log_level": "critical", "Global.text_score": 0.0})
for page in json.loads((folder / "question.json").read_text(encoding="utf-8")):
    read = reader(page, use_det=True, use_cls=False, use_rec=True)
    boxes = [] if read.boxes is None else read.boxes.tolist()
    answer.append([list(line) for line in zip(read.txts or (), map(float, read.scores or ()), boxes, strict=True)])
(folder / "answer.json").write_text(json.dumps(answer))
