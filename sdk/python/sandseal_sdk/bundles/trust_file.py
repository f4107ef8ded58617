"""Changing a trust file's text so that comments and layout stay; what comes out is parsed and compared."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sandseal_signing.errors import PolicyInvalid
from sandseal_signing.trust import Rule, TrustedKey, TrustPolicy

_SERIAL = re.compile(r"^(\s*serial\s*=\s*)\d+", re.MULTILINE)
_TABLE = re.compile(r"^\s*\[", re.MULTILINE)
_RULE = re.compile(r"^\s*\[\[\s*rules\s*\]\]", re.MULTILINE)
_KEYS = re.compile(r"^(\s*keys\s*=\s*\[)([^\]]*)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A key that comes into a trust file.

    Args:
        key: with its name, holder and end.
        rules: numbers of the rules, from 0, that name it from now on.
        models: patterns of a rule of its own, at the end; none when empty.
    """

    key: TrustedKey
    rules: Sequence[int] = ()
    models: tuple[str, ...] = ()


def enrol(text: str, read_key: Callable[[str], str], new: Enrolment) -> str:
    """The trust file's text with a key added and the serial raised by one.

    Args:
        text: of a valid trust file.
        read_key: see `TrustPolicy.parse`.

    Raises:
        PolicyInvalid: the text, or what it would become, is no policy; or only people can edit it as it is laid out.
    """
    before = TrustPolicy.parse(text, read_key)
    if new.key.name in before.keys:
        raise PolicyInvalid(f"a key called {new.key.name!r} is enrolled already", hint="give the new one another name")
    for number in new.rules:
        if not 0 <= number < len(before.rules):
            raise PolicyInvalid(f"there is no rule {number}: the file has {len(before.rules)}")
    edited = _SERIAL.sub(lambda found: f"{found[1]}{before.serial + 1}", text, count=1)
    for number in new.rules:
        edited = _into_rule(edited, number, new.key.name)
    edited = f"{edited.rstrip()}\n\n{_key_table(new.key)}"
    if new.models:
        edited += f"\n[[rules]]\nmodels = {json.dumps(list(new.models))}\nkeys = {json.dumps([new.key.name])}\n"
    if TrustPolicy.parse(edited, read_key) != _expected(before, new):
        raise _by_hand("its layout")
    return edited


def _expected(before: TrustPolicy, new: Enrolment) -> TrustPolicy:
    name = new.key.name
    rules = [
        replace(rule, keys=(*rule.keys, name)) if number in new.rules else rule
        for number, rule in enumerate(before.rules)
    ]
    if new.models:
        rules.append(Rule(new.models, (name,)))
    return replace(before, serial=before.serial + 1, keys={**before.keys, name: new.key}, rules=tuple(rules))


def _into_rule(text: str, number: int, name: str) -> str:
    headers = list(_RULE.finditer(text))
    if number >= len(headers):
        raise _by_hand(f"rule {number}")
    start = headers[number].end()
    following = _TABLE.search(text, start)
    end = following.start() if following else len(text)
    section, count = _KEYS.subn(lambda found: _with_name(found, name), text[start:end], count=1)
    if not count:
        raise _by_hand(f"rule {number}")
    return text[:start] + section + text[end:]


def _with_name(found: "re.Match[str]", name: str) -> str:
    listed = found[2].rstrip()
    comma = "" if not listed or listed.endswith(",") else ", "
    return f"{found[1]}{listed}{comma}{json.dumps(name)}]"


def _key_table(key: TrustedKey) -> str:
    inline = key.public.inline
    public = f'"""\n{inline}"""' if "\n" in inline else json.dumps(inline)
    until = f"not_after = {key.not_after:%Y-%m-%dT%H:%M:%SZ}\n" if key.not_after else ""
    name = key.name if re.fullmatch(r"[A-Za-z0-9_-]+", key.name) else json.dumps(key.name)
    return f"[keys.{name}]\nholder = {json.dumps(key.holder)}\npublic = {public}\n{until}"


def _by_hand(what: str) -> PolicyInvalid:
    return PolicyInvalid(f"{what} is laid out in a way that this command does not edit", hint="add the key by hand")
