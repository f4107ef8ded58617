"""How an engine gets its memory."""

import subprocess
import sys
from pathlib import Path

import pytest

# The pool reserves some TiB; an instance on demand reserves 4 GiB.
SHORT_OF_ADDRESSES = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (100 << 30, 100 << 30))
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from sandbox.guests import floats, guest, stage_spec
from sandseal_host.sandbox import SandboxEngine
with SandboxEngine() as engine, engine.compile(guest(), stage_spec()) as plugin:
    print(engine.pooling, plugin.call([floats(1)])[0].data.tolist())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds processes to this limit")
def test_where_no_pool_can_be_had_there_is_none() -> None:
    """wasmtime would end the process; a child finds that out first."""
    done = subprocess.run([sys.executable, "-c", SHORT_OF_ADDRESSES], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("False [1.0]\n", 0), done.stderr
