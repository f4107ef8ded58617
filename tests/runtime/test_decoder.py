import numpy as np
import pytest
from onnx import helper, load_model_from_string

from sandseal_host.errors import ModelFailed, ModelInvalid, NotReady
from sandseal_host.runtime.decoder import Decoder
from sandseal_host.runtime.decoder_signature import DecoderSignature
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.model_files import ModelFiles
from support import onnx_models
from support.decoders import CONTEXT, VOCAB, decoder, opened
from support.staged_device import staged

FORMS = [
    pytest.param({}, id="seqlens"),
    pytest.param({"masked": True}, id="mask"),
    pytest.param({"half": True}, id="half"),
]
PLACES = [pytest.param(Device.parse("cpu"), id="cpu"), pytest.param(staged(), id="staged")]


@pytest.fixture(params=FORMS)
def model(request):
    return decoder(**request.param)


@pytest.fixture(params=PLACES)
def decoding(request, model):
    with opened(model, request.param, slots=4) as opening:
        yield opening


def ids_of(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, count).tolist()


def fresh(model, ids: list[int]) -> np.ndarray:
    """The logits behind these tokens, of a decoder that has run nothing else."""
    with opened(model, slots=1) as alone:
        return alone.prefill(0, ids, 0).copy()


def test_a_prompt_gives_the_same_logits_in_chunks_as_at_once(decoding, model):
    ids = ids_of(40)
    for start, stop in ((0, 7), (7, 8), (8, 33), (33, 40)):
        logits = decoding.prefill(2, ids[start:stop], start)
    np.testing.assert_allclose(logits, fresh(model, ids), atol=2e-2)


def test_each_row_of_a_ragged_batch_has_the_logits_that_it_has_alone(decoding, model):
    prompts = [ids_of(length, length) for length in (3, 40, 1)]
    for slot, prompt in enumerate(prompts):
        decoding.prefill(slot, prompt, 0)
    for step in range(3):
        rows = decoding.decode([step, step, step], [len(prompt) for prompt in prompts])
        prompts = [[*prompt, step] for prompt in prompts]
        for row, prompt in zip(rows, prompts, strict=True):
            np.testing.assert_allclose(row, fresh(model, prompt), atol=2e-2)


def test_a_row_that_does_not_get_on_loses_nothing(decoding, model):
    first, second = ids_of(5, 1), ids_of(9, 2)
    decoding.prefill(0, first, 0)
    decoding.prefill(1, second, 0)
    decoding.decode([17, 0], [5, 9])  # the second is held: any token, its true length
    rows = decoding.decode([18, 19], [6, 9])
    np.testing.assert_allclose(rows[0], fresh(model, [*first, 17, 18]), atol=2e-2)
    np.testing.assert_allclose(rows[1], fresh(model, [*second, 19]), atol=2e-2)


def test_a_sequence_goes_on_in_another_slot(decoding, model):
    ids = ids_of(11)
    decoding.prefill(3, ids, 0)
    decoding.move(3, 0, 11)
    decoding.prefill(3, ids_of(20, 5), 0)
    np.testing.assert_allclose(decoding.decode([4], [11])[0], fresh(model, [*ids, 4]), atol=2e-2)


def test_a_sequence_goes_on_from_a_copy_and_from_its_beginning(decoding, model):
    ids = ids_of(11)
    decoding.prefill(1, ids, 0)
    kv = decoding.save(1, 11)
    assert (kv.length, kv.nbytes) == (11, decoding.slot_bytes * 11 // CONTEXT)
    decoding.prefill(1, ids_of(30, 9), 0)
    decoding.restore(0, kv)
    np.testing.assert_allclose(decoding.decode([4], [11])[0], fresh(model, [*ids, 4]), atol=2e-2)
    decoding.restore(2, kv.first(6))
    np.testing.assert_allclose(decoding.prefill(2, [1, 2], 6), fresh(model, [*ids[:6], 1, 2]), atol=2e-2)


def test_the_last_position_of_a_context_is_used(model):
    ids = ids_of(16)
    with opened(model, slots=1, context=16) as small:
        small.prefill(0, ids[:15], 0)
        np.testing.assert_allclose(small.decode([ids[15]], [15])[0], fresh(model, ids), atol=2e-2)


def test_f32_batches_equal_single_rows_to_the_last_bit():
    model, prompts = decoder(), [ids_of(length, length) for length in (3, 40, 1, 12)]
    with opened(model, slots=4) as batched:
        for slot, prompt in enumerate(prompts):
            batched.prefill(slot, prompt, 0)
        rows = batched.decode([5] * 4, [len(prompt) for prompt in prompts]).copy()
        for row, prompt in zip(rows, prompts, strict=True):
            batched.prefill(0, prompt, 0)
            assert np.array_equal(batched.decode([5], [len(prompt)])[0], row)


def test_its_figures_are_those_of_its_slots(decoding):
    decoding.prefill(0, [1, 2, 3], 0)
    decoding.decode([1], [3])
    statistics = decoding.statistics()
    assert statistics.buffer_bytes == 4 * decoding.slot_bytes == 4 * statistics.slot_bytes
    assert (statistics.prefills_total, statistics.decodes_total) == (1, 1)
    assert statistics.tokens_total == 3 + 3 + 1  # three of the warm-up


def test_an_id_that_is_no_token_fails_its_run_and_no_other(decoding, model):
    with pytest.raises(ModelFailed):
        decoding.prefill(0, [VOCAB], 0)
    np.testing.assert_allclose(decoding.prefill(0, [3], 0), fresh(model, [3]), atol=2e-2)


def test_a_closed_decoder_says_so():
    with opened(decoder()) as closed:
        pass
    assert closed.closed
    with pytest.raises(NotReady, match="closed"):
        closed.prefill(0, [1], 0)
    assert closed.statistics().buffer_bytes == 0


def test_what_is_no_decoder_is_refused():
    model = onnx_models.mlp()
    with pytest.raises(ModelInvalid, match="no decoder of a known form"):
        DecoderSignature.read(model.spec, model.data)


def test_a_decoder_that_copies_its_past_is_refused():
    model = decoder()
    proto = load_model_from_string(model.data)
    for node in proto.graph.node:
        if node.op_type == "GroupQueryAttention":
            node.op_type, node.domain = "SomethingElse", ""
    with pytest.raises(ModelInvalid, match="would copy all keys and values"):
        DecoderSignature.read(model.spec, proto.SerializeToString())


def test_a_decoder_that_writes_elsewhere_is_refused():
    model = decoder()
    proto = load_model_from_string(model.data)
    for node in proto.graph.node:
        if node.op_type == "GroupQueryAttention":
            node.output[1:] = [f"{name}.made" for name in node.output[1:]]
    layers = [name for name in (o.name for o in proto.graph.output) if name.startswith("present")]
    zero = helper.make_node("Sub", ["past_key_values.0.key", "past_key_values.0.key"], ["nothing"])
    proto.graph.node.append(zero)
    proto.graph.node.extend(helper.make_node("Identity", ["nothing"], [name]) for name in layers)
    with pytest.raises(ModelInvalid, match="does not write keys and values"):
        Decoder.open(ModelFiles(model.spec, proto.SerializeToString()), Device.parse("cpu"), slots=1, context=8)


@pytest.mark.parametrize("masked", [False, True])
def test_a_decoder_of_fewer_positions_than_promised_is_refused(masked):
    with pytest.raises(ModelInvalid, match=f"does not run {CONTEXT + 1} positions: .*cos_cache") as caught:
        opened(decoder(masked=masked), context=CONTEXT + 1)
    assert "lower generation.context" in caught.value.hint


def test_its_threads_wait_awake_for_each_other_and_rest_between_runs(model):
    with opened(model, slots=1) as alone:
        options = alone._core.session_options
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == "1"
        assert options.get_session_config_entry("session.force_spinning_stop") == "1"
