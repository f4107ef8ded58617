"""What bounds a model's generations."""

from dataclasses import dataclass, field

from sandseal_host.serving.scheduler_settings import SchedulerSettings


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """What bounds a model's generations, and shapes its steps.

    Args:
        slots: sequences that decode together.
        context: the most tokens of a sequence, prompt and answer together.
        chunk: prompt tokens that are run between two decodes.
        host_bytes: of keys and values that lie in the host's memory: of paused sequences, and of prefixes.
        read_s: seconds after which a stream that nobody reads from is ended.
        queue: classes, tenants' weights and how many may wait; a class's `reserved` is in slots.
    """

    slots: int = 8
    context: int = 4096
    chunk: int = 128
    host_bytes: int = 256 << 20
    read_s: float = 60.0
    queue: SchedulerSettings = field(default_factory=SchedulerSettings)
