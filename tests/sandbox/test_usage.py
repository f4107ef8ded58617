"""What an instance has used, as test harnesses ask for it."""

from collections.abc import Iterator

import pytest

from sandbox.guests import ECHO, floats, guest, stage_spec
from sandseal_host.errors import NotReady, PluginTrapped
from sandseal_host.sandbox import SandboxEngine


@pytest.fixture(scope="module")
def counting() -> Iterator[SandboxEngine]:
    with SandboxEngine(pooling=False, fuel=True) as engine:
        yield engine


def test_the_same_call_takes_the_same_instructions(counting: SandboxEngine) -> None:
    with counting.compile(guest(ECHO), stage_spec()) as plugin:
        used = []
        for values in ((1.0, 2.0), (3.0, 4.0)):
            with plugin.instance() as instance:
                instance.call([floats(*values)])
                used.append(instance.usage())
    assert used[0].fuel == used[1].fuel > 0
    assert used[0].memory_bytes % 65_536 == 0
    assert used[0].cpu_s > 0


def test_a_trap_does_not_hide_what_was_used(counting: SandboxEngine) -> None:
    with counting.compile(guest("unreachable"), stage_spec()) as plugin, plugin.instance() as instance:
        with pytest.raises(PluginTrapped):
            instance.call([floats(1)])
        assert instance.usage().fuel > 0


def test_a_host_counts_none(engine: SandboxEngine) -> None:
    with engine.compile(guest(ECHO), stage_spec()) as plugin, plugin.instance() as instance:
        instance.call([floats(1)])
        assert instance.usage().fuel == 0
        unused = plugin.instance()
        unused.close()
        with pytest.raises(NotReady):
            unused.usage()


def test_each_byte_goes_into_the_guest_once_and_out_once(engine: SandboxEngine) -> None:
    with engine.compile(guest(ECHO), stage_spec()) as plugin:
        for count in (3, 0, 1000):
            with plugin.instance() as instance:
                instance.call([floats(*range(count))])
        counts = plugin.statistics()
    assert (counts.in_bytes_total, counts.out_bytes_total) == (4 * 1003, 4 * 1003)
