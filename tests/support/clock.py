"""Time as a test sets it."""


class Clock:
    """A clock that a test sets, in seconds."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now
