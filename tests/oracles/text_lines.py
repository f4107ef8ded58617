"""Lines of text as images, and what rapidocr's own recogniser reads in each: NAME.png, and its tensor in NAME.npy."""

import json
import sys
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr import RapidOCR

folder, answer = Path(sys.argv[1]), {}
lines = json.loads((folder / "question.json").read_text(encoding="utf-8"))
reader = RapidOCR(params={"Global.log_level": "critical"})
for number, (text, size) in enumerate(lines):
    font = ImageFont.load_default(size)
    _, _, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (int(right) + 20, int(bottom) + 16), (250, 248, 240))
    ImageDraw.Draw(image).text((10, 6), text, (20, 30, 60), font=font)
    path = folder / f"{number}.png"
    image.save(path)
    pixels = cv2.imread(str(path))
    read = reader(pixels, use_det=False, use_cls=False, use_rec=True)
    answer[path.name] = [read.txts[0], float(read.scores[0])]
    ratio = max(320 / 48, pixels.shape[1] / pixels.shape[0])
    np.save(path.with_suffix(".npy"), reader.text_rec.resize_norm_img(pixels, ratio)[None])
(folder / "answer.json").write_text(json.dumps(answer))
