"""How a vetting ended: what its child said and what became of it, read as one error or none.

The child may have been taken over by what it looked at, so nothing that it says is relied on to be well formed.
"""

import re
import signal
from dataclasses import dataclass
from typing import Any

from sandseal_host.error_members import rebuilt_error
from sandseal_host.errors import ModelInvalid, SettingsInvalid
from sandseal_host.vetting.handover import Order, Step
from sandseal_signing.errors import JsonInvalid, SandsealError
from sandseal_signing.schema import Node, parse_json

_ENGINES = {
    Step.PARSE: "the ONNX parser",
    Step.SESSION: "ONNX Runtime",
    Step.WARM_UP: "ONNX Runtime",
    Step.COMPILE: "wasmtime",
}
_NO_MEMORY = re.compile(rb"memory allocation of|bad_alloc|[Oo]ut of memory|Cannot allocate memory|MemoryError")
_SHOWN_NOISE = 300  # characters


@dataclass(slots=True)
class Report:
    """What a child said, as far as it makes sense.

    Args:
        missing: what the system could not take away from it.
        step: the last that it began, and `file` for which file.
        passed: it found nothing wrong.
        error: what it found wrong.
        exhausted: it ran out of memory; the words of who noticed.
    """

    missing: tuple[str, ...] = ()
    step: Step = Step.START
    file: str = ""
    passed: bool = False
    error: SandsealError | None = None
    exhausted: str | None = None

    @classmethod
    def read(cls, output: bytes) -> "Report":
        """Read lines of JSON; what is not as `vetting_child` writes it counts as not said."""
        report = cls()
        for line in output.splitlines():
            try:
                report._take(Node(parse_json(line, "what vetting reports"), "", JsonInvalid))
            except (SandsealError, ValueError):
                continue
        return report

    def _take(self, line: Node) -> None:
        if line.has("missing"):
            if self.step is Step.START:  # later it may be the bundle that speaks
                self.missing = line.texts("missing")
        elif line.has("step"):
            self.step, self.file = Step(line.text("step")), line.text("file", valid=str.isprintable)
        elif line.has("refused"):
            self.error = _error(line.child("refused"))
        elif line.has("exhausted"):
            self.exhausted = line.text("exhausted", valid=_any, rule="a string")
        else:
            self.passed = line.take("passed") is True


@dataclass(frozen=True, slots=True)
class Ending:
    """A child's end.

    Args:
        report: what it said before.
        noise: the last bytes that native code printed.
        status: the exit status; for a signal, its negative number.
        late: it was ended because the time was over.
    """

    report: Report
    noise: bytes
    status: int
    late: bool

    def error(self, order: Order, time_s: float) -> SandsealError | None:
        """Why the bundle is refused; None when nothing is wrong with it.

        Args:
            order: what the child was to do.
            time_s: how long it was given.
        """
        report = self.report
        if report.step is Step.START and not report.error:
            return self._not_started(time_s)
        if report.error or report.passed:
            return report.error
        if report.exhausted is not None:
            return self._over("memory", f"{order.memory >> 20} MiB of memory", report.exhausted)
        if self.late:
            return self._over("time", f"{time_s:g} s of time")
        if self.status == -signal.SIGXCPU:
            return self._over("cpu", f"{order.cpu_s} s of processor time")
        if _NO_MEMORY.search(self.noise):
            return self._over("memory", f"{order.memory >> 20} MiB of memory")
        return self._crashed()

    def _not_started(self, time_s: float) -> SandsealError:
        why = f"was not ready after {time_s:g} s" if self.late else f"ended with {_name(self.status)}"
        return SettingsInvalid(
            f"the process that vets bundles {why} before it looked at anything",
            hint="raise SANDSEAL_VET_MEMORY_MIB and SANDSEAL_VET_TIME_S; `data.said` has what it printed",
            said=self._said(),
        )

    def _over(self, limit: str, most: str, words: str = "") -> ModelInvalid:
        return ModelInvalid(
            f"{self.report.file!r} needs more than the {most} that vetting allows, during the {self.report.step}"
            + (f": {words}" if words else ""),
            hint=f"make it smaller or simpler, or ask the operator to raise SANDSEAL_VET_{_SETTINGS[limit]}",
            **self._data(limit=limit),
        )

    def _crashed(self) -> ModelInvalid:
        report = self.report
        return ModelInvalid(
            f"{report.file!r} crashed {_ENGINES[report.step]} with {_name(self.status)} during the {report.step}",
            hint="this file would crash a host, too: find out what makes it so, or report it to the engine's makers",
            **self._data(status=self.status),
        )

    def _data(self, **more: Any) -> dict[str, Any]:
        return {"file": self.report.file, "step": str(self.report.step), "said": self._said(), **more}

    def _said(self) -> str:
        text = " ".join(self.noise.decode("utf-8", "replace").split())[-_SHOWN_NOISE:]
        return "".join(c if c.isprintable() else "?" for c in text)


_SETTINGS = {"memory": "MEMORY_MIB", "time": "TIME_S", "cpu": "CPU_S"}


def _error(refused: Node) -> SandsealError:
    data = refused.take("data")
    error = rebuilt_error(
        refused.text("code"),
        refused.text("message", valid=_any, rule="a string"),
        refused.text("hint", valid=_any, rule="a string"),
        data if isinstance(data, dict) else {},
    )
    if error is None:
        refused.fail("code", "is no error's code")
    return error


def _any(_: str) -> bool:
    return True


def _name(status: int) -> str:
    """`signal 11 (SIGSEGV)` or `exit status 1`."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"signal {-status}"
