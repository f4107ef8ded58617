"""Chat templates that say everything themselves."""

import json
from collections.abc import Mapping


def complete_template(template: str, tokens: Mapping[str, str]) -> str:
    """A chat template with the special tokens that it names set at its front, so that it needs the messages alone.

    Args:
        template: Jinja.
        tokens: by the variable that stands for them, such as `bos_token`.
    """
    used = {name: text for name, text in tokens.items() if name in template}
    quoted = {name: json.dumps(text, ensure_ascii=False) for name, text in used.items()}
    return "".join(f"{{% set {name} = {text} %}}" for name, text in quoted.items()) + template


def merged_template(template: str, for_tools: str | None) -> str:
    """One chat template out of the two that some models have, of which one is for chats that offer functions."""
    return f"{{% if tools %}}{for_tools}{{% else %}}{template}{{% endif %}}" if template and for_tools else template
