"""Profiles of slow requests: what every thread of this process did while one was under way.

A profile that began once a request is known to be slow would miss what made it so. So all threads are sampled all the
time that this is on, into a short memory, and a slow request keeps its part of that.
"""

import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, time
from types import CodeType, FrameType
from typing import Any

import orjson

from sandseal_host.observe.finished import Finished

_PERIOD_S = 0.02
_MEMORY_S = 10.0
_MAX_DEPTH = 64  # frames of a stack, the innermost
_MAX_PROFILES = 16
_REST_S = 5.0  # between two profiles: many are slow together, for one reason

_Stack = tuple[CodeType, ...]  # outermost first
_Sample = tuple[float, dict[int, _Stack]]  # when, and each thread's


@dataclass(frozen=True, slots=True)
class Profile:
    """What was sampled while one slow request was under way.

    Args:
        id: its number.
        at: when the request ended, in seconds since 1970.
        request: the request.
        document: a flame graph of each thread, in speedscope's JSON format.
    """

    id: int
    at: float
    request: Finished
    document: bytes


@dataclass(frozen=True, slots=True)
class ProfileStatistics:
    """What was profiled.

    Args:
        kept_total: profiles that were made.
        passed_total: slow requests that were not given one, too soon after another.
    """

    kept_total: int
    passed_total: int


class SlowProfiles:
    """Samples this process's threads, and keeps profiles of requests that took long.

    Args:
        threshold_s: seconds from which a request is slow.
        rest_s: seconds between two profiles.
    """

    def __init__(self, threshold_s: float, *, rest_s: float = _REST_S) -> None:
        self.threshold_s, self._rest_s = threshold_s, rest_s
        self._samples: deque[_Sample] = deque(maxlen=round(_MEMORY_S / _PERIOD_S))
        self._kept: deque[Profile] = deque(maxlen=_MAX_PROFILES)
        self._wanted: Finished | None = None
        self._next_at = 0.0
        self._passed = self._made = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="profiler", daemon=True)
        self._thread.start()

    def __call__(self, finished: Finished) -> None:
        """Have a profile made of a request that was slow."""
        if finished.seconds < self.threshold_s:
            return
        if self._wanted is not None or finished.ended < self._next_at:
            self._passed += 1
            return
        self._next_at = finished.ended + self._rest_s
        self._wanted = finished  # the sampling thread makes it

    def profiles(self) -> Sequence[Profile]:
        """Those that are kept, oldest first."""
        return tuple(self._kept)

    def statistics(self) -> ProfileStatistics:
        """The counts at this moment."""
        return ProfileStatistics(self._made, self._passed)

    def close(self) -> None:
        """End the sampling."""
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        own, before = threading.get_ident(), dict[int, _Stack]()
        while not self._stop.wait(_PERIOD_S):
            frames = sys._current_frames()
            before = {t: _same(before.get(t), _stack(frame)) for t, frame in frames.items() if t != own}
            del frames  # or they would keep everything that functions have in hand
            self._samples.append((monotonic(), before))
            if (finished := self._wanted) is not None:
                self._wanted = None
                self._keep(finished)

    def _keep(self, finished: Finished) -> None:
        document = _document(finished, list(self._samples))
        self._kept.append(Profile(self._made + 1, time(), finished, document))
        self._made += 1


def _stack(frame: FrameType | None) -> _Stack:
    codes: list[CodeType] = []
    while frame is not None and len(codes) < _MAX_DEPTH:
        codes.append(frame.f_code)
        frame = frame.f_back
    return tuple(reversed(codes))


def _same(before: _Stack | None, now: _Stack) -> _Stack:
    """The stack of the sample before where it is equal, so that a thread that rests takes no memory."""
    return before if before is not None and before == now else now


class _Track:
    """What one thread did, equal samples in a row as one."""

    def __init__(self) -> None:
        self.stacks: list[_Stack] = []
        self.weights: list[float] = []

    def add(self, stack: _Stack, seconds: float) -> None:
        if self.stacks and self.stacks[-1] is stack:
            self.weights[-1] += seconds
        else:
            self.stacks.append(stack)
            self.weights.append(seconds)


def _document(finished: Finished, samples: list[_Sample]) -> bytes:
    """The samples of a request's time as https://www.speedscope.app/file-format-schema.json has them."""
    tracks: dict[int, _Track] = {}
    within = [s for s in samples if finished.arrived <= s[0]]  # the newest one was taken just after it had ended
    at = within[0][0] - _PERIOD_S if within else 0.0
    for now, stacks in within:
        for thread, stack in stacks.items():
            tracks.setdefault(thread, _Track()).add(stack, now - at)
        at = now
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames: dict[CodeType, int] = {}
    profiles = [_profile(names.get(thread, str(thread)), track, frames) for thread, track in tracks.items()]
    shown = [{"name": code.co_qualname, "file": code.co_filename, "line": code.co_firstlineno} for code in frames]
    return orjson.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "sandseal",
            "name": f"{finished.model} {finished.version}: {finished.seconds:.3f} s",
            "shared": {"frames": shown},
            "profiles": profiles,
        }
    )


def _profile(name: str, track: _Track, frames: dict[CodeType, int]) -> dict[str, Any]:
    """One thread's; `frames` numbers the functions of all of them."""
    return {
        "type": "sampled",
        "name": name,
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(track.weights),
        "samples": [[frames.setdefault(code, len(frames)) for code in stack] for stack in track.stacks],
        "weights": track.weights,
    }
