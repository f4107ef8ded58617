import time

import pytest

from sandseal_host.sandbox.deadline import Deadline
from sandseal_host.sandbox.ticker import TICK_S


class Clock:
    """CPU and wall time of a thread, as a test sets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cpu = self.wall = 50.0
        monkeypatch.setattr(time, "thread_time", lambda: self.cpu)
        monkeypatch.setattr(time, "monotonic", lambda: self.wall)

    def pass_(self, cpu: float, wall: float) -> None:
        self.cpu += cpu
        self.wall += wall


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_cpu_time_counts(clock: Clock) -> None:
    deadline = Deadline(20)
    deadline.enter()
    assert deadline.ticks() == 20e-3 / TICK_S
    clock.pass_(0.015, 0.1)
    deadline.count()
    assert deadline.ticks() == 3
    clock.pass_(0.005, 0.005)
    deadline.count()
    assert deadline.ticks() == 0
    assert deadline.verdict() == "used up its 20 ms of CPU time"


@pytest.mark.parametrize(("time_ms", "wall_ms"), [(1, 100), (10, 100), (20, 200), (1000, 10_000)])
def test_wall_time_is_limited_to_ten_times_that_and_at_least_100_ms(clock: Clock, time_ms: int, wall_ms: int) -> None:
    deadline = Deadline(time_ms)
    deadline.enter()
    clock.pass_(0, wall_ms / 1000 - 0.001)
    deadline.count()
    assert deadline.ticks() == 1
    clock.pass_(0, 0.0015)
    deadline.count()
    assert deadline.ticks() == 0
    assert deadline.verdict() == f"did not end within {wall_ms} ms, with 0 ms of CPU time"


def test_time_between_calls_does_not_count(clock: Clock) -> None:
    deadline = Deadline(20)
    deadline.enter()
    clock.pass_(0.004, 0.004)
    deadline.count()
    clock.pass_(1, 100)
    deadline.enter()
    clock.pass_(0.004, 0.004)
    deadline.count()
    assert deadline.cpu_s == pytest.approx(0.008)
    deadline.reset()
    assert (deadline.cpu_s, deadline.wall_s) == (0, 0)
