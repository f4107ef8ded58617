"""The figures of *The GPU core*, on the CPU: what batching gains, what classes hold, what the core costs.

All in one process and without HTTP, so that the figures are the core's own.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue
from statistics import median, quantiles
from threading import Thread
from typing import Any

import numpy as np
import uvloop

from bench import core_http, core_runtime, lanes, peers
from bench.figure import Figure, Measure, interleave
from sandseal_host.serving.request import BATCH, CLASSES, REALTIME
from support.onnx_models import OnnxModel, conv_net, encoder, mlp, wide_mlp

ROUNDS = 3
SECONDS = float(os.environ.get("SANDSEAL_BENCH_SECONDS", "2"))
TARGET_S = 5.0  # of the batch class, lowered from 60 so that a flood of three targets is short enough to measure
_FLOOD = 10  # times the capacity
_MODELS: dict[str, tuple[Callable[[], OnnxModel], float]] = {
    "weight-bound MLP": (wide_mlp, 3.0),
    "text encoder": (encoder, 1.0),
    "conv net": (conv_net, 0.8),  # its cost is in its rows, so that batches gain nothing and may lose some cache
}


def batching() -> Iterator[Figure]:
    """Rows a second with batches of up to 32 against one row at a time, from 32 callers."""
    for name, (make, goal) in _MODELS.items():
        model = make()
        inputs = lanes.row(model)

        async def rate(max_rows: int, model: OnnxModel = model, inputs: Any = inputs) -> float:
            with lanes.opened(model) as session:
                lane = lanes.lane(session, max_rows=max_rows)
                found = await lanes.closed_loop(lane, inputs, 32, SECONDS)
                await lane.close()
            return found

        on, off = interleave(ROUNDS, lambda r=rate: uvloop.run(r(32)), lambda r=rate: uvloop.run(r(1)))
        yield Figure(
            f"batching on / off, {name}", on / off, "ratio", goal, True, f"{on:,.0f} against {off:,.0f} rows/s"
        )


def realtime() -> Iterator[Figure]:
    """Realtime's p99 under a batch flood of ten times the capacity for three batch targets, against FIFO."""
    model = mlp((768, 3072, 3072, 3072, 768), max_rows=4)
    capacity = uvloop.run(_capacity(model))
    ours, ours_refused = uvloop.run(_flooded(model, capacity, fifo=False))
    fifo, fifo_refused = uvloop.run(_flooded(model, capacity, fifo=True))
    detail = (
        f"{ours * 1e3:.0f} against {fifo * 1e3:.0f} ms at {capacity:,.0f} rows/s; "
        f"refused {ours_refused:.1%} against {fifo_refused:.1%} of the realtime requests"
    )
    yield Figure("realtime p99 under a 10x flood, FIFO / classes", fifo / ours, "ratio", 10.0, True, detail)


async def _capacity(model: OnnxModel) -> float:
    with lanes.opened(model) as session:
        lane = lanes.lane(session)
        found = await lanes.closed_loop(lane, lanes.row(model), 16, SECONDS)
        await lane.close()
    return found


async def _flooded(model: OnnxModel, capacity: float, *, fifo: bool) -> tuple[float, float]:
    """Realtime's p99 (s) and the share of it that was refused; in FIFO all requests are of one class and tenant."""
    classes = {**CLASSES, "batch": replace(BATCH, target_s=TARGET_S)}
    urgent, tenant = (BATCH, "flood") if fifo else (REALTIME, "person")
    inputs = lanes.row(model)
    with lanes.opened(model) as session:
        lane = lanes.lane(session, classes=classes, max_requests=1024)
        flood = lanes.open_loop(
            lane, lambda at: lanes.request(inputs, at, BATCH, "flood"), _FLOOD * capacity, 3 * TARGET_S
        )
        people = lanes.open_loop(
            lane, lambda at: lanes.request(inputs, at, urgent, tenant), capacity / 20, 3 * TARGET_S
        )
        _, arrivals = await asyncio.gather(flood, people)
        await lane.close()
    asked = len(arrivals.took) + arrivals.refused
    return quantiles(arrivals.took, n=100)[98], arrivals.refused / asked


def overhead() -> Iterator[Figure]:
    """What queue, batch, gathering and splitting add to a request over ONNX Runtime's own `session.run`."""
    for rows, goal in ((1, 60.0), (32, 20.0)):
        yield _processor_overhead(rows, goal)
    yield _threaded_overhead()
    yield _hand_over()


def _processor_overhead(rows: int, goal: float) -> Figure:
    """Of a tiny model, which runs on the loop: processor time, so that other processes do not count."""
    model, count = mlp(), 2000
    (tensor,) = inputs = lanes.row(model)
    with lanes.opened(model) as session:
        run, feed = session._core.run, {"x": np.repeat(tensor.data, rows, 0)}

        def bare() -> float:
            return _processor_us(lambda: [run(None, feed) for _ in range(count // rows)], count)

        async def calls(lane: Any) -> None:
            for _ in range(count // rows):
                await lane.run(lanes.request(inputs, time.monotonic()))

        async def all_calls() -> None:
            lane = lanes.lane(session, inline_below_s=1.0)
            await asyncio.gather(*(calls(lane) for _ in range(rows)))
            await lane.close()

        def served() -> float:
            return _processor_us(lambda: uvloop.run(all_calls()), count)

        served(), bare()
        ours, theirs = interleave(9, served, bare)
    detail = f"{ours:.1f} against {theirs:.1f} us of processor a request"
    return Figure(f"core - session.run, tiny MLP, batch {rows}", ours - theirs, "us", goal, False, detail)


def _threaded_overhead() -> Figure:
    """Of a model too slow for the loop: time on the wall, hand-over included; call by call in turn."""
    model = wide_mlp()
    (tensor,) = inputs = lanes.row(model)

    async def both() -> list[tuple[float, float]]:
        with lanes.opened(model) as session:
            lane, pairs = lanes.lane(session), []
            for _ in range(int(100 * SECONDS)):
                began = time.perf_counter()
                session._core.run(None, {"x": tensor.data})
                between = time.perf_counter()
                await lane.run(lanes.request(inputs, time.monotonic()))
                pairs.append((time.perf_counter() - between, between - began))
            await lane.close()
        return pairs

    pairs = uvloop.run(both())
    ours, theirs = (median(side) * 1e6 for side in zip(*pairs, strict=True))
    added = median(ours - theirs for ours, theirs in pairs) * 1e6
    detail = f"{ours:,.0f} against {theirs:,.0f} us, on a thread"
    return Figure("core - session.run, 94 MB MLP, batch 1", added, "us", 300.0, False, detail)


def _hand_over() -> Figure:
    """What a lane's thread costs more than the loop, against the least that a thread there and back costs."""
    count = 2000
    inputs = lanes.row(mlp())
    with lanes.opened(mlp()) as session:

        async def calls(inline_below_s: float) -> None:
            lane = lanes.lane(session, inline_below_s=inline_below_s)
            for _ in range(count):
                await lane.run(lanes.request(inputs, time.monotonic()))
            await lane.close()

        threads, loop, bare = interleave(
            9,
            lambda: _processor_us(lambda: uvloop.run(calls(0.0)), count),
            lambda: _processor_us(lambda: uvloop.run(calls(1.0)), count),
            lambda: _processor_us(lambda: uvloop.run(_there_and_back(count)), count),
        )
    detail = f"{threads:.1f} against {loop:.1f} us of processor a request; a queue, a thread and back: {bare:.1f} us"
    return Figure("thread - loop, against a bare hand-over", (threads - loop) / bare, "ratio", 3.0, False, detail)


async def _there_and_back(count: int) -> None:
    loop, queue = asyncio.get_running_loop(), SimpleQueue[asyncio.Future[None] | None]()

    def work() -> None:
        while (future := queue.get()) is not None:
            loop.call_soon_threadsafe(future.set_result, None)

    thread = Thread(target=work)
    thread.start()
    for _ in range(count):
        future = loop.create_future()
        queue.put(future)
        await future
    queue.put(None)
    thread.join()


def curve() -> Iterator[Figure]:
    """Latency at constant rates up to saturation, from when each request was due."""
    model = wide_mlp()
    inputs = lanes.row(model)

    async def at(rate: float) -> tuple[float, float, int]:
        with lanes.opened(model) as session:
            lane = lanes.lane(session)
            found = await lanes.open_loop(lane, lambda due: lanes.request(inputs, due), rate, SECONDS)
            await lane.close()
        took = found.took or [float("inf")] * 2
        return median(took) * 1e3, quantiles(took, n=100)[98] * 1e3, found.refused

    alone = uvloop.run(at(5.0))[0]
    capacity = uvloop.run(_capacity(model))
    for share in (0.25, 0.5, 0.75, 0.9, 1.1):
        middle, tail, refused = uvloop.run(at(share * capacity))
        goal = (20 if share < 1 else 200) * alone
        detail = f"p50 {middle:.1f} ms, alone {alone:.1f} ms; {refused} refused; {share * capacity:,.0f} rows/s"
        yield Figure(f"p99 at {share:.0%} of the capacity, 94 MB MLP", tail, "ms", goal, False, detail)


def _processor_us(work: Callable[[], object], count: int) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) / count * 1e6


MEASURES = (
    Measure("batching gain", batching),
    Measure("realtime under a flood", realtime),
    Measure("overhead", overhead),
    Measure("open loop", curve),
    *core_runtime.MEASURES,
    *core_http.MEASURES,
    *peers.MEASURES,
)
