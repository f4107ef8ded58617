"""Whatever comes in whatever order: nobody is lost, answered twice, mixed up or left to starve."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sandseal_host.errors import Busy, DeadlineExpired
from sandseal_host.serving.request import BATCH, CLASSES, REALTIME
from sandseal_host.serving.ticket import TicketState
from support.serving import NEVER, Queue

MAX_ROWS, INSTANCES, MAX_REQUESTS, DELAY_S = 8, 2, 20, 0.05


class SchedulerMachine(RuleBasedStateMachine):
    """A scheduler beside the simplest model of it: the sets of those who wait, run and have left."""

    def __init__(self):
        super().__init__()
        self.queue = Queue(max_rows=MAX_ROWS, instances=INSTANCES, max_requests=MAX_REQUESTS, max_delay_s=DELAY_S)
        self.now, self.number = 0.0, 0
        self.waiting: set[int] = set()
        self.left: list[int] = []
        self.running = []

    @rule(
        name=st.sampled_from(sorted(CLASSES)),
        tenant=st.sampled_from("ab"),
        rows=st.integers(1, MAX_ROWS),
        bucket=st.sampled_from("xy"),
        patience=st.sampled_from([0.01, 0.5, NEVER]),
    )
    def add(self, name, tenant, rows, bucket, patience):
        self.number += 1
        what = {"rows": rows, "tenant": tenant, "service_class": CLASSES[name], "deadline": self.now + patience}
        with contextlib.suppress(Busy):
            self.queue.add(self.number, self.now, bucket, **what)
            self.waiting.add(self.number)

    @rule(seconds=st.sampled_from([0.0, 0.001, DELAY_S, 0.7, 5.0, 61.0]))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def start(self):
        batch = self.queue.scheduler.next_batch(self.now)
        if batch is None:
            return
        numbers = [ticket.request.id for ticket in batch.tickets]
        assert 0 < batch.rows == sum(ticket.request.rows for ticket in batch.tickets) <= MAX_ROWS
        assert len({ticket.bucket for ticket in batch.tickets}) == 1
        assert all(ticket.expires > self.now for ticket in batch.tickets)
        ranges = [row for _, rows in batch.ranges() for row in rows]
        assert ranges == list(range(batch.rows))
        self.leave(numbers)
        self.running.append(batch)
        assert len(self.running) <= INSTANCES

    @rule()
    def finish(self):
        if self.running:
            self.queue.scheduler.done(self.running.pop(0), self.now)

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
        overdue = len(self.queue.scheduler._overdue)
        statistics = self.queue.scheduler.statistics()
        assert statistics.requests == len(self.waiting) - overdue
        assert statistics.running == len(self.running)

    @invariant()
    def it_wakes_in_time(self):
        wake_at = self.queue.scheduler.wake_at()
        if self.waiting:
            assert wake_at is not None
            assert wake_at <= min(self.queue.tickets[number].expires for number in self.waiting)

    def leave(self, numbers):
        assert self.waiting.issuperset(numbers)
        self.waiting.difference_update(numbers)
        self.left += numbers

    def teardown(self):
        for _ in range(2 * MAX_REQUESTS):
            self.now += DELAY_S
            self.expire()
            self.start()
            self.finish()
        assert not self.waiting
        assert len(self.left) == len(set(self.left))
        while self.running:
            self.finish()
        assert self.queue.scheduler.idle


SchedulerMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestScheduler = SchedulerMachine.TestCase


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
