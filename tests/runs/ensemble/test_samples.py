"""How good sampled answers are: by a judge whose chances are known, and by the words that a good answer has."""

import math

import numpy as np
import pytest

from reticent.core.errors import ConfigError
from reticent.prediction.budgets import MechanismName
from reticent.runs.ensemble.samples import Sample, count_as_asked, judge, judged_perplexity
from reticent.runs.ensemble.settings import EvaluateSettings

SURE = 0.5  # the chance of every letter but "?"
PROMPT = "SYS:?"


class Letters:
    """A judge whose tokens are letters: "?" has a chance of 1/8, any other letter 1/2, whatever stands before."""

    def __init__(self, context_length=None):
        self.context_length = context_length

    def encode(self, texts):
        return [[ord(letter) for letter in text] for text in texts]

    def token_log_probs(self, sequences):
        return [np.log([0.125 if token == ord("?") else SURE for token in row]) for row in sequences]


def sample(*answers, prompt=PROMPT):
    return Sample(prompt, MechanismName.PUBLIC, None, answers)


def test_the_judge_reads_answers_and_not_their_prompts():
    assert judged_perplexity(Letters(), ["abcd", "ab"], prompt=PROMPT) == pytest.approx(1.0 / SURE)
    assert judged_perplexity(Letters(), ["ab", "??"], prompt=PROMPT) == pytest.approx(4.0)  # √(2·8), token by token
    (rated,) = judge([sample("abcd", "", "??")], Letters())
    assert rated.judged == pytest.approx(math.exp((4 * math.log(2) + 2 * math.log(8)) / 6))
    assert rated.to_json()["judged"] == rated.judged


def test_what_the_judge_cannot_read_is_left_out_and_nothing_at_all_is_no_number():
    assert judged_perplexity(Letters(len(PROMPT) + 3), ["ab?????"], prompt=PROMPT) == pytest.approx(2.0)
    assert judged_perplexity(Letters(len(PROMPT)), ["abc"], prompt=PROMPT) is None
    assert judged_perplexity(Letters(), ["", ""], prompt=PROMPT) is None
    assert judged_perplexity(Letters(), []) is None


def test_answers_are_as_asked_where_their_first_line_says_so():
    good = " May I have your full Name?\nUSR: Ann"
    late = " Hello.\nSYS: Your name please."
    rated, other = count_as_asked(
        [sample(good, late, ""), sample(good, prompt="b")], {PROMPT: "full name|order", "b": "order"}
    )
    assert (rated.as_asked, other.as_asked) == (1, 0)
    assert rated.to_json()["as_asked"] == 1


def asked(**options):
    return EvaluateSettings.of(run="run", data="held.jsonl", **options)


def test_a_pattern_is_for_all_prompts_or_one_for_each():
    prompts = ("a", "b")
    assert asked(samples=1, prompt=prompts, expect=("x",)).expected == {"a": "x", "b": "x"}
    assert asked(samples=1, prompt=prompts, expect=("x", "y")).expected == {"a": "x", "b": "y"}
    assert asked(samples=1, expect=("x",)).expected == {"": "x"}
    assert asked(samples=1, prompt=prompts).expected == {}
    with pytest.raises(ConfigError, match="once for each --prompt"):
        asked(samples=1, prompt=prompts, expect=("x", "y", "z"))
    with pytest.raises(ConfigError, match="no regular expression"):
        asked(samples=1, expect=("(",))
    for alone in ({"judge": "embedded"}, {"expect": ("x",)}):
        with pytest.raises(ConfigError, match="answers of --samples"):
            asked(**alone)
