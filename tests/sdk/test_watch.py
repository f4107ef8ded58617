import os

from sandseal_sdk.testing.watch import changes


def test_every_change_of_a_source_or_case_is_seen_once(tmp_path):
    (tmp_path / "cases").mkdir()
    (tmp_path / "build").mkdir()
    source = tmp_path / "plugin.c"
    source.write_text("one")
    seen = changes(tmp_path, interval_s=0.001)
    next(seen)
    for change in (
        lambda: os.utime(source, ns=(1, 1)),
        lambda: (tmp_path / "cases" / "one.json").write_text("{}"),
        lambda: source.unlink(),
    ):
        (tmp_path / "build" / "plugin.wasm").write_text("made")
        (tmp_path / ".hidden").write_text("by an editor")
        change()
        next(seen)
