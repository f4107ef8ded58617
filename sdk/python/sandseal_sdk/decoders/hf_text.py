"""The tokenizer, chat template and generation defaults of a model folder as Hugging Face's tools write it."""

from pathlib import Path
from typing import Any

from sandseal_sdk.decoders.facts import Facts
from sandseal_sdk.decoders.source import TextParts
from sandseal_sdk.decoders.template import complete_template, merged_template
from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported

_SAMPLING = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p",
    "repetition_penalty": "repetition_penalty", "max_new_tokens": "max_tokens",
}  # fmt: skip


def read_text(folder: Path, config: Facts) -> TextParts:
    """Everything about text that a folder's files say.

    Args:
        config: of the model, which names stop tokens where no `generation_config.json` does.

    Raises:
        ModelUnreadable: a file that cannot be read.
        ModelUnsupported: there is no tokenizer.json.
    """
    try:
        tokenizer = (folder / "tokenizer.json").read_bytes()
    except OSError:
        raise ModelUnsupported(
            f"{folder} has no tokenizer.json",
            hint="load the tokenizer with transformers and save it again: save_pretrained writes one",
        ) from None
    about, generation = (Facts.load(folder / f"{name}_config.json") for name in ("tokenizer", "generation"))
    template = _template(folder, about)
    named = {name: text for name in ("bos_token", "eos_token") if (text := _token(about, name))}
    return TextParts(
        tokenizer=tokenizer,
        chat_template=complete_template(template, named) if template else None,
        stop_ids=_ids(generation.get("eos_token_id", config.get("eos_token_id"))),
        add_bos=_first_token(Facts.load(folder / "tokenizer.json")),
        defaults={} if generation.get("do_sample") is False else generation.numbers(_SAMPLING),
    )


def _template(folder: Path, about: Facts) -> str | None:
    """From a file of its own, or out of the tokenizer's configuration, where several may be named."""
    template: Any = _text_file(folder / "chat_template.jinja") or about.get("chat_template")
    for_tools: Any = _text_file(folder / "additional_chat_templates" / "tool_use.jinja")
    if isinstance(template, list):
        named = {str(each.get("name")): each.get("template") for each in template if isinstance(each, dict)}
        template, for_tools = named.get("default"), named.get("tool_use")
    if not isinstance(template, str):
        return None
    return merged_template(template, for_tools if isinstance(for_tools, str) else None)


def _text_file(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelUnreadable(f"{path} cannot be read: {error}") from None


def _token(about: Facts, name: str) -> str | None:
    """A special token's text, which is written in two ways."""
    token: Any = about.get(name)
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _ids(value: Any) -> tuple[int, ...]:
    ids = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(item for item in ids if type(item) is int and item >= 0))


def _first_token(tokenizer: Facts) -> int | None:
    """The special token that the tokenizer puts before every text, if it does."""
    post = tokenizer.get("post_processor")
    try:
        for step in post.get("processors", [post]):
            first = step.get("single", [{}])[0].get("SpecialToken")
            if first:
                return int(step["special_tokens"][first["id"]]["ids"][0])
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):  # not as the format has it: no such token
        pass
    return None
