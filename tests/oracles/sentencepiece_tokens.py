"""What SentencePiece makes of some texts; needs sentencepiece, in an environment of its own.

    python tests/oracles/sentencepiece_tokens.py

trains a small vocabulary and writes tests/sdk/decoders/data/sentencepiece.json again.
"""

import io
import json
from pathlib import Path

import sentencepiece

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "sdk" / "decoders" / "data" / "sentencepiece.json"
TEXTS = (
    "", " ", "hello", "The quick brown fox jumps over the lazy dog.", "  two  spaces  ", "\tTab\nand line\n\n",
    "na\u00efve caf\u00e9", "\u6771\u4eac \U0001f680", "1234567890", "a_b-c.d,e;f", "HOST host Host",
)  # fmt: skip


def main() -> None:
    model = io.BytesIO()
    lines = [line for path in sorted(ROOT.glob("*.md")) for line in path.read_text("utf-8").splitlines() if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=600, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.999, num_threads=1,
        minloglevel=2,
    )  # fmt: skip
    tokens = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    kinds = [(tokens.is_unknown, 2), (tokens.is_control, 3), (tokens.is_byte, 6)]
    ids = range(tokens.get_piece_size())
    document = {
        "tokens": [tokens.id_to_piece(i) for i in ids],
        "scores": [tokens.get_score(i) for i in ids],
        "kinds": [next((kind for is_it, kind in kinds if is_it(i)), 1) for i in ids],
        "texts": {text: tokens.encode(text) for text in TEXTS},
    }
    DATA.write_text(json.dumps(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
