import os
import threading

import pytest

from sandseal_host.runtime.affinity import cores_near, keep_thread_on, parse_cores

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds threads")


@pytest.mark.parametrize(("text", "cores"), [("0-3,8,10-11\n", {0, 1, 2, 3, 8, 10, 11}), ("5", {5}), ("\n", set())])
def test_lists_of_processors_are_read_as_linux_writes_them(text, cores):
    assert parse_cores(text) == cores


def pci_device(folder, node: str, cores: str):
    (folder / "numa_node").write_text(node)
    (folder / "local_cpulist").write_text(cores)
    return folder


def test_a_device_has_the_processors_of_its_node(tmp_path):
    assert cores_near(pci_device(tmp_path, "1\n", "16-31\n")) == frozenset(range(16, 32))


@pytest.mark.parametrize(("node", "cores"), [("-1\n", "0-31\n"), ("x", "0"), ("0", "none")])
def test_without_nodes_any_processor_is_near(tmp_path, node, cores):
    assert cores_near(pci_device(tmp_path, node, cores)) == frozenset()
    assert cores_near(tmp_path / "missing") == frozenset()


@needs_affinity
def test_a_thread_stays_on_its_processors_and_others_do_not_mind():
    before, seen = os.sched_getaffinity(0), []
    one = min(before)

    def work() -> None:
        keep_thread_on(frozenset({one, 100_000}))
        seen.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [{one}]
    assert os.sched_getaffinity(0) == before


@needs_affinity
def test_processors_that_the_process_may_not_use_are_no_reason_to_move():
    before = os.sched_getaffinity(0)
    keep_thread_on(frozenset({100_000}))
    keep_thread_on(frozenset())
    assert os.sched_getaffinity(0) == before
