"""Profiles of slow requests: sampled all the time, kept for those that took long, bounded."""

import threading
import time

import orjson
import pytest

from sandseal_host.observe.profiles import SlowProfiles
from support.finished import finished


@pytest.fixture
def profiles():
    sampling = SlowProfiles(0.2, rest_s=0.0)
    yield sampling
    sampling.close()


def keep(profiles: SlowProfiles, one) -> None:
    """Finish a request, and wait until its profile is there."""
    before = profiles.statistics().kept_total
    profiles(one)
    until = time.monotonic() + 20
    while profiles.statistics().kept_total == before:
        assert time.monotonic() < until
        time.sleep(0.005)


def linger(until: threading.Event) -> None:
    until.wait(20)


def frames_of(document, thread: str) -> set[str]:
    frames = document["shared"]["frames"]
    (profile,) = [p for p in document["profiles"] if p["name"] == thread]
    return {frames[i]["name"] for sample in profile["samples"] for i in sample}


def test_a_slow_request_keeps_what_threads_did_meanwhile(profiles):
    done = threading.Event()
    thread = threading.Thread(target=linger, args=(done,), name="lingering")
    thread.start()
    time.sleep(0.3)
    keep(profiles, finished(seconds=0.3, request_id="r1"))
    done.set()
    thread.join()
    (kept,) = profiles.profiles()
    document = orjson.loads(kept.document)
    assert kept.request.request_id == "r1"
    assert "linger" in frames_of(document, "lingering")
    assert "profiler" not in [profile["name"] for profile in document["profiles"]]
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"


def test_each_thread_is_a_sampled_profile_of_the_requests_time(profiles):
    time.sleep(0.6)
    keep(profiles, finished(seconds=0.3))
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
    done = threading.Event()
    thread = threading.Thread(target=linger, args=(done,), name="lingering")
    thread.start()
    time.sleep(1.2)  # a busy machine starts threads late
    keep(profiles, finished(seconds=0.25))
    done.set()
    thread.join()
    document = orjson.loads(profiles.profiles()[0].document)
    (profile,) = [p for p in document["profiles"] if p["name"] == "lingering"]
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
