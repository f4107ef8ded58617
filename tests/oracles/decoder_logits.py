"""What transformers computes for language models; needs torch and transformers, in an environment of their own.

    python tests/oracles/decoder_logits.py

writes tests/sdk/decoders/data/logits.json again, which tests compare with where neither is installed.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "sdk/python", "signing")]

from support.language_models import CONFIGS, PROMPTS, TINY_PROMPT, smollm2, write_hf  # noqa: E402

DATA = ROOT / "tests" / "sdk" / "decoders" / "data" / "logits.json"
STEP = 512  # of a long row of logits, every so many are kept


def load(folder: Path, **options: Any) -> Any:
    """A model in FP32 that computes attention plainly."""
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", **options
    ).eval()


@torch.no_grad()
def last_logits(model: Any, ids: list[int]) -> Any:
    """FP32 [vocab]: behind the last token."""
    return model(torch.tensor([ids])).logits[0, -1].numpy()


def tiny() -> dict[str, list[float]]:
    """The logits of all tiny models."""
    with tempfile.TemporaryDirectory() as folder:
        models = {name: load(write_hf(Path(folder) / name, name)) for name in CONFIGS}
    return {name: [round(float(x), 5) for x in last_logits(model, TINY_PROMPT)] for name, model in models.items()}


def real() -> list[dict[str, Any]]:
    """Of SmolLM2: each prompt's tokens, some of its logits, the next tokens that are the most likely."""
    path = smollm2()
    model, tokenizer = (
        load(path.parent, gguf_file=path.name),
        AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name),
    )
    found = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, add_special_tokens=False).input_ids
        logits = last_logits(model, ids)
        greedy = model.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False, eos_token_id=None)
        some = [round(float(x), 5) for x in logits[::STEP]]
        found.append({"prompt": prompt, "ids": ids, "logits": some, "greedy": greedy[0, len(ids) :].tolist()})
    return found


if __name__ == "__main__":
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(json.dumps({"tiny": tiny(), "smollm2": real()}, indent=1) + "\n", encoding="utf-8")
