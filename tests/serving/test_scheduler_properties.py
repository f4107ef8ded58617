"""Whatever comes in whatever order: nobody is lost, answered twice, mixed up or left to starve."""

import contextlib
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sandseal_host.errors import Busy, DeadlineExpired, QueueFull
from sandseal_host.serving.request import BATCH, CLASSES, REALTIME
from sandseal_host.serving.run import Run
from sandseal_host.serving.ticket import TicketState
from support.serving import NEVER, Doubler, Queue

MAX_ROWS, INSTANCES, RESERVED, MAX_REQUESTS, DELAY_S = 8, 3, 1, 10, 0.05


@dataclass
class Overdue:
    """A late request, with all that is before it in its class late too: how many rows may still go first, and did."""

    bound: int
    passed: int = 0


class SchedulerMachine(RuleBasedStateMachine):
    """A scheduler beside the simplest model of it: the sets of those who wait, run and have left."""

    def __init__(self):
        super().__init__()
        classes = {**CLASSES, "realtime": replace(REALTIME, reserved=RESERVED)}
        bounds = {"max_requests": MAX_REQUESTS, "instances": INSTANCES}
        self.queue = Queue(max_rows=MAX_ROWS, max_delay_s=DELAY_S, classes=classes, weights={"b": 2.0}, **bounds)
        self.now, self.number = 0.0, 0
        self.waiting: set[int] = set()
        self.left: list[int] = []
        self.running = []
        self.overdue: dict[int, Overdue] = {}
        self.runner = Doubler(max_rows=MAX_ROWS)

    @rule(
        name=st.sampled_from(sorted(CLASSES)),
        tenant=st.sampled_from("abc"),
        rows=st.integers(1, MAX_ROWS),
        bucket=st.sampled_from("xy"),
        patience=st.sampled_from([0.01, 0.5, NEVER]),
    )
    def add(self, name, tenant, rows, bucket, patience):
        self.number += 1
        what = {"rows": rows, "tenant": tenant, "service_class": CLASSES[name], "deadline": self.now + patience}
        try:
            self.queue.add(self.number, self.now, bucket, **what)
            self.waiting.add(self.number)
        except QueueFull:
            own = [self.queue.tickets[n].request for n in self.still_waiting() if self.level(n) == CLASSES[name].level]
            assert len(own) >= MAX_REQUESTS
            assert any(request.tenant == tenant for request in own)  # a newcomer always gets a place
        except Busy:
            pass

    @rule(seconds=st.sampled_from([0.0, 0.001, DELAY_S, 0.7, 5.0, 61.0]))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def start(self):
        self.note_overdue()
        batch = self.queue.scheduler.next_batch(self.now)
        if batch is None:
            return
        numbers = [ticket.request.id for ticket in batch.tickets]
        assert 0 < batch.rows == sum(ticket.request.rows for ticket in batch.tickets) <= MAX_ROWS
        assert len({ticket.bucket for ticket in batch.tickets}) == 1
        assert all(ticket.expires > self.now for ticket in batch.tickets)
        self.leave(numbers)
        self.running.append(batch)
        assert len(self.running) <= INSTANCES
        lower = [batch for batch in self.running if any(t.request.service_class.level > 1 for t in batch.tickets)]
        assert len(lower) <= INSTANCES - RESERVED
        for number, overdue in self.overdue.items():
            overdue.passed += batch.rows
            assert overdue.passed <= overdue.bound, f"{number} starves"

    @rule()
    def finish(self):
        """Each is answered with its own rows, and nothing else."""
        if not self.running:
            return
        run = Run(self.running.pop(0))
        run.execute(self.runner)
        for ticket, (output,) in zip(run.batch.tickets, run.outcomes, strict=True):
            assert output.data.tolist() == [[2.0 * ticket.request.id] * 2] * ticket.request.rows
        self.queue.scheduler.done(run.batch, self.now)

    @rule()
    def expire(self):
        expired = self.queue.expire(self.now)
        assert all(self.queue.tickets[number].expires <= self.now for number in expired)
        self.leave(expired)

    @rule(data=st.data())
    def discard(self, data):
        number = data.draw(st.integers(0, self.number))
        ticket = self.queue.scheduler.discard(number)
        if ticket is not None:
            self.leave([number])
            assert ticket.state is TicketState.CANCELLED

    @invariant()
    def counts_agree(self):
        statistics = self.queue.scheduler.statistics()
        requests = [self.queue.tickets[number].request for number in self.still_waiting()]
        assert statistics.requests == sum(statistics.waiting.values()) == len(requests)
        assert statistics.rows == sum(request.rows for request in requests)
        assert statistics.running == len(self.running)
        assert sum(statistics.batch_rows_histogram.values()) == sum(statistics.batches.values())

    @invariant()
    def it_wakes_in_time(self):
        wake_at = self.queue.scheduler.wake_at()
        if self.waiting:
            assert wake_at is not None
            assert wake_at <= min(self.queue.tickets[number].expires for number in self.waiting)

    def still_waiting(self):
        """Those who wait and have not expired unnoticed."""
        return [number for number in self.waiting if self.queue.tickets[number].state is TicketState.QUEUED]

    def level(self, number):
        return self.queue.tickets[number].request.service_class.level

    def note_overdue(self):
        """Whoever is late, with all before it, is served within ten times the rows that wait by then."""
        tickets = sorted((self.queue.tickets[n] for n in self.still_waiting()), key=lambda t: (t.urgency, t.order))
        rows = sum(ticket.request.rows for ticket in tickets)
        on_time = set()  # levels at whose front somebody is not late yet
        for ticket in tickets:
            level = ticket.request.service_class.level
            if ticket.virtual_deadline >= self.now:
                on_time.add(level)
            if level not in on_time:
                self.overdue.setdefault(ticket.request.id, Overdue(10 * (rows + MAX_ROWS) + MAX_ROWS))

    def leave(self, numbers):
        assert self.waiting.issuperset(numbers)
        self.waiting.difference_update(numbers)
        self.left += numbers
        for number in numbers:
            self.overdue.pop(number, None)

    def teardown(self):
        for _ in range(4 * 3 * MAX_REQUESTS):
            self.now += DELAY_S
            self.expire()
            self.start()
            self.finish()
        assert not self.waiting
        assert len(self.left) == len(set(self.left))
        while self.running:
            self.finish()
        assert self.queue.scheduler.idle


SchedulerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestScheduler = SchedulerMachine.TestCase


@pytest.mark.slow
@given(
    late=st.lists(st.integers(1, MAX_ROWS), min_size=1, max_size=8),
    urgent=st.lists(st.integers(1, MAX_ROWS), min_size=1, max_size=8),
)
@settings(deadline=None, max_examples=40)
def test_a_late_request_is_served_within_ten_times_the_rows_before_it(late, urgent):
    queue = Queue(max_rows=MAX_ROWS, max_requests=1000)
    for number, rows in enumerate(late):
        queue.add(number, 0.0, rows=rows, service_class=BATCH)
    now, number, served, rows = 61.0, 100, set(), 0
    bound = 10 * (sum(late) + MAX_ROWS) + MAX_ROWS
    while rows < bound:
        for size in urgent * MAX_ROWS:  # always more than a batch of realtime waits
            with contextlib.suppress(Busy, DeadlineExpired):
                queue.add(number, now, rows=size, service_class=REALTIME)
            number += 1
        served.update(queue.serve(now))
        rows += queue.last.rows
        queue.expire(now)
        now += 0.01
    assert served.issuperset(range(len(late)))


@pytest.mark.parametrize("weight", [1.0, 3.0])
@given(sizes=st.lists(st.integers(1, 4), min_size=8, max_size=10), flood=st.integers(1, 3))
@settings(deadline=None, max_examples=10)
def test_floods_share_the_rows_by_weight_whatever_their_sizes(weight, sizes, flood):
    queue = Queue(max_rows=MAX_ROWS, max_requests=10_000, weights={"big": weight})
    served, now, number = {"big": 0, "small": 0, "first": 0}, 0.0, 0
    backlog, floods = {"first": [MAX_ROWS] * 20}, {"big": sizes, "small": sizes * flood}
    for turn in range(80):  # the rate is measured while the first twenty batches go
        for tenant, added in (backlog if turn == 0 else floods if turn >= 20 else {}).items():
            for rows in added:
                number += 1
                queue.add(number, now, rows=rows, tenant=tenant, service_class=BATCH)
        queue.batch(now)
        now += 0.1
        if queue.last:
            queue.scheduler.done(queue.last, now)
            for ticket in queue.last.tickets:
                served[ticket.request.tenant] += ticket.request.rows
    assert served["big"] == pytest.approx(served["small"] * weight, rel=0.2)
