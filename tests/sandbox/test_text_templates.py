import pytest

from sandseal_host.errors import InputRefused, ModelFailed, ModelInvalid
from sandseal_host.sandbox.text.templates import ChatTemplate


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% if true %}\n  yes\n{% endif %}\n", "  yes\n"),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"),
        ("a{% generation %}{{ name }}{% endgeneration %}b", "aÄ<b"),
        ("{{ {'name': name} | tojson }}", '{"name": "Ä<"}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ missing }}{{ bos_token }}", ""),
        ("{{ strftime_now('100%%') }}", "100%"),
    ],
)
def test_what_templates_of_language_models_use(template, text):
    assert ChatTemplate(template.encode()).render({"name": "Ä<"}) == text


@pytest.mark.parametrize(
    ("template", "error", "says"),
    [
        ("{{ raise_exception('no\x1b!') }}", InputRefused, r"refuses these messages: no\\x1b!"),
        ("{{ missing.more }}", InputRefused, "'missing' is undefined"),
        ("{{ name + 1 }}", ModelFailed, "fails: TypeError"),
        ("{{ ''.__class__.__mro__ }}", ModelFailed, "fails: SecurityError"),
    ],
)
def test_templates_that_fail(template, error, says):
    with pytest.raises(error, match=says):
        ChatTemplate(template.encode()).render({"name": "a"})


def test_a_template_with_an_error_says_where():
    with pytest.raises(ModelInvalid, match="line 2: Encountered unknown tag 'nonsense'"):
        ChatTemplate(b"a\n{% nonsense %}")
