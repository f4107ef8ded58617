"""Write golden data and generated documentation again: `make vectors`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.hostile_table import TABLE, make_table
from support.settings_table import README, with_settings_table

README.write_text(with_settings_table(README.read_text(encoding="utf-8")), encoding="utf-8")
TABLE.write_text(make_table(), encoding="utf-8")
