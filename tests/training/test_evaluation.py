"""Perplexity and top-1 accuracy against one text at a time, without padding."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from reticent.core.corpus import Record, Span
from reticent.core.errors import UsageError
from reticent.core.statistics.estimate import mean_per_token
from reticent.training.batches import TokenTexts, encode_texts
from reticent.training.evaluation import Evaluation, evaluate_model, outside_spans
from reticent.training.methods.mask_token import keep_mask_unsaid, with_mask_token
from tests.models.tiny import plain_log_probs, plain_next, tiny_model

TEXTS = ["abc", "a much longer text, with 12 digits.", "d"]


@pytest.mark.parametrize("kind", ["gpt2", "lstm", "lora"])
@pytest.mark.parametrize("budget", [8, 4096])
def test_evaluation_equals_one_text_at_a_time(kind, budget):
    model = tiny_model(kind)
    texts = encode_texts(model, [Record(str(i), text) for i, text in enumerate(TEXTS)])
    found = evaluate_model(model.module, texts, token_budget=budget)
    sequences = [[*tokens, model.end_token] for tokens in model.encode(TEXTS)]
    scores = np.concatenate([plain_log_probs(model.module, model.start_token, tokens) for tokens in sequences])
    hits = [
        int(np.argmax(plain_next(model.module, model.start_token, tokens[:place])) == token)
        for tokens in sequences
        for place, token in enumerate(tokens)
    ]
    assert found.tokens == len(scores) == sum(len(text) + 1 for text in TEXTS)
    assert found.texts == 3
    assert found.perplexity == pytest.approx(np.exp(-scores.mean()), rel=1e-4)
    assert found.top1 == pytest.approx(np.mean(hits))
    sums = [-plain_log_probs(model.module, model.start_token, tokens).sum() for tokens in sequences]
    loss = mean_per_token(sums, [len(tokens) for tokens in sequences])
    low, high = found.perplexity_interval
    assert low == pytest.approx(max(1.0, np.exp(loss.low)), rel=1e-3)
    assert high == pytest.approx(np.exp(loss.high), rel=1e-3)
    assert 0.0 <= found.top1_interval[0] <= found.top1 <= found.top1_interval[1] <= 1.0
    assert Evaluation.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize("budget", [8, 4096])
def test_outside_secrets_each_token_is_predicted_after_all_that_stands_before_it(budget):
    model = tiny_model("gpt2")
    texts = encode_texts(model, [Record(str(i), text) for i, text in enumerate(TEXTS)])
    places = model.token_places(TEXTS)
    assert [TEXTS[1][start:end] for start, end in places[1]] == list(TEXTS[1])  # one token a character
    flags = outside_spans(places, [(), (Span(2, 6, "X"), Span(26, 28, "N")), (Span(0, 1, "X"),)])
    flags = [np.append(each, True) for each in flags]
    found = evaluate_model(model.module, texts, token_budget=budget, outside=flags)
    assert evaluate_model(model.module, texts, token_budget=budget) == replace(found, outside=None)
    sequences = [[*tokens, model.end_token] for tokens in model.encode(TEXTS)]
    scores = [plain_log_probs(model.module, model.start_token, tokens) for tokens in sequences]
    kept = np.concatenate([score[each] for score, each in zip(scores, flags, strict=True)])
    assert found.outside.tokens == len(kept) == found.tokens - 7
    assert found.outside.perplexity == pytest.approx(np.exp(-kept.mean()), rel=1e-4)
    assert found.outside.perplexity != pytest.approx(found.perplexity, rel=1e-4)
    assert Evaluation.from_json(json.loads(json.dumps(found.to_json()))) == found
    nothing = [np.zeros_like(each) for each in flags]
    assert evaluate_model(model.module, texts, outside=nothing).outside is None


def test_evaluation_leaves_the_mode_as_it_was():
    model = tiny_model()
    texts = encode_texts(model, [Record("a", "abc")])
    model.module.train()
    first = evaluate_model(model.module, texts)
    assert model.module.training
    assert evaluate_model(model.module, texts) == first  # dropout was off


def test_one_text_has_an_interval_that_says_nothing():
    model = tiny_model()
    found = evaluate_model(model.module, encode_texts(model, [Record("a", "abc")]))
    assert (found.perplexity_interval, found.top1_interval) == ((1.0, math.inf), (0.0, 1.0))
    assert Evaluation.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_nothing_to_evaluate_is_an_error_and_not_a_perplexity():
    with pytest.raises(UsageError):
        evaluate_model(tiny_model().module, TokenTexts((), (), 0, 0))


def test_a_token_that_is_never_said_leaves_its_share_to_the_others():
    model = tiny_model()
    texts = encode_texts(model, [Record("a", "abc")])
    (silent,) = model.encode(["z"])[0]
    sequence = [*model.encode(["abc"])[0], model.end_token]
    expected = 0.0
    for place, token in enumerate(sequence):
        scores = plain_next(model.module, model.start_token, sequence[:place])
        expected -= scores[token] - np.log1p(-np.exp(scores[silent]))
    found = evaluate_model(model.module, texts, silent=[silent])
    assert found.perplexity == pytest.approx(np.exp(expected / len(sequence)), rel=1e-5)


def test_text_that_holds_a_token_never_said_is_refused():
    model = tiny_model()
    with pytest.raises(UsageError, match="never says"):
        evaluate_model(model.module, encode_texts(model, [Record("a", "abc")]), silent=model.encode(["b"])[0])


def test_the_mask_is_kept_from_being_said_by_transformers_itself():
    model = with_mask_token(tiny_model())
    (token,) = keep_mask_unsaid(model)
    head = model.module.get_output_embeddings()
    rows = torch.full_like(head.weight, 0.0)
    head.weight.data.copy_(rows)
    head.weight.data[token] = 10.0  # would be said at every step where the state is positive
    inputs = torch.tensor([[model.start_token]])
    said = model.module.generate(inputs, max_new_tokens=8, do_sample=True, pad_token_id=0)
    assert token not in said[0, 1:].tolist()
    assert keep_mask_unsaid(tiny_model()) == ()
