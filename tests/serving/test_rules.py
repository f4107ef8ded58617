import pytest

from sandseal_host.errors import SettingsInvalid
from sandseal_host.optimisation import Optimisation
from sandseal_host.serving.request import CLASSES
from sandseal_host.serving.rules import ServingRules
from sandseal_host.serving.versions import VersionPolicy
from sandseal_host.settings import Settings
from support.serving import manifest
from support.settings_table import README

FILE = """
[classes.realtime]
target_s = 0.5
expires_s = 1

[weights]
acme = 3

[[models]]
names = ["acme.vision.*", "acme.double"]
instances = 4
max_rows = 2
max_queue = 50
classes.realtime = {reserved = 1}
classes.batch = {max_queue = 10_000}
weights.labs = 2.5

[[models]]
names = ["*"]
max_delay_us = 500
"""


def test_the_settings_hold_where_the_file_says_nothing():
    rule = ServingRules(Settings(instances=2, max_queue=7)).of(manifest())
    assert (rule.instances, rule.max_requests, rule.max_rows, rule.max_delay_s) == (2, 7, 4, 0.0)
    assert rule.classes == CLASSES


def test_the_readme_s_example_is_valid():
    example = README.read_text(encoding="utf-8").partition("### The serving file")[2].split("```")[1]
    rules = ServingRules(Settings(), example.removeprefix("toml"))
    assert rules.of(manifest("acme.vision.cat")).classes["realtime"].reserved == 1
    assert rules.of(manifest("other")).classes["batch"].expires_s == 300
    assert rules.of(manifest("other")).max_queued_rows == 10_000


def test_the_first_rule_that_covers_a_name_decides():
    rules = ServingRules(Settings(), FILE)
    ours, other = rules.of(manifest("acme.double")), rules.of(manifest("bolt.double"))
    assert (ours.instances, ours.max_rows, ours.max_requests) == (4, 2, 50)
    assert (other.instances, other.max_rows, other.max_requests) == (1, 4, 1024)
    assert ours.weights == {"acme": 3.0, "labs": 2.5}
    assert other.weights == {"acme": 3.0}
    realtime = ours.classes["realtime"]
    assert (realtime.target_s, realtime.expires_s, realtime.reserved, realtime.level) == (0.5, 1.0, 1, 1)
    assert other.classes["realtime"].reserved == 0
    assert ours.classes["batch"].max_requests == 10_000


def test_versions():
    text = "versions = 2\n" + FILE.replace("max_rows = 2", 'versions = "all"') + "versions = [3, 1, 3]\n"
    rules = ServingRules(Settings(), text)
    assert rules.versions("acme.double") == VersionPolicy(None)
    assert rules.versions("bolt.double") == VersionPolicy(None, frozenset({1, 3}))
    assert ServingRules(Settings(), "versions = 2").versions("any") == VersionPolicy(2)
    assert ServingRules(Settings()).versions("any") == VersionPolicy(1)


@pytest.mark.parametrize(
    "value", ['"latest"', "0", "-1", "true", "[]", "[0]", "[true]", '["1"]', "1.5", "{latest = 2}"]
)
def test_versions_that_are_none(value):
    with pytest.raises(SettingsInvalid, match="versions"):
        ServingRules(Settings(), f"versions = {value}")


def test_texts_have_slots_and_a_context():
    rules = ServingRules(Settings(slots=4), 'max_context = 1000\n[[models]]\nnames = ["acme.writer"]\nslots = 2')
    writer, other = rules.generation("acme.writer", 8192), rules.generation("acme.other", 512)
    assert (writer.slots, writer.context) == (2, 1000)
    assert (other.slots, other.context) == (4, 512)
    assert other.queue.classes == CLASSES


def test_graphs_are_changed_as_far_as_may_be_unless_told_otherwise():
    rules = ServingRules(Settings(), '[[models]]\nnames = ["acme.odd"]\noptimisation = "basic"')
    assert (rules.optimisation("acme.odd"), rules.optimisation("acme.other")) == (Optimisation.BASIC, Optimisation.ALL)


def test_nothing_widens_what_a_bundle_is_signed_for():
    rule = ServingRules(Settings(), "max_rows = 1000\nmax_delay_us = 1000").of(manifest())
    assert (rule.max_rows, rule.max_delay_s) == (4, 0.0)  # as signed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = ", "not TOML"),
        ("instances = 0", r"serving\.instances: must be an integer from 1"),
        ("instanzes = 2", r"serving\.instanzes: is not a member"),
        ("[classes.urgent]\ntarget_s = 1", r"serving\.classes\.urgent: is not a member"),
        ("[classes.batch]\ntarget_s = 0", r"classes\.batch\.target_s: must be a number from 1e-06"),
        ("[classes.batch]\nexpires_s = inf", r"classes\.batch\.expires_s: must be a number from 1e-06"),
        ("[classes.batch]\nlevel = 9", r"classes\.batch\.level: is not a member"),
        ("[classes.realtime]\nreserved = 1", r"serving\.classes: reserve 1 of 1 instances"),
        ("[weights]\na = nan", r"weights\.a: must be a number from 1e-06"),
        ("[weights]\na = 5e-324", r"weights\.a: must be a number from 1e-06"),
        ("[weights]\na = -1", r"weights\.a: must be a number from 1e-06"),
        ("[weights]\na = true", r"weights\.a: must be a number from 1e-06"),
        ("[[models]]\ninstances = 2", r"models\[0\]\.names: is missing"),
        ('optimisation = "most"', r"serving\.optimisation: must be one of none, basic, extended, all"),
        ('[[models]]\nnames = ["a"]\nthreads = 2', r"models\[0\]\.threads: is not a member"),
    ],
)
def test_a_wrong_file_says_where(text, why):
    with pytest.raises(SettingsInvalid, match=why):
        ServingRules(Settings(), text)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(SettingsInvalid, match="cannot read the serving file"):
        ServingRules.read(Settings(serving=tmp_path / "none.toml"))
    (tmp_path / "serving.toml").write_text("max_queue = 9")
    assert ServingRules.read(Settings(serving=tmp_path / "serving.toml")).of(manifest()).max_requests == 9
