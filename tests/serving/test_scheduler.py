"""Every test is a table of times: what is added when, what starts when."""

from collections import Counter
from dataclasses import replace

import pytest

from sandseal_host.errors import DeadlineExpired, DeadlineImpossible, QueueFull, RequestInvalid
from sandseal_host.serving.cuts import CutReason
from sandseal_host.serving.request import BATCH, CLASSES, REALTIME, STANDARD
from sandseal_host.serving.ticket import TicketState
from support.serving import Queue


def reasons(queue):
    return [cut.reason for cut in queue.scheduler.explain()]


def classes(changed, **fields):
    """All classes, one of them changed."""
    return {**CLASSES, changed.name: replace(changed, **fields)}


def test_without_delay_what_waits_goes_at_once():
    queue = Queue()
    queue.add(1, 0.0)
    queue.add(2, 0.0)
    assert queue.batch(0.0) == [1, 2]
    assert reasons(queue) == [CutReason.IDLE]
    assert queue.batch(0.0) == []


def test_busy_instances_let_the_batch_grow():
    queue = Queue()
    queue.add(1, 0.0)
    assert queue.batch(0.0) == [1]
    running = queue.last
    for number in (2, 3, 4):
        queue.add(number, 0.1)
        assert queue.batch(0.1) == []
    queue.scheduler.done(running, 0.2)
    assert queue.batch(0.2) == [2, 3, 4]


def test_as_many_batches_run_as_there_are_instances():
    queue = Queue(instances=2, max_rows=1)
    for number in (1, 2, 3):
        queue.add(number, 0.0)
    assert [queue.batch(0.0), queue.batch(0.0), queue.batch(0.0)] == [[1], [2], []]
    assert queue.scheduler.statistics().running == 2


def test_full_batch_leaves_the_rest_waiting():
    queue = Queue(max_rows=4, max_delay_s=1.0)
    for number in range(6):
        queue.add(number, 0.0)
    assert queue.serve(0.0) == [0, 1, 2, 3]
    assert reasons(queue) == [CutReason.FULL]
    assert queue.serve(0.5) == []
    assert queue.serve(1.0) == [4, 5]
    assert reasons(queue)[-1] is CutReason.DELAY


def test_delay_counts_from_the_oldest_request():
    queue = Queue(max_delay_s=0.010)
    queue.add(1, 0.000)
    assert queue.batch(0.000) == []
    assert queue.scheduler.wake_at() == 0.010
    queue.add(2, 0.009)
    assert queue.batch(0.0095) == []
    assert queue.batch(0.010) == [1, 2]


def test_delay_takes_at_most_half_of_a_request_s_time():
    queue = Queue(max_delay_s=10.0)
    queue.add(1, 0.0)
    queue.add(2, 0.0, deadline=1.0)
    assert queue.scheduler.wake_at() == 0.5
    assert queue.batch(0.4) == []
    assert queue.batch(0.5) == [2, 1]
    assert reasons(queue) == [CutReason.DEADLINE]


def test_delay_leaves_time_for_the_run():
    queue = Queue(max_delay_s=10.0)
    for number in range(4):
        queue.add(number, 0.0)
    queue.serve(0.0, took=0.4)  # measured: 0.4 s a run
    queue.add(4, 2.0, deadline=3.0)
    assert queue.scheduler.wake_at() == pytest.approx(2.2)


def test_a_batch_holds_one_bucket_and_looks_past_others():
    queue = Queue()
    for number, bucket in enumerate("abaab"):
        queue.add(number, 0.0, bucket)
    assert queue.serve(0.0) == [0, 2, 3]
    assert queue.serve(0.0) == [1, 4]
    assert reasons(queue) == [CutReason.BUCKET, CutReason.IDLE]


def test_other_shapes_end_the_delay():
    queue = Queue(max_delay_s=1.0)
    queue.add(1, 0.0, "a")
    assert queue.batch(0.0) == []
    queue.add(2, 0.1, "b")
    assert queue.serve(0.1) == [1]
    assert queue.serve(0.1) == []
    assert queue.serve(1.1) == [2]


def test_the_look_ahead_is_bounded():
    queue = Queue(window=3)
    queue.add(0, 0.0, "a")
    for number in (1, 2, 3):
        queue.add(number, 0.0, "b")
    queue.add(4, 0.0, "a")
    assert queue.serve(0.0) == [0]
    assert queue.serve(0.0) == [1, 2, 3]


def test_a_smaller_request_fills_what_a_larger_leaves():
    queue = Queue(max_rows=4)
    queue.add(1, 0.0, rows=3)
    queue.add(2, 0.0, rows=2)
    queue.add(3, 0.0, rows=1)
    assert queue.serve(0.0) == [1, 3]
    assert queue.last.rows == 4
    assert queue.serve(0.0) == [2]


def test_the_earliest_virtual_deadline_goes_first():
    queue = Queue(max_rows=1)
    queue.add(1, 0.0, service_class=BATCH)
    queue.add(2, 0.1, service_class=STANDARD)
    queue.add(3, 0.2, service_class=REALTIME)
    assert [queue.serve(0.3) for _ in range(3)] == [[3], [2], [1]]


def test_an_old_request_of_a_lower_class_precedes_a_new_one_of_a_higher():
    queue = Queue(max_rows=1)
    queue.add(1, 0.0, service_class=STANDARD)  # virtual deadline 2.0
    queue.add(2, 1.5, service_class=REALTIME)  # 2.3
    assert queue.serve(1.5) == [1]


def test_a_batch_mixes_classes_the_most_urgent_first():
    queue = Queue(max_rows=3)
    queue.add(1, 0.0, service_class=BATCH)
    queue.add(2, 0.0, service_class=STANDARD)
    queue.add(3, 0.0, service_class=REALTIME)
    assert queue.serve(0.0) == [3, 2, 1]


def test_an_own_deadline_reorders_within_its_class_only():
    queue = Queue(max_rows=1)
    queue.add(1, 0.0)
    queue.add(2, 0.0, deadline=0.5)
    queue.add(3, 0.0, service_class=BATCH, deadline=0.1)
    assert [queue.serve(0.05) for _ in range(3)] == [[2], [1], [3]]


def test_late_requests_of_a_lower_class_take_at_most_a_tenth_while_a_higher_waits():
    queue = Queue(max_rows=4, max_requests=10_000)
    for number in range(500):
        queue.add(number, 0.0, service_class=BATCH)
    served, now, number = [], 61.0, 1000  # all 500 are late by now
    for _ in range(100):
        for _ in range(8):  # realtime keeps waiting
            queue.add(number, now, service_class=REALTIME)
            number += 1
        served += queue.serve(now)
        now += 0.001
    late = sum(number < 1000 for number in served)
    assert len(served) == 400
    assert 36 <= late <= 40  # a tenth, and nobody starves


def test_late_requests_of_a_lower_class_go_freely_when_nobody_else_waits():
    queue = Queue(max_rows=4)
    for number in range(4):
        queue.add(number, 0.0, service_class=BATCH)
    assert queue.serve(100.0) == [0, 1, 2, 3]


def test_expired_requests_leave_when_their_time_comes():
    queue = Queue()
    queue.add(1, 0.0)
    queue.batch(0.0)
    queue.add(2, 0.0, deadline=0.5)
    queue.add(3, 0.0, service_class=REALTIME)  # expires after 1.2 s in the queue
    queue.add(4, 0.0)
    assert queue.scheduler.wake_at() == 0.5
    assert queue.expire(0.4) == []
    assert queue.expire(0.5) == [2]
    assert queue.scheduler.wake_at() == 1.2
    assert queue.expire(1.3) == [3]
    assert queue.tickets[3].state is TicketState.EXPIRED
    assert queue.scheduler.statistics().expired == 2
    assert queue.scheduler.statistics().requests == 1


def test_next_batch_never_holds_an_expired_request_and_expire_still_tells_of_it():
    queue = Queue()
    queue.add(1, 0.0, deadline=0.5)
    queue.add(2, 0.0)
    assert queue.batch(0.6) == [2]
    assert queue.scheduler.wake_at() == float("-inf")
    assert queue.expire(0.6) == [1]
    assert queue.scheduler.wake_at() is None


def test_a_discarded_request_frees_its_place():
    queue = Queue(max_requests=2)
    queue.add(1, 0.0)
    queue.add(2, 0.0)
    assert queue.scheduler.discard(1) is queue.tickets[1]
    assert queue.scheduler.discard(1) is None
    queue.add(3, 0.0)
    assert queue.serve(0.0) == [2, 3]
    assert queue.scheduler.statistics().cancelled == 1
    assert queue.scheduler.idle


def test_clear_takes_out_everything():
    queue = Queue()
    for number in (1, 2, 3):
        queue.add(number, 0.0)
    assert [ticket.request.id for ticket in queue.scheduler.clear()] == [1, 2, 3]
    assert queue.scheduler.idle


@pytest.mark.parametrize("rows", [0, 5])
def test_rows_that_no_batch_takes_are_refused(rows):
    with pytest.raises(RequestInvalid, match="1 to 4"):
        Queue(max_rows=4).add(1, 0.0, rows=rows)


def test_an_id_that_waits_is_refused():
    queue = Queue()
    queue.add(1, 0.0)
    with pytest.raises(RequestInvalid, match="id 1"):
        queue.add(1, 0.0)


def test_a_request_whose_time_is_over_is_refused():
    with pytest.raises(DeadlineExpired):
        Queue().add(1, 2.0, deadline=1.0)


@pytest.mark.parametrize("bound", [{"max_requests": 3}, {"max_queued_rows": 3}])
def test_a_full_queue_refuses(bound):
    queue = Queue(**bound)
    for number in range(3):
        queue.add(number, 0.0)
    with pytest.raises(QueueFull) as refused:
        queue.add(4, 0.0)
    assert refused.value.retry_after == 1.0  # nothing was measured yet
    assert queue.scheduler.statistics().refused == {"queue_full": 1}


@pytest.mark.parametrize("bound", [{"max_requests": 3}, {"max_queued_rows": 3}])
def test_a_backlog_of_one_class_leaves_the_others_their_places(bound):
    queue = Queue(**bound)
    for number in range(3):
        queue.add(number, 0.0, service_class=BATCH)
    with pytest.raises(QueueFull, match="3 batch requests with 3 rows wait, at most"):
        queue.add(3, 0.0, service_class=BATCH)
    queue.add(4, 0.0, service_class=REALTIME)


@pytest.mark.parametrize(("weight", "places"), [(1.0, 5), (2.0, 10)])
def test_a_flood_that_fills_the_queue_leaves_neighbours_their_share(weight, places):
    queue = Queue(max_requests=6, weights={"quiet": weight})
    for number in range(6):
        queue.add(number, 0.0, tenant="flood")
    with pytest.raises(QueueFull):
        queue.add(6, 0.0, tenant="flood")
    for number in range(places):  # until it holds as much for its weight as the flood
        queue.add(10 + number, 0.0, tenant="quiet")
    for number, tenant in ((40, "quiet"), (41, "flood")):
        with pytest.raises(QueueFull):
            queue.add(number, 0.0, tenant=tenant)


def test_a_class_may_have_a_bound_of_its_own():
    queue = Queue(max_requests=100, classes=classes(BATCH, max_requests=2))
    queue.add(1, 0.0, service_class=BATCH)
    queue.add(2, 0.0, service_class=BATCH)
    with pytest.raises(QueueFull, match="at most 2"):
        queue.add(3, 0.0, service_class=BATCH)
    queue.add(4, 0.0)


def test_a_lane_s_own_target_and_expiry_count_not_the_request_s():
    queue = Queue(max_rows=1, classes=classes(BATCH, target_s=0.5, expires_s=3.0))
    queue.add(1, 0.0, service_class=REALTIME)
    queue.add(2, 0.0, service_class=BATCH)
    assert queue.serve(0.0) == [2]
    queue.add(3, 0.0, service_class=BATCH)
    assert queue.tickets[3].expires == 3.0


def test_reserved_instances_run_nothing_less_urgent():
    queue = Queue(max_rows=2, instances=3, classes=classes(REALTIME, reserved=1))
    for number in range(8):
        queue.add(number, 0.0, service_class=BATCH)
    assert [queue.batch(0.0), queue.batch(0.0), queue.batch(0.0)] == [[0, 1], [2, 3], []]
    assert queue.scheduler.wake_at() == 600.0  # nothing but an expiry is due
    queue.add(100, 0.1, service_class=REALTIME)
    assert queue.scheduler.wake_at() == float("-inf")
    assert queue.batch(0.1) == [100]  # alone, though there was room: what is reserved stays short
    assert reasons(queue)[-1] is CutReason.IDLE
    queue.scheduler.done(queue.last, 0.2)
    assert queue.batch(0.2) == []


def test_realtime_may_take_every_instance():
    queue = Queue(max_rows=1, instances=2, classes=classes(REALTIME, reserved=1))
    for number in range(3):
        queue.add(number, 0.0, service_class=REALTIME)
    queue.add(9, 0.0, service_class=BATCH)
    assert [queue.batch(0.0), queue.batch(0.0), queue.batch(0.0)] == [[0], [1], []]


def test_a_mixed_batch_takes_no_reserved_instance():
    queue = Queue(max_rows=2, instances=2, classes=classes(REALTIME, reserved=1))
    queue.add(1, 0.0, service_class=REALTIME)
    for number in (2, 3):
        queue.add(number, 0.0, service_class=BATCH)
    assert [queue.batch(0.0), queue.batch(0.0)] == [[1, 2], []]
    queue.add(4, 0.0, service_class=REALTIME)
    assert queue.batch(0.0) == [4]


def test_two_classes_with_reserves_each_keep_theirs():
    both = {**classes(REALTIME, reserved=1), "standard": replace(STANDARD, reserved=1)}
    queue = Queue(max_rows=1, instances=3, classes=both)
    for number in (1, 2):
        queue.add(number, 0.0, service_class=BATCH)
    assert [queue.batch(0.0), queue.batch(0.0)] == [[1], []]
    for number in (3, 4):
        queue.add(number, 0.0, service_class=STANDARD)
    assert [queue.batch(0.0), queue.batch(0.0)] == [[3], []]
    queue.add(5, 0.0, service_class=REALTIME)
    assert queue.batch(0.0) == [5]


def backlogged(rate: float = 10.0, waiting: int = 100, service_class=STANDARD, **settings) -> Queue:
    """A queue whose class, standard by default, was measured to be served at `rate` rows per second."""
    queue = Queue(**{"max_rows": 10, "max_requests": 1000, **settings})
    for number in range(60 + waiting):
        queue.add(number, 0.0, service_class=service_class)
    now = 0.0
    for _ in range(6):
        queue.serve(now, took=10 / rate)
        now += 10 / rate
    queue.now = now
    return queue


def test_a_deadline_that_the_measured_rate_cannot_meet_is_refused():
    queue = backlogged(rate=10.0, waiting=100)  # 10 s of work wait
    with pytest.raises(DeadlineImpossible, match="some 10 s away") as refused:
        queue.add(1000, queue.now, deadline=queue.now + 8.0)
    assert refused.value.retry_after == pytest.approx(2.0)
    queue.add(1000, queue.now, deadline=queue.now + 12.0)


def test_a_class_backlog_beyond_its_expiry_is_refused():
    queue = backlogged(rate=2.0, waiting=100)  # 50 s of work wait, standard expires after 30
    with pytest.raises(DeadlineImpossible):
        queue.add(1000, queue.now)
    queue.add(1001, queue.now, service_class=REALTIME)  # its own class has no backlog


def test_a_full_queue_says_when_its_backlog_is_served():
    queue = backlogged(rate=50.0, waiting=100, max_requests=160)
    for number in range(60):
        queue.add(1000 + number, queue.now)
    with pytest.raises(QueueFull) as refused:
        queue.add(2000, queue.now)
    assert refused.value.retry_after == pytest.approx(160 / 50)


def test_a_flood_delays_itself_and_not_its_neighbours():
    queue = backlogged(rate=100.0, waiting=0)
    for number in range(1000, 1200):
        queue.add(number, queue.now, tenant="flood")
    queue.add(1, queue.now + 0.001, tenant="quiet")
    assert 1 in queue.serve(queue.now + 0.001)


def test_a_neighbour_of_a_flood_is_not_refused():
    queue = backlogged(rate=10.0, waiting=0)
    for number in range(1000, 1200):
        queue.add(number, queue.now, tenant="flood")
    with pytest.raises(DeadlineImpossible):
        queue.add(2, queue.now, tenant="flood", deadline=queue.now + 1.0)
    queue.add(1, queue.now, tenant="quiet", deadline=queue.now + 1.0)


def test_a_heavier_tenant_s_turn_is_nearer():
    queue = backlogged(rate=10.0, waiting=0, weights={"big": 3.0})
    for number in range(100):
        queue.add(1000 + number, queue.now, tenant="big")
        queue.add(2000 + number, queue.now, tenant="small")
    with pytest.raises(DeadlineImpossible, match=r"some 13\.3 s away"):
        queue.add(1, queue.now, tenant="big", deadline=queue.now + 1.0)
    with pytest.raises(DeadlineImpossible, match="some 20 s away"):  # all 200 rows at most
        queue.add(1, queue.now, tenant="small", deadline=queue.now + 1.0)


def test_two_floods_share_by_weight():
    queue = backlogged(rate=100.0, waiting=0, weights={"big": 3.0})
    for number in range(200):
        queue.add(1000 + number, queue.now, tenant="big")
        queue.add(2000 + number, queue.now, tenant="small")
    served = [number for _ in range(8) for number in queue.serve(queue.now + 0.1)]
    big = sum(number < 2000 for number in served)
    assert 55 <= big <= 65  # three quarters of 80


def test_a_tenant_above_its_share_gets_no_more_although_alone_it_would_fit():
    queue = backlogged(rate=100.0, waiting=0, service_class=BATCH, max_requests=10_000)
    served, now, number = Counter(), queue.now, 1000
    for _ in range(100):  # ten rows a turn are served
        for tenant, rows in (("eager", 8), ("flood", 20), ("quiet", 1)):
            for _ in range(rows):
                queue.add(number, now, tenant=tenant, service_class=BATCH)
                number += 1
        served.update(queue.tickets[n].request.tenant for n in queue.serve(now, took=0.1))
        now += 0.1
    assert served["quiet"] >= 98
    assert served["eager"] == pytest.approx(served["flood"], rel=0.2)


def test_a_tenant_keeps_its_own_order():
    queue = backlogged(rate=100.0, waiting=0)
    for number in range(1000, 1040):
        queue.add(number, queue.now + number * 1e-6, tenant=f"t{number % 2}")
    served = [number for _ in range(4) for number in queue.serve(queue.now + 1.0)]
    for tenant in (0, 1):
        own = [number for number in served if number % 2 == tenant]
        assert own == sorted(own)


def test_statistics_and_explanations_add_up():
    queue = Queue(max_rows=2)
    for number in range(5):
        queue.add(number, 0.0)
    while queue.serve(0.5, took=0.25):
        pass
    statistics = queue.scheduler.statistics()
    assert statistics.batches == {CutReason.FULL: 2, CutReason.IDLE: 1}
    assert statistics.batch_rows_sum == 5
    assert statistics.batch_rows_histogram == {1: 1, 2: 2}
    assert statistics.waiting == {"realtime": 0, "standard": 0, "batch": 0}
    assert statistics.run_s == pytest.approx(0.25)
    assert [(cut.requests, cut.rows, cut.waited_s) for cut in queue.scheduler.explain()] == [
        (2, 2, 0.5), (2, 2, 0.5), (1, 1, 0.5),
    ]  # fmt: skip


def test_nothing_that_left_is_kept():
    queue = Queue(max_rows=4, max_requests=10)
    for number in range(5000):
        queue.add(number, number * 1e-3, tenant=f"t{number}", service_class=BATCH)
        queue.serve(number * 1e-3)
    scheduler = queue.scheduler
    heaps = [scheduler._expiry, *scheduler._queues]
    assert len(scheduler._queues[0]._shares._last) < 2000
    queue.add(5000, 5.0)
    queue.batch(5.0)  # runs on: what comes now waits
    queue.add(5001, 5.0, service_class=BATCH)
    for number in range(6000, 7000):  # each behind one that stays
        queue.add(number, 6.0, service_class=BATCH)
        scheduler.discard(number)
    assert all(len(heap._entries) < 100 for heap in heaps)
