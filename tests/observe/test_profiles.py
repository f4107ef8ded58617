"""Profiles of slow requests: sampled all the time, kept for those that took long, bounded."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import orjson
import pytest

from sandseal_host.observe.profiles import SlowProfiles
from support.finished import finished
from support.waiting import wait_until


@pytest.fixture
def profiles():
    sampling = SlowProfiles(0.2, rest_s=0.0)
    yield sampling
    sampling.close()


def keep(profiles: SlowProfiles, one) -> None:
    """Finish a request, and wait until its profile is there."""
    before = profiles.statistics().kept_total
    profiles(one)
    wait_until(lambda: profiles.statistics().kept_total > before)


def sampled(profiles: SlowProfiles, seconds: float, thread: int) -> float:
    """Wait until this thread has rested in `linger` for so long, as far as was sampled; for how long that is."""

    def resting() -> float | None:
        *_, (_, before), (at, now) = [(0.0, {}), (0.0, {}), *profiles._samples]
        return at if before.get(thread) is now.get(thread) and linger.__code__ in now.get(thread, ()) else None

    began = wait_until(resting)
    wait_until(lambda: profiles._samples[-1][0] > began + seconds)
    return monotonic() - began


@contextmanager
def lingering() -> Iterator[int]:
    """A thread that rests meanwhile."""
    done = threading.Event()
    thread = threading.Thread(target=linger, args=(done,), name="lingering")
    thread.start()
    try:
        yield thread.ident
    finally:
        done.set()
        thread.join()


def linger(until: threading.Event) -> None:
    until.wait()


def frames_of(document, thread: str) -> set[str]:
    frames = document["shared"]["frames"]
    (profile,) = [p for p in document["profiles"] if p["name"] == thread]
    return {frames[i]["name"] for sample in profile["samples"] for i in sample}


def test_a_slow_request_keeps_what_threads_did_meanwhile(profiles):
    with lingering() as thread:
        keep(profiles, finished(seconds=sampled(profiles, 0.25, thread), request_id="r1"))
    (kept,) = profiles.profiles()
    document = orjson.loads(kept.document)
    assert kept.request.request_id == "r1"
    assert "linger" in frames_of(document, "lingering")
    assert "profiler" not in [profile["name"] for profile in document["profiles"]]
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"


def test_each_thread_is_a_sampled_profile_of_the_requests_time(profiles):
    with lingering() as thread:
        keep(profiles, finished(seconds=sampled(profiles, 0.25, thread)))
    document = orjson.loads(profiles.profiles()[0].document)
    assert document["profiles"]
    for profile in document["profiles"]:
        assert profile["type"] == "sampled"
        assert profile["unit"] == "seconds"
        assert profile["startValue"] == 0
        assert len(profile["samples"]) == len(profile["weights"]) > 0
        assert all(weight > 0 for weight in profile["weights"])
        assert profile["endValue"] == pytest.approx(sum(profile["weights"]))
        assert all(i < len(document["shared"]["frames"]) for sample in profile["samples"] for i in sample)


def test_a_thread_that_rests_is_one_sample(profiles):
    with lingering() as thread:
        keep(profiles, finished(seconds=sampled(profiles, 0.25, thread)))
    document = orjson.loads(profiles.profiles()[0].document)
    (profile,) = [p for p in document["profiles"] if p["name"] == "lingering"]
    assert len(profile["samples"]) == 1


def test_a_request_that_ended_long_before_the_next_sample_has_that_one():
    profiles = SlowProfiles(0.2, rest_s=0.0)
    profiles.close()
    profiles._samples.append((monotonic() + 1000, {threading.get_ident(): (linger.__code__,)}))
    profiles._keep(finished())
    (profile,) = orjson.loads(profiles.profiles()[0].document)["profiles"]
    assert len(profile["samples"]) == 1


def test_quick_requests_are_passed_over(profiles):
    profiles(finished(seconds=0.19))
    assert profiles.statistics().passed_total == 0
    assert not profiles.profiles()


def test_a_request_that_came_before_the_first_sample():
    profiles = SlowProfiles(0.2, rest_s=0.0)
    try:
        keep(profiles, finished(seconds=1000.0))
    finally:
        profiles.close()
    assert len(profiles.profiles()) == 1


def test_the_latest_are_kept(profiles):
    for number in range(20):
        keep(profiles, finished(request_id=str(number)))
    assert [kept.request.request_id for kept in profiles.profiles()] == [str(n) for n in range(4, 20)]


def test_between_two_profiles_is_a_rest():
    profiles = SlowProfiles(0.2, rest_s=1000.0)
    try:
        keep(profiles, finished())
        profiles(finished())
        assert profiles.statistics().passed_total == 1
    finally:
        profiles.close()
    assert len(profiles.profiles()) == 1
