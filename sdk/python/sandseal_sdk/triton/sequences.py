"""What a bundle takes over from a configuration's `sequence_batching`: its states, and how long a batch waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandseal_sdk.errors import RepositoryInvalid
from sandseal_sdk.triton.tensors import TensorConfig, read_tensor
from sandseal_sdk.triton.text_format import Message, take

UNKNOWN = "left out: a bundle has nothing like it"
"""What is said of a member that nothing else is said of."""
_ELSEWHERE = {
    "max_sequence_idle_microseconds": "the operator's: SANDSEAL_SEQUENCE_IDLE_S",
    "iterative_sequence": "left out: a request is answered once",
    "minimum_slot_utilization": "left out: a batch goes when it is full, or its first step has waited for the delay",
    "max_candidate_sequences": "left out: every open sequence's step may be in a batch; how many may be open is the "
    "operator's: SANDSEAL_MAX_SEQUENCES",
    "preferred_batch_size": "left out: a batch goes when it is full, or its first step has waited for the delay",
    "preserve_ordering": "left out: a sequence's steps keep their order anyway",
    "use_same_buffer_for_input_output": "left out: the host keeps states itself",
    "use_growable_memory": "left out: the host keeps states itself",
}


@dataclass(frozen=True, slots=True)
class StateConfig:
    """A state as the file has it: the output that becomes an input of the sequence's next step, and their kind."""

    input: str
    output: str
    kind: TensorConfig


@dataclass(frozen=True, slots=True)
class SequenceConfig:
    """A `sequence_batching`.

    Args:
        states: what a sequence goes on with; without any, its requests are on their own.
        max_delay_us: how long the first step of a batch may wait for others, in microseconds.
        unmapped: members that are left out, each with what to do about it.
    """

    states: tuple[StateConfig, ...] = ()
    max_delay_us: int = 0
    unmapped: Mapping[str, str] = field(default_factory=dict)


def read_sequences(fields: Message, folder: Path) -> SequenceConfig:
    """Take all members out of a `sequence_batching`.

    Args:
        folder: the model's, which holds the files of initial states.

    Raises:
        RepositoryInvalid: a state begins with something else than zeros.
    """
    states = tuple(_state(message, folder) for message in fields.get("state", ()))
    if fields and not states:
        return SequenceConfig(unmapped={"sequence_batching": "left out: it names no state that sequences go on with"})
    unmapped = {f"state.{left}": _advice(left) for message in fields.pop("state", ()) for left in message}
    for control in fields.pop("control_input", ()):
        unmapped[f"control_input.{take(control, 'name', '')}"] = "left to clients: it stays an input of the model"
    delay = 0
    for name in ("direct", "oldest"):
        strategy = take(fields, name, {})
        delay = take(strategy, "max_queue_delay_microseconds", 0) or delay
        unmapped |= {f"{name}.{left}": _advice(left) for left in strategy}
    unmapped |= {left: _advice(left) for left in fields}
    return SequenceConfig(states, delay, {f"sequence_batching.{name}": advice for name, advice in unmapped.items()})


def _state(message: Message, folder: Path) -> StateConfig:
    state = StateConfig(take(message, "input_name", ""), take(message, "output_name", ""), read_tensor(message))
    for initial in message.pop("initial_state", ()):
        if (name := take(initial, "data_file", "")) and not _is_zeros(folder / "initial_state" / name):
            raise RepositoryInvalid(
                f"the state {state.input!r} begins with {name}, and a bundle's sequences begin with zeros",
                hint="let the graph make the initial state, or add it to the state in the graph",
            )
    return state


def _is_zeros(path: Path) -> bool:
    try:
        return not any(path.read_bytes())
    except OSError as error:
        raise RepositoryInvalid(f"the initial state {path} cannot be read: {error.strerror}") from None


def _advice(name: str) -> str:
    return _ELSEWHERE.get(name, UNKNOWN)
