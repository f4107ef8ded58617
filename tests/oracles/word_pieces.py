"""The token ids of Hugging Face's tokenizers for each text, by the tokenizer.json in the folder, cut at 256."""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

folder = Path(sys.argv[1])
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.no_padding()
tokenizer.enable_truncation(256)
tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
texts = json.loads((folder / "question.json").read_text(encoding="utf-8"))
(folder / "answer.json").write_text(json.dumps([tokenizer.encode(text).ids for text in texts]))
