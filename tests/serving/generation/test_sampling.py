"""Sampling against a plain reference that knows one row, float64 and nothing of batches."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandseal_host.errors import ModelFailed, RequestInvalid
from sandseal_host.serving.generation.sampling import MAX_BIASED, Choice, Sampler, Sampling

VOCAB = 600  # more than two of the blocks that are added up, and no multiple of one
GREEDY = Sampling(temperature=0)

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    top_k=st.sampled_from([0, 1, 5, 599, 600, 10_000]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 1e-6, 0.0]),
    min_p=st.sampled_from([0.0, 0.05, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.7]),
    presence_penalty=st.sampled_from([0.0, 0.5, -2.0]),
    frequency_penalty=st.sampled_from([0.0, 0.4, -1.0]),
    seed=st.integers(-(2**63), 2**63),
    logit_bias=st.dictionaries(st.integers(0, VOCAB - 1), st.floats(-100, 100, width=32), max_size=4),
    logprobs=st.sampled_from([None, 0, 3, 20]),
)
tokens = st.lists(st.integers(0, VOCAB - 1), max_size=8)


def logits(seed, scale=4.0, rows=1):
    return (np.random.default_rng(seed).standard_normal((rows, VOCAB)) * scale).astype(np.float32)


def adjusted(row, sampling, prompt, answer):
    """The logits that are sampled, one token after the other."""
    row = row.astype(np.float64)
    for token in {*prompt, *answer}:
        factor = sampling.repetition_penalty
        row[token] = row[token] / factor if row[token] > 0 else row[token] * factor
        count = answer.count(token)
        row[token] -= sampling.presence_penalty * (count > 0) + sampling.frequency_penalty * count
    for token, bias in sampling.logit_bias.items():
        row[token] += bias
    return row


def probabilities(row, sampling):
    """What a row's draws should follow."""
    p = np.exp((row - row.max()) / sampling.temperature)
    if 0 < sampling.top_k < p.size:
        p[p < np.sort(p)[-sampling.top_k]] = 0
    order = np.argsort(-p, kind="stable")
    sums = np.cumsum(p[order])
    nucleus = order[: int(np.searchsorted(sums, sampling.top_p * sums[-1])) + 1]
    if sampling.top_p < 1:
        p[p < p[nucleus].min()] = 0
    p[p < sampling.min_p] = 0
    return p / p.sum()


def choose(row, sampling, prompt=(), steps=1):
    """The choices for a row alone, whose logits stay the same."""
    sampler = Sampler(VOCAB)
    its = sampler.row(sampling, prompt)
    return [sampler.sample(row[None].copy(), [its])[0] for _ in range(steps)]


@given(samplings, tokens, st.integers(0, 100))
def test_only_tokens_that_stay_are_drawn(sampling, prompt, seed):
    row = logits(seed)[0]
    answer = []
    for choice in choose(row, sampling, prompt, steps=4):
        wanted = adjusted(row, sampling, prompt, answer)
        if sampling.temperature == 0:
            assert wanted[choice.token] >= wanted.max() - 1e-4
        else:  # sums of floats end a little earlier or later, so neighbours of the last token are let pass
            loose = replace(sampling, top_p=min(1.0, sampling.top_p + 1e-5), min_p=sampling.min_p * (1 - 1e-4))
            assert probabilities(wanted, loose)[choice.token] > 0
        answer.append(choice.token)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.7),
        Sampling(top_k=10),
        Sampling(top_p=0.6),
        Sampling(min_p=0.1),
        Sampling(temperature=1.5, top_k=50, top_p=0.8, min_p=0.02, logit_bias={3: 5.0, 599: 4.0}),
    ],
)
def test_draws_follow_the_probabilities(sampling):
    row, count = logits(7, scale=2.0)[0], 4000
    sampler = Sampler(VOCAB)
    rows = [sampler.row(replace(sampling, seed=seed)) for seed in range(count)]
    drawn = [choice.token for choice in sampler.sample(np.repeat(row[None], count, axis=0), rows)]
    wanted = probabilities(adjusted(row, sampling, [], []), sampling)
    found = np.bincount(drawn, minlength=VOCAB) / count
    assert np.abs(found - wanted).sum() < 3 * math.sqrt((wanted > 0).sum() / count)  # several standard deviations
    assert not found[wanted == 0].any()


@given(st.lists(st.tuples(samplings, tokens), min_size=1, max_size=6), st.integers(0, 100))
def test_a_row_gets_what_it_gets_alone(rows, seed):
    batch = logits(seed, rows=len(rows))
    sampler = Sampler(VOCAB)
    together = [sampler.row(sampling, prompt) for sampling, prompt in rows]
    alone = [choose(its, sampling, prompt, steps=3) for its, (sampling, prompt) in zip(batch, rows, strict=True)]
    for step in range(3):
        found = sampler.sample(batch.copy(), together)
        assert found == [choices[step] for choices in alone]


def test_a_seed_gives_the_same_draws_on_every_machine():
    row = Sampler(VOCAB).row(Sampling(seed=42))
    assert [row.draw() for _ in range(3)] == [0.8201981478608876, 0.18924562408645496, 0.8676608148821462]
    assert choose(logits(1)[0], Sampling(seed=42), steps=5) != choose(logits(1)[0], Sampling(seed=43), steps=5)


def test_without_a_seed_draws_differ():
    assert choose(np.zeros(VOCAB, np.float32), Sampling(), steps=4) != choose(
        np.zeros(VOCAB, np.float32), Sampling(), steps=4
    )


def test_masked_tokens_are_never_drawn():
    row = np.full(VOCAB, -np.inf, np.float32)
    row[[2, 300, 599]] = 0.0
    found = {choice.token for choice in choose(row, Sampling(temperature=5.0, seed=1), steps=60)}
    assert found == {2, 300, 599}


@pytest.mark.parametrize("bad", [np.full(VOCAB, -np.inf, np.float32), np.full(VOCAB, np.nan, np.float32)])
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(seed=0, top_p=0.9, logprobs=2)])
def test_a_row_without_a_token_fails_alone(bad, sampling):
    sampler = Sampler(VOCAB)
    batch = np.stack([bad, logits(0)[0]])
    with np.errstate(all="ignore"):
        failed, good = sampler.sample(batch, [sampler.row(sampling), sampler.row(sampling)])
    assert isinstance(failed, ModelFailed)
    assert "look at the graph or its plugin" in failed.hint
    assert isinstance(good, Choice)


@given(st.integers(0, 50), st.sampled_from([0, 1, 5, 20]))
def test_logprobs_are_of_the_logits_as_they_came(seed, count):
    row = logits(seed)[0]
    sampling = Sampling(temperature=0.5, seed=seed, logprobs=count, logit_bias={7: 50.0}, frequency_penalty=1.0)
    (choice,) = choose(row, sampling)
    wanted = row.astype(np.float64) - np.log(np.exp(row.astype(np.float64)).sum())
    assert choice.logprob.token == choice.token == 7
    assert choice.logprob.logprob == pytest.approx(wanted[7], abs=1e-4)
    assert [token for token, _ in choice.logprob.top] == np.argsort(-wanted, kind="stable")[:count].tolist()
    assert [value for _, value in choice.logprob.top] == pytest.approx(np.sort(wanted)[::-1][:count], abs=1e-4)


def test_counts_of_long_answers():
    row = np.zeros(VOCAB, np.float32)
    found = [choice.token for choice in choose(row, replace(GREEDY, frequency_penalty=1.0), steps=2 * VOCAB)]
    assert found == [*range(VOCAB), *range(VOCAB)]


@pytest.mark.parametrize(
    ("sampling", "says"),
    [
        (Sampling(temperature=-1), "temperature is -1, and must be 0 or more"),
        (Sampling(temperature=math.nan), "must be finite"),
        (Sampling(top_k=-1), "top_k is -1"),
        (Sampling(top_p=1.5), "top_p is 1.5"),
        (Sampling(min_p=1.5), "min_p is 1.5"),
        (Sampling(repetition_penalty=0), "repetition_penalty is 0"),
        (Sampling(presence_penalty=math.inf), "must be finite"),
        (Sampling(logprobs=21), "logprobs is 21, and must be from 0 to 20"),
        (Sampling(logit_bias={VOCAB: 1.0}), "names token 600, and the model has tokens 0 to 599"),
        (Sampling(logit_bias={3: math.nan}), "must be finite"),
        (Sampling(logit_bias=dict.fromkeys(range(MAX_BIASED + 1), 0.0)), "over 1024"),
    ],
)
def test_values_without_meaning_are_refused(sampling, says):
    with pytest.raises(RequestInvalid, match=says):
        Sampler(10_000 if "1024" in says else VOCAB).row(sampling)
