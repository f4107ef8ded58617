"""Triton's queue and batcher tests as tables of times, each with its outcome here; host/README.md has them as a table.

Triton's own are `qa/L0_model_queue`, `qa/L0_batcher`, `qa/L0_request_cancellation`; the rules behind them are in
`core/src/dynamic_batch_scheduler.cc`.
"""

import heapq
import re
from dataclasses import dataclass, field, replace
from typing import Any

from sandseal_host.errors import HostError
from sandseal_host.serving.request import BATCH, CLASSES, REALTIME, STANDARD
from support.serving import NEVER, Queue

_MARKS = re.compile(r"(<!-- triton: [^>]*-->\n).*?(<!-- /triton -->)", re.DOTALL)


@dataclass(frozen=True)
class Ask:
    """A request of a scenario: when it comes (s), and what is not as usual about it."""

    at: float
    rows: int = 1
    shape: str = "a"
    service_class: Any = STANDARD
    timeout: float = NEVER
    gone: float = NEVER  # when its client leaves


@dataclass
class Outcome:
    """What became of all requests, which are numbered from 1."""

    batches: list[tuple[float, list[int]]] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    expired: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """One of Triton's tests.

    Args:
        test: what Triton calls it, or does.
        triton: what comes of it there.
        here: what comes of it here.
        why: they differ; empty where they do not.
        asks: the requests.
        outcome: exactly, here.
        took: seconds of a run.
        settings: of the scheduler.
    """

    test: str
    triton: str
    here: str
    why: str
    asks: tuple[Ask, ...]
    outcome: Outcome
    took: float = 0.01
    settings: dict[str, Any] = field(default_factory=dict)


def play(scenario: Scenario) -> Outcome:
    """Drive a scheduler through a scenario, called only when something happens or when it asks to be."""
    queue, outcome = Queue(**scenario.settings), Outcome()
    scheduler, order = queue.scheduler, iter(range(1000))
    events: list[Any] = [(ask.at, next(order), "ask", (n, ask)) for n, ask in enumerate(scenario.asks, 1)]
    events += [(a.gone, next(order), "gone", n) for n, a in enumerate(scenario.asks, 1) if a.gone < NEVER]
    heapq.heapify(events)
    while events:
        now, _, what, about = heapq.heappop(events)
        if what == "ask":
            _ask(queue, outcome, *about)
        elif what == "gone":
            scheduler.discard(about)
        elif what == "done":
            scheduler.done(about, now)
        if events and events[0][0] == now:
            continue
        outcome.expired.update(dict.fromkeys(queue.expire(now), now))
        while (batch := scheduler.next_batch(now)) is not None:
            outcome.batches.append((now, [ticket.request.id for ticket in batch.tickets]))
            heapq.heappush(events, (round(now + scenario.took, 6), next(order), "done", batch))
        if (wake_at := scheduler.wake_at()) is not None:
            heapq.heappush(events, (max(now, round(wake_at, 6)), next(order), "wake", None))
    return outcome


def _ask(queue: Queue, outcome: Outcome, number: int, ask: Ask) -> None:
    try:
        queue.add(
            number, ask.at, ask.shape, rows=ask.rows, service_class=ask.service_class, deadline=ask.at + ask.timeout
        )
    except HostError as error:
        outcome.refused[number] = error.code


def with_triton_table(text: str) -> str:
    """The README with its table as the scenarios are now."""
    rows = ["| Triton's test | there | here | why it differs |", "|---|---|---|---|"]
    rows += [f"| {s.test} | {s.triton} | {s.here} | {s.why or 'it does not'} |" for s in SCENARIOS]
    table = "\n".join(rows)
    return _MARKS.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def _classes(**changes: dict[str, Any]) -> dict[str, Any]:
    return {**CLASSES, **{name: replace(CLASSES[name], **fields) for name, fields in changes.items()}}


_DELAY = {"max_rows": 4, "max_delay_s": 10.0}
_SECOND = _classes(standard={"expires_s": 1.0})

SCENARIOS = (
    Scenario(
        "`max_queue_size` 8; 8 rows run for 5 s, then ten requests",
        "two fail, 'Exceeds maximum queue size'",
        "two are refused at once, `queue_full` with Retry-After",
        "",
        (Ask(0, rows=8), *[Ask(0.1)] * 10),
        Outcome([(0, [1]), (5, [2, 3, 4, 5, 6, 7, 8, 9])], {10: "queue_full", 11: "queue_full"}),
        took=5.0,
        settings={"max_rows": 32, "classes": _classes(standard={"max_requests": 8})},
    ),
    Scenario(
        "`timeout_action` DELAY after 100 ms, delay 10 s: 1 row, then 2 + 2 at 0.2 s",
        "the first waits 10 s or more, the others go at once",
        "the first goes after 50 ms, the others at once",
        "waiting for company costs a request at most half of its time, so that nothing is left to delay or reject",
        (Ask(0, timeout=0.1), Ask(0.2, rows=2), Ask(0.2, rows=2)),
        Outcome([(0.05, [1]), (0.2, [2, 3])]),
        settings=_DELAY,
    ),
    Scenario(
        "`timeout_action` REJECT, the same",
        "the first fails, 'Request timeout expired'",
        "the first goes after 50 ms, the others at once",
        "as above; a request is refused when no instance was free, not when one idled",
        (Ask(0, timeout=0.1), Ask(0.2, rows=2), Ask(0.2, rows=2)),
        Outcome([(0.05, [1]), (0.2, [2, 3])]),
        settings=_DELAY,
    ),
    Scenario(
        "`queue_timeout_test`: REJECT after 100 ms while the only instance is busy",
        "it fails at the next wake-up, up to 0.5 s late",
        "it is refused at 100 ms",
        "expiry has a timer",
        (Ask(0), Ask(0.1, timeout=0.1)),
        Outcome([(0, [1])], expired={2: 0.2}),
        took=5.0,
    ),
    Scenario(
        "`allow_timeout_override`, default 1 s: 100 ms asked for, instance busy",
        "it is rejected early",
        "it is refused at 100 ms",
        "",
        (Ask(0), Ask(0.1, timeout=0.1)),
        Outcome([(0, [1])], expired={2: 0.2}),
        took=5.0,
        settings={"classes": _SECOND, "max_rows": 1},
    ),
    Scenario(
        "`allow_timeout_override`, default 1 s: 10 s asked for, instance busy",
        "not honoured: 1 s counts",
        "not honoured: the class's second counts",
        "",
        (Ask(0), Ask(0.1, timeout=10.0)),
        Outcome([(0, [1])], expired={2: 1.1}),
        took=5.0,
        settings={"classes": _SECOND, "max_rows": 1},
    ),
    Scenario(
        "a `timeout` of 100 ms where the default is 0",
        "ignored",
        "refused at 100 ms",
        "a client's own patience always counts",
        (Ask(0), Ask(0.1, timeout=0.1)),
        Outcome([(0, [1])], expired={2: 0.2}),
        took=5.0,
        settings={"max_rows": 1},
    ),
    Scenario(
        "2 levels: 2 rows, 1 row at 0.1 s, 2 rows of level 1 at 0.2 s; preferred size 4, delay 10 s",
        "1st and 3rd go together, the 2nd waits its delay",
        "the same; the 3rd's rows come first",
        "",
        (Ask(0, rows=2), Ask(0.1), Ask(0.2, rows=2, service_class=REALTIME)),
        Outcome([(0.2, [3, 1]), (10.1, [2])]),
        settings=_DELAY,
    ),
    Scenario(
        "`test_priority_with_policy`: level 1 DELAY, level 2 REJECT, 100 ms each, instance busy",
        "level 1 is delayed 'indefinitely', level 2 fails",
        "each is refused when its class's time is over",
        "nobody is kept who no longer wants an answer",
        (Ask(0), Ask(0.1, service_class=REALTIME), Ask(0.1)),
        Outcome([(0, [1])], expired={2: 0.2, 3: 0.4}),
        took=5.0,
        settings={"classes": _classes(realtime={"expires_s": 0.1}, standard={"expires_s": 0.3})},
    ),
    Scenario(
        "newcomers of a higher level without end, one request of a lower",
        "the lower one starves",
        "it goes when its virtual deadline is the earliest",
        "nobody starves; if it were late, a tenth of the rows would still be for the late",
        (
            Ask(0, service_class=REALTIME),
            Ask(0.01, service_class=BATCH),
            *[Ask(0.02 + 0.05 * n, service_class=REALTIME) for n in range(12)],
        ),
        Outcome([(round(0.1 * n, 6), [number]) for n, number in enumerate([1, 3, 4, 5, 6, 2, *range(7, 15)])]),
        took=0.1,
        settings={"max_rows": 1, "classes": _classes(batch={"target_s": 1.2}, realtime={"expires_s": 30.0})},
    ),
    Scenario(
        "`priority_levels` of 2^64-1 with default 2^32",
        "as many queues as levels in use",
        "three classes; a level that none has means the default",
        "a level says nothing about when an answer is due, a class does (`tests/api/test_terms.py`)",
        (Ask(0),),
        Outcome([(0, [1])]),
    ),
    Scenario(
        "`L0_batcher` preferred sizes 2 and 6: 1 + 1 rows, delay 10 s",
        "two rows go at once, since 2 is preferred",
        "they wait for the delay, or for more",
        "no preferred sizes: `max_rows` or the delay send a batch, and delay 0 never lets an instance idle",
        (Ask(0), Ask(0.1)),
        Outcome([(10.0, [1, 2])]),
        settings={"max_rows": 6, "max_delay_s": 10.0},
    ),
    Scenario(
        "`L0_batcher` not preferred: 3 + 1 rows of 6, delay 0.5 s",
        "they go after the delay of the first",
        "they go after the delay of the first",
        "",
        (Ask(0, rows=3), Ask(0.1)),
        Outcome([(0.5, [1, 2])]),
        settings={"max_rows": 6, "max_delay_s": 0.5},
    ),
    Scenario(
        "`L0_batcher` beyond the largest size: 4 + 3 rows of 6, delay 0.5 s",
        "the first goes at once, the second after its delay",
        "the first goes at once, the second after its delay",
        "",
        (Ask(0, rows=4), Ask(0.1, rows=3)),
        Outcome([(0.1, [1]), (0.6, [2])]),
        settings={"max_rows": 6, "max_delay_s": 0.5},
    ),
    Scenario(
        "the next does not fit, the one after would: 3 + 2 + 1 rows of 4",
        "3, then 2 + 1: what does not fit ends the batch",
        "3 + 1, then 2",
        "a bounded look-ahead fills what is left",
        (Ask(0, rows=3), Ask(0, rows=2), Ask(0)),
        Outcome([(0, [1, 3]), (0.01, [2])]),
    ),
    Scenario(
        "`L0_batcher` other shape, not ragged: a b a, delay 0.5 s",
        "three batches: another shape ends one",
        "two: a + a, then b",
        "the look-ahead again",
        (Ask(0), Ask(0, shape="b"), Ask(0)),
        Outcome([(0, [1, 3]), (0.5, [2])]),
        settings={"max_rows": 4, "max_delay_s": 0.5},
    ),
    Scenario(
        "`L0_batcher` other shape, `allow_ragged_batch`: a b",
        "one batch",
        "two",
        "rows of one batch have one shape; the model never sees batches that it was not signed for",
        (Ask(0), Ask(0, shape="b")),
        Outcome([(0, [1]), (0.01, [2])]),
    ),
    Scenario(
        "`L0_batcher` two requests that want different outputs",
        "one batch",
        "one batch; each is given the outputs that it asked for",
        "",
        (Ask(0), Ask(0)),
        Outcome([(0, [1, 2])]),
    ),
    Scenario(
        "`L0_batcher` preserve_ordering: answers in the order of arrival",
        "held back until earlier ones are there",
        "each goes out when its batch is done",
        "holding an answer back helps nobody; one connection's answers keep their order anyway",
        (Ask(0), Ask(0), Ask(0, service_class=REALTIME)),
        Outcome([(0, [3]), (0.01, [1]), (0.02, [2])]),
        settings={"max_rows": 1},
    ),
    Scenario(
        "`L0_batcher` delay only, no preferred size: 1 + 1 rows of 4, delay 0.5 s",
        "they go after the delay",
        "they go after the delay",
        "",
        (Ask(0), Ask(0.1)),
        Outcome([(0.5, [1, 2])]),
        settings={"max_rows": 4, "max_delay_s": 0.5},
    ),
    Scenario(
        "more rows than `max_batch_size`",
        "400",
        "400, `request_invalid` with both figures",
        "",
        (Ask(0, rows=5),),
        Outcome(refused={1: "request_invalid"}),
    ),
    Scenario(
        "`L0_request_cancellation`: the client of a queued request leaves, the queue is full",
        "its place is taken until the next sweep",
        "its place is free at once",
        "cancellation acts when it happens",
        (Ask(0), Ask(0.01, gone=0.1), Ask(0.05), Ask(0.2)),
        Outcome([(0, [1]), (5, [4])], {3: "queue_full"}),
        took=5.0,
        settings={"max_rows": 1, "max_requests": 1},
    ),
    Scenario(
        "a batch that is not full while a higher level still has requests",
        "filled with the lower level",
        "filled with the lower class",
        "",
        (Ask(0), Ask(0, service_class=REALTIME)),
        Outcome([(0, [2, 1])]),
    ),
)
