"""The settings table of host/README.md, made from the settings class."""

import re
from pathlib import Path

from sandseal_host.settings import Settings

README = Path(__file__).resolve().parents[2] / "host" / "README.md"
_MARKS = re.compile(r"(<!-- settings: [^>]*-->\n).*?(<!-- /settings -->)", re.DOTALL)


def with_settings_table(text: str) -> str:
    """The README with its table as the settings are now."""
    rows = ["| variable | default | what |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{field.default}`"
        rows.append(f"| `SANDSEAL_{name.upper()}` | {default} | {field.description} |")
    table = "\n".join(rows)
    return _MARKS.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)
