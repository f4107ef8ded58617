import threading
import time

import pytest

from sandseal_host.errors import NotReady
from sandseal_host.sandbox import ticker
from sandseal_host.sandbox.ticker import TICK_S, Ticker


class Epoch:
    def __init__(self) -> None:
        self.now = 0

    def advance(self) -> None:
        self.now += 1


def test_the_epoch_is_a_clock_while_calls_run() -> None:
    epoch = Epoch()
    clock = Ticker(epoch.advance)
    clock.begin()
    before, started = epoch.now, time.monotonic()
    time.sleep(0.2)
    wanted = (time.monotonic() - started) / TICK_S
    assert 0.3 * wanted < epoch.now - before < 1.5 * wanted
    clock.end()
    clock.close()


def test_it_sleeps_when_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "_LINGER", 3)
    epoch = Epoch()
    clock = Ticker(epoch.advance)
    time.sleep(0.1)
    asleep = epoch.now
    time.sleep(0.1)
    assert epoch.now == asleep
    clock.begin()
    time.sleep(0.1)
    assert epoch.now > asleep
    clock.end()
    clock.close()


def test_closing_waits_for_running_calls_and_refuses_new_ones() -> None:
    epoch = Epoch()
    clock = Ticker(epoch.advance)
    clock.begin()
    closing = threading.Thread(target=clock.close)
    closing.start()
    time.sleep(0.05)
    before = epoch.now
    time.sleep(0.05)
    assert closing.is_alive()
    assert epoch.now > before  # what runs can still be stopped
    with pytest.raises(NotReady):
        clock.begin()
    clock.end()
    closing.join(1)
    assert not closing.is_alive()
    after = epoch.now
    time.sleep(0.02)
    assert epoch.now == after
