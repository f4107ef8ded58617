"""SmolLM2 on 200 prompts beside transformers itself, where torch and transformers are installed; CI has neither."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from sandseal_host.runtime.decoder import Decoder
from sandseal_sdk.decoders.gguf_source import GgufSource
from support.imported_decoders import imported
from support.language_models import smollm2

STEPS = 8  # tokens behind each prompt
SUBJECTS = ("a river", "the moon", "my neighbour's cat", "bread", "chess", "a violin", "Tokyo", "the number 17")
FORMS = (
    "{}", "Tell me about {}.", "{} is", "Why is {} so", "Once upon a time, {}", "The history of {} begins in",
    "Q: What is {}?\nA:", "I have never seen {}, but", "# {}\n\n", "def draw():\n    # {}\n", "{}? No,",
    '{{"topic": "{}", "words": [', "Write a poem about {}.\n\n", "In 1871, {}", "Translate to French: {}\n",
    "<|im_start|>user\nWhat do you know about {}?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nDescribe {} in one sentence.<|im_end|>\n<|im_start|>assistant\n",
    "1. {}\n2.", "The opposite of {} is", "If {} could talk,", "Dear {},\n\n", "{} {} {}", "    {}", "SELECT * FROM {}",
    "The three most important facts about {}:\n-",
)  # fmt: skip


@pytest.mark.slow
def test_logits_and_greedy_tokens_on_200_prompts(tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    path = smollm2()
    options = {"gguf_file": path.name, "dtype": torch.float32, "attn_implementation": "eager"}
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path.parent, **options).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    prompts = [form.format(*[subject] * 3) for form, subject in itertools.product(FORMS, SUBJECTS)]
    usual, unusual = 0.0, []
    with imported(GgufSource(path), tmp_path / "bundle", slots=1) as ours, torch.no_grad():
        for prompt in prompts:
            ids = tokenizer(prompt, add_special_tokens=False).input_ids
            tokens, found = _greedy(ours, ids)
            given = torch.tensor([ids + tokens[:-1]])
            wanted = theirs(given).logits[0, len(ids) - 1 :].numpy()
            assert wanted.argmax(-1).tolist() == tokens
            difference = float(np.abs(found - wanted).max())
            if difference < 1e-3:
                usual = max(usual, difference)
            else:
                unusual.append((prompt, given, found, wanted))
        theirs = theirs.double()
        for prompt, given, found, wanted in unusual:  # where FP32 itself is that far from the truth
            exact = theirs(given).logits[0, -STEPS:].numpy()
            error, their_error = (np.abs(each - exact).max() for each in (found, wanted))
            print(f"\n{prompt!r}: {error:.2g} from FP64, transformers' own FP32 {their_error:.2g}")
            assert error < 4 * their_error
    print(f"\n{len(prompts) - len(unusual)} of {len(prompts)} prompts: logits differ by {usual:.2g} at most")
    assert len(unusual) <= 2


def _greedy(decoder: Decoder, ids: list[int]) -> tuple[list[int], np.ndarray]:
    """The tokens behind a prompt, each the most likely, and the logits that say so, [steps, vocab]."""
    rows = [decoder.prefill(0, ids, 0).copy()]
    tokens = [int(rows[0].argmax())]
    while len(tokens) < STEPS:
        rows.append(decoder.decode(tokens[-1:], [len(ids) + len(tokens) - 1])[0].copy())
        tokens.append(int(rows[-1].argmax()))
    return tokens, np.stack(rows)
