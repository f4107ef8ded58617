import threading
import time
from queue import SimpleQueue

import pytest

from sandseal_host.errors import NotReady
from sandseal_host.sandbox import ticker
from sandseal_host.sandbox.ticker import TICK_S, Ticker
from support.waiting import wait_until


class Epoch:
    def __init__(self) -> None:
        self.now = 0

    def advance(self) -> None:
        self.now += 1


def test_the_epoch_is_a_clock_while_calls_run() -> None:
    """Its sleeps take as long as the test says."""
    now, sleeps = [1000.0], SimpleQueue[float]()

    def sleep(_: float) -> None:
        now[0] += sleeps.get()

    epoch = Epoch()
    clock = Ticker(epoch.advance, sleep, lambda: now[0])
    clock.begin()
    for ticks in (1, 1, 100, 1):  # a late tick is made up for
        before = epoch.now
        sleeps.put(ticks * TICK_S)
        wait_until(lambda before=before, ticks=ticks: epoch.now == before + ticks)
    clock.end()
    closing = threading.Thread(target=clock.close)
    closing.start()
    wait_until(lambda: clock._closing)
    sleeps.put(TICK_S)
    closing.join()


def test_it_sleeps_when_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "_LINGER", 3)
    epoch = Epoch()
    clock = Ticker(epoch.advance)
    wait_until(lambda: clock._asleep)
    asleep = epoch.now
    time.sleep(10 * TICK_S)
    assert epoch.now == asleep
    clock.begin()
    wait_until(lambda: epoch.now > asleep)
    clock.end()
    clock.close()


def test_closing_waits_for_running_calls_and_refuses_new_ones() -> None:
    epoch = Epoch()
    clock = Ticker(epoch.advance)
    clock.begin()
    closing = threading.Thread(target=clock.close)
    closing.start()
    wait_until(lambda: clock._closing)
    before = epoch.now
    wait_until(lambda: epoch.now > before + 2)  # what runs can still be stopped
    assert closing.is_alive()
    with pytest.raises(NotReady):
        clock.begin()
    clock.end()
    closing.join(60)
    assert not closing.is_alive()
    after = epoch.now
    time.sleep(10 * TICK_S)
    assert epoch.now == after
