"""Text that a guest wrote, made safe to print: it may hold terminal escapes, bidi overrides or half characters."""


def printable(text: bytes | str, limit: int) -> str:
    """At most `limit` bytes (characters, for a str) of `text` on one line, with what does not print escaped."""
    cut = text[:limit]
    shown = cut.decode("utf-8", "replace") if isinstance(cut, bytes) else cut
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return shown if len(text) <= limit else shown + "…"
