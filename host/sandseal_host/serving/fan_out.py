"""One step's rows as requests to its model: as many as its batches need, all of them waiting at once."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from sandseal_host.errors import TooLarge
from sandseal_host.serving.members import Member
from sandseal_host.serving.no_rows import no_rows
from sandseal_host.serving.request import Request, Response, ServiceClass, request_ids
from sandseal_host.serving.rows import join_rows, rows_of, split_rows
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.tensors import Tensor
from sandseal_signing.pipeline import StepSpec

_MAX_BYTES = 1 << 30  # of a step's outputs, which a model that makes much of little would fill the memory with


async def fan_out(step: StepSpec, member: Member, request: Request, inputs: tuple[Tensor, ...]) -> Response:
    """A step's outputs; `timings` are those of the slowest request. Where one fails, the others are given up.

    Args:
        request: the pipeline's, whose class, tenant, arrival and deadline all of them have.
        inputs: in the step's order; those that count rows have equally many.

    Raises:
        HostError: as the model raises.
        TooLarge: these are more rows than may wait for the model, or they came to too many bytes.
        ModelFailed: the outputs do not go together.
    """
    rows, settings = rows_of(inputs, step.inputs), member.settings
    if not rows:
        return Response(no_rows(inputs, step.inputs, step.outputs))
    if rows > settings.max_queued_rows:
        raise TooLarge(
            f"{rows} rows for {step.model!r}, and at most {settings.max_queued_rows} may wait for it",
            got=rows, limit=settings.max_queued_rows,
        )  # fmt: skip
    requests = _requests(step, member, request, inputs)
    with member.hold():
        if rows <= settings.max_rows:
            answers = [await member.infer(next(requests))]
        else:
            places = min(_places(settings, request.service_class), -(-rows // settings.max_rows))
            answers = await _all(member, requests, places)
    named = [{tensor.name: tensor for tensor in answer.outputs} for answer in answers]
    parts = [[tensors[spec.name] for spec in step.outputs] for tensors in named]
    outputs = join_rows(parts) if len(parts) == 1 else await asyncio.to_thread(join_rows, parts)
    slowest = max(answers, key=lambda answer: sum(answer.timings.values()))
    timings = {f"{step.name}.{stage}": seconds for stage, seconds in slowest.timings.items()}
    skipped = dict.fromkeys(f"{step.name}.{stage}" for answer in answers for stage in answer.skipped)
    return Response(outputs, timings, tuple(skipped), {step.name: member.bundle_id})


def _requests(step: StepSpec, member: Member, request: Request, inputs: tuple[Tensor, ...]) -> Iterator[Request]:
    names = [spec.name for spec in step.inputs]
    order = [names.index(spec.name) for spec in member.manifest.inputs]
    for part in split_rows(inputs, step.inputs, member.settings.max_rows):
        taken = tuple([part[i] for i in order])
        yield replace(request, id=next(request_ids), inputs=taken, rows=rows_of(part, step.inputs), step=None)


def _places(settings: SchedulerSettings, service_class: ServiceClass) -> int:
    """Half of those that the model's queue has for requests of the class: others have to get in."""
    most = settings.classes[service_class.name].max_requests
    places = min(settings.max_requests if most is None else most, settings.max_queued_rows // settings.max_rows)
    return max(1, places // 2)


async def _all(member: Member, requests: Iterator[Request], places: int) -> list[Response]:
    """The answers in order; each of so many places asks for what comes next when it has one."""
    numbered, answers, size = enumerate(requests), dict[int, Response](), 0

    async def ask() -> None:
        nonlocal size
        for number, request in numbered:
            answers[number] = answer = await member.infer(request)
            size += sum([tensor.nbytes for tensor in answer.outputs])
            if size > _MAX_BYTES:
                raise TooLarge(f"the rows came to over {_MAX_BYTES} bytes", limit=_MAX_BYTES)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(places):
                group.create_task(ask())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [answers[number] for number in range(len(answers))]
