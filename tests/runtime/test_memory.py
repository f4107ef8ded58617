import sys

import numpy as np
import pytest

from sandseal_host.runtime.memory import resident_bytes, trim

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what is resident")


def test_what_is_touched_is_resident():
    before = resident_bytes()
    block = np.ones(50_000_000, np.uint8)
    assert resident_bytes() - before > 40_000_000
    del block


def test_trim_returns_what_lies_free_below_something_used():
    blocks = [np.ones(65_536, np.uint8) for _ in range(1000)]
    used = blocks.pop()
    blocks.clear()
    freed = resident_bytes()
    trim()
    assert freed - resident_bytes() > 40_000_000
    assert used.all()
