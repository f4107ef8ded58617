from dataclasses import dataclass

from sandseal_host.serving.generation.prefixes import PrefixCache


@dataclass
class Copy:
    """A copy of keys and values, a byte a position."""

    length: int

    @property
    def nbytes(self) -> int:
        return self.length

    def first(self, length: int) -> "Copy":
        return Copy(length)


def ids(*runs: tuple[int, int]) -> list[int]:
    """So many of each token."""
    return [token for token, count in runs for _ in range(count)]


def test_as_much_is_found_as_two_prompts_have_in_common_and_never_all():
    cache = PrefixCache()
    cache.add("a", ids((1, 40), (2, 10)), Copy(50))
    assert cache.find("a", ids((1, 40), (3, 5))).length == 40
    assert cache.find("a", ids((1, 40), (2, 10))).length == 49
    assert cache.find("a", ids((1, 20))).length == 19
    assert cache.find("a", ids((1, 15), (4, 9))) is None  # less than a copy is worth
    assert cache.counts().tokens_total == 40 + 49 + 19


def test_nothing_is_found_of_another_tenant():
    cache = PrefixCache()
    cache.add("a", ids((1, 40)), Copy(40))
    assert cache.find("b", ids((1, 40))) is None
    assert cache.wants("b", ids((1, 40)))
    assert not cache.wants("a", ids((1, 40), (2, 15)))


def test_a_longer_prompt_takes_the_place_of_those_that_it_begins_with():
    cache = PrefixCache()
    cache.add("a", ids((1, 30)), Copy(30))
    cache.add("a", ids((1, 30), (2, 30)), Copy(60))
    cache.add("a", ids((3, 30)), Copy(30))
    counts = cache.counts()
    assert (counts.prompts, counts.nbytes) == (2, 90)


def test_what_was_not_used_for_longest_goes_first():
    cache = PrefixCache()
    for token, tenant in ((1, "a"), (2, "b"), (3, "a")):
        cache.add(tenant, ids((token, 30)), Copy(30))
    cache.find("a", ids((1, 30)))
    cache.shrink(60)
    assert cache.find("b", ids((2, 30))) is None
    assert cache.find("a", ids((1, 30))).length == 29
    cache.shrink(0)
    assert cache.counts().nbytes == cache.counts().prompts == 0


def test_a_tenant_has_a_bounded_number_of_prompts():
    cache = PrefixCache()
    for token in range(100):
        cache.add("a", ids((token, 20)), Copy(20))
    assert cache.counts().prompts == 64
    assert cache.find("a", ids((99, 20))).length == 19
    assert cache.find("a", ids((0, 20))) is None
