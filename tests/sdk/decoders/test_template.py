import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sandseal_sdk.decoders.template import complete_template, merged_template

TEXTS = ("<s>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "\U0001f680", 'a"b\\c\nd')


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "template", ["  {{ bos_token }}|{{ messages }}", "{{ eos_token }}{% if bos_token %}!{% endif %}"]
)
def test_a_template_says_its_tokens_itself(text: str, template: str) -> None:
    tokens = {"bos_token": text, "eos_token": text * 2, "eot_token": "never"}
    environment = ImmutableSandboxedEnvironment()
    completed = complete_template(template, tokens)
    assert "never" not in completed
    with_tokens = environment.from_string(template).render(messages="m", **tokens)
    assert environment.from_string(completed).render(messages="m") == with_tokens


def test_one_that_names_none_stays_as_it_is() -> None:
    assert complete_template("\n{{ messages }}", {"bos_token": "<s>"}) == "\n{{ messages }}"


def test_one_for_chats_that_offer_functions() -> None:
    merged = ImmutableSandboxedEnvironment(trim_blocks=True).from_string(merged_template("a", "\nb{{ tools }}"))
    assert merged.render() == "a"
    assert merged.render(tools="t").strip() == "bt"
    assert merged_template("a", None) == "a"
