import asyncio
import gc
import re
import sys
import time

import pytest

from sandseal_host.observe.metrics import HostMetrics
from sandseal_host.observe.tail import SteadyTail
from support.serving import ready_model, request
from support.settings_table import README
from support.waiting import until


@pytest.fixture
def tail():
    tail = SteadyTail()
    yield tail
    tail.close()


def counts(histogram):
    return sum(histogram.values())


def longer_than(histogram, seconds):
    return sum(count for bound, count in histogram.items() if bound > seconds)


def test_a_collection_is_a_pause(tail):
    async def run():
        tail.start()
        before = counts(tail.statistics().gc_pause_s_histogram)
        gc.collect()
        after = tail.statistics()
        assert counts(after.gc_pause_s_histogram) > before  # others may collect in between
        assert 0 < after.gc_pause_s_sum < 10

    asyncio.run(run())


def test_what_exists_at_the_start_is_frozen(tail):
    async def run():
        tail.start()
        assert tail.statistics().frozen_objects > 10_000
        assert gc.get_threshold()[0] > 700

    asyncio.run(run())


@pytest.mark.slow
def test_a_loop_that_is_kept_busy_lags(tail):
    async def run():
        tail.start()
        time.sleep(1.0)  # noqa: ASYNC251  # just that
        await until(lambda: longer_than(tail.statistics().loop_lag_s_histogram, 0.1) >= 2)
        statistics = tail.statistics()
        assert statistics.loop_lag_s_sum > 0.2
        assert counts(statistics.lock_wait_s_histogram) >= 2  # sleeping holds no interpreter lock

    asyncio.run(run())


def test_close_leaves_the_process_as_it_was(tail):
    before = gc.get_threshold(), sys.getswitchinterval(), len(gc.callbacks)

    async def run():
        tail.start()
        assert sys.getswitchinterval() < before[1]

    asyncio.run(run())
    tail.close()
    tail.close()
    assert (gc.get_threshold(), sys.getswitchinterval(), len(gc.callbacks)) == before
    assert not tail._probe.is_alive()
    assert gc.get_freeze_count() == 0


def test_its_figures_are_histograms(tail):
    metrics = HostMetrics()
    metrics.add("sandseal", lambda: [({}, tail.statistics())])
    text = metrics.render().decode()
    assert "# TYPE sandseal_loop_lag_s histogram" in text
    assert 'sandseal_gc_pause_s_bucket{le="+Inf"} 0.0' in text
    assert "sandseal_lock_wait_s_sum 0.0" in text
    assert "sandseal_frozen_objects" in text


def test_what_the_operator_s_guide_names_exists(tail):
    async def render():
        tail.start()
        model = ready_model()
        await model.infer(request(1))
        metrics = HostMetrics()
        metrics.add("sandseal", lambda: [({}, tail.statistics())])
        metrics.add("sandseal_model", lambda: [({"model": model.name}, model.statistics())])
        text = metrics.render().decode()
        await model.drain()
        await model.unload()
        return text

    text = asyncio.run(render())
    section = README.read_text(encoding="utf-8").partition("### What to watch")[2].partition("###")[0]
    names = re.findall(r"`(sandseal_\w+)`", section)
    assert len(names) > 6
    empty = {"sandseal_model_lane_scheduler_refused"}  # shows what was refused, and nothing was
    assert [name for name in names if f"# TYPE {name} " not in text and name not in empty] == []
