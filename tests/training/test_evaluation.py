"""Perplexity and top-1 accuracy against one text at a time, without padding."""

import numpy as np
import pytest

from reticent.core.corpus import Record
from reticent.core.errors import UsageError
from reticent.training.batches import TokenTexts, encode_texts
from reticent.training.evaluation import evaluate
from tests.models.tiny import plain_log_probs, plain_next, tiny_model

TEXTS = ["abc", "a much longer text, with 12 digits.", "d"]


@pytest.mark.parametrize("kind", ["gpt2", "lstm", "lora"])
@pytest.mark.parametrize("budget", [8, 4096])
def test_evaluation_equals_one_text_at_a_time(kind, budget):
    model = tiny_model(kind)
    texts = encode_texts(model, [Record(str(i), text) for i, text in enumerate(TEXTS)])
    found = evaluate(model.module, texts, token_budget=budget)
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


def test_evaluation_leaves_the_mode_as_it_was():
    model = tiny_model()
    texts = encode_texts(model, [Record("a", "abc")])
    model.module.train()
    first = evaluate(model.module, texts)
    assert model.module.training
    assert evaluate(model.module, texts) == first  # dropout was off


def test_nothing_to_evaluate_is_an_error_and_not_a_perplexity():
    with pytest.raises(UsageError):
        evaluate(tiny_model().module, TokenTexts((), (), 0, 0))
