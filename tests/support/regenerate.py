"""Write generated documentation again: `make vectors`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.settings_table import README, with_settings_table

README.write_text(with_settings_table(README.read_text(encoding="utf-8")), encoding="utf-8")
