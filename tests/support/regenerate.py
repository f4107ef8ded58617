"""Write golden data and generated documentation again: `make vectors`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.hostile_table import TABLE, make_table
from support.numpy_python_page import PAGE, with_constructs
from support.settings_table import README, with_settings_table
from support.triton_differences import PAGE as TRITON
from support.triton_differences import with_differences
from support.triton_scenarios import with_triton_table

README.write_text(with_triton_table(with_settings_table(README.read_text(encoding="utf-8"))), encoding="utf-8")
TABLE.write_text(make_table(), encoding="utf-8")
PAGE.write_text(with_constructs(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
TRITON.write_text(with_differences(TRITON.read_text(encoding="utf-8")), encoding="utf-8")
