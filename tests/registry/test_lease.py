"""Read leases: granted to nobody behind a writer, broken by the next one, who goes on when they are released."""

import os
import signal
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from sandseal_host.registry.lease import Lease, LeaseRefused
from support.leases import listening, needs_leases
from support.waiting import wait_until

pytestmark = needs_leases


@pytest.fixture
def file(tmp_path: Path) -> Iterator[FileIO]:
    path = tmp_path / "blob"
    path.write_bytes(b"weights")
    with FileIO(path) as file:
        yield file


def test_a_writer_breaks_it_and_waits_for_its_release(file: FileIO):
    with listening() as signals:
        lease = Lease(file)
        assert Path(file.name).read_bytes() == b"weights"  # readers are free
        assert not lease.broken
        writer = threading.Thread(target=lambda: Path(file.name).open("r+b").close())
        writer.start()
        wait_until(lambda: lease.broken and signals)
        assert signals == [signal.SIGIO]
        assert writer.is_alive()
        lease.release()
        writer.join(60)
        assert not writer.is_alive()


def test_the_signal_comes_although_the_thread_that_took_it_has_ended(file: FileIO):
    with listening() as signals:
        leases: list[Lease] = []
        taking = threading.Thread(target=lambda: leases.append(Lease(file)))
        taking.start()
        taking.join()
        writer = threading.Thread(target=lambda: Path(file.name).open("r+b").close())
        writer.start()
        wait_until(lambda: signals)
        leases[0].release()
        writer.join(60)
        assert signals == [signal.SIGIO]


def test_there_is_none_while_somebody_can_write(file: FileIO):
    with listening(), Path(file.name).open("r+b"), pytest.raises(LeaseRefused, match="open for writing"):
        Lease(file)


def test_there_is_none_where_its_signal_would_end_the_process(file: FileIO):
    with pytest.raises(LeaseRefused, match="SIGIO"):
        Lease(file)


def test_closing_the_file_releases_it(file: FileIO):
    with listening():
        Lease(file)
        file.close()
        os.close(os.open(file.name, os.O_RDWR | os.O_NONBLOCK))
