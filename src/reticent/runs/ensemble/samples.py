"""Answers to the same prompts by every mechanism of a comparison, side by side: what a private answer reads like.

Drawn from a seed and charged on budgets in memory, which are spread over the query budget as in service. The
non-private ensemble may repeat private text: answers are for the operator, and shown where they are asked for.

Two numbers say how good they are, where they are asked for:

    judged    perplexity of the answers, each after its prompt, by another model that has learnt text of this kind.
              Held-out text is judged beside them: an answer that says the same all the time has a low one too
    as asked  how many answers have, in their first line, what a good one says: the words that ask for the next fact
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reticent.core.document import JsonObject
from reticent.core.ensemble import Ensemble
from reticent.core.model import LanguageModel, Tokens
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.prediction.budgets import MechanismName, Setup
from reticent.prediction.memory_ledger import MemoryLedger
from reticent.prediction.predictor import TokenPredictor
from reticent.runs.ensemble.comparison import Comparison, Rival, cases_of, set_up_case
from reticent.runs.ensemble.settings import EvaluateSettings

_LARGEST = 700.0  # nats whose exponential is a float


@dataclass(frozen=True, slots=True)
class Sample(JsonObject):
    """One mechanism's answers to one prompt; `epsilon` is None where it has none, the others where nobody asked."""

    prompt: str
    mechanism: MechanismName
    epsilon: float | None
    answers: tuple[str, ...]
    judged: float | None = None  # perplexity by the judge
    as_asked: int | None = None  # answers whose first line has what was expected


def sample_answers(
    ensemble: Ensemble,
    comparison: Comparison,
    settings: EvaluateSettings,
    *,
    rival: Rival | None,
    randomness: Randomness,
) -> tuple[Sample, ...]:
    """Answers to each prompt by every mechanism, then by the rival; none where none were asked for."""
    public = ensemble.public
    if not settings.samples:
        return ()
    texts = settings.prompt or ("",)
    prompts = dict(zip(texts, public.encode(texts), strict=True))
    found = []
    for kind, epsilon in cases_of(comparison):
        setup = set_up_case(kind, epsilon, comparison, ensemble)
        for text, prompt in prompts.items():
            source = randomness.child(f"{kind} {epsilon} {text}")
            made = _generate(ensemble, setup, prompt, settings, queries=comparison.queries, randomness=source)
            found.append(Sample(text, kind, epsilon, tuple(public.decode(made))))
    if rival is not None:
        sampling = Sampling(max_tokens=settings.max_tokens, temperature=settings.temperature)
        for text, prompt in prompts.items():
            source = randomness.child(f"{MechanismName.DP_SGD} {text}")
            (made,) = rival.model.generate([prompt], sampling, count=settings.samples, randomness=source)
            found.append(Sample(text, MechanismName.DP_SGD, rival.guarantee.epsilon, tuple(public.decode(made))))
    return tuple(found)


def _generate(
    ensemble: Ensemble,
    setup: Setup,
    prompt: Tokens,
    settings: EvaluateSettings,
    *,
    queries: int,
    randomness: Randomness,
) -> list[list[int]]:
    ledger = None if setup.budget is None else MemoryLedger(setup.budget, ensemble.parts)
    predictor = TokenPredictor(ensemble, setup.mechanism, ledger=ledger, queries=queries, randomness=randomness)
    return [predictor.generate(prompt, settings.max_tokens) for _ in range(settings.samples)]


def judge(samples: Sequence[Sample], model: LanguageModel) -> tuple[Sample, ...]:
    """The samples, each with the perplexity of its answers by a model that wrote none of them."""
    return tuple(
        replace(sample, judged=judged_perplexity(model, sample.answers, prompt=sample.prompt)) for sample in samples
    )


def judged_perplexity(model: LanguageModel, texts: Sequence[str], *, prompt: str = "") -> float | None:
    """Perplexity of texts that follow a prompt, in the judge's own tokens; None where there is nothing to read.

    What the judge has no room for is left out. The prompt's own loss is taken off, so a token that prompt and text
    share counts with the text.
    """
    room = None if model.context_length is None else model.context_length - 1
    (before, *wholes) = (tokens[:room] for tokens in model.encode([prompt, *(prompt + text for text in texts)]))
    counts = [max(0, len(whole) - len(before)) for whole in wholes]
    if not sum(counts):
        return None
    start, *losses = (-float(row.sum()) for row in model.token_log_probs([before, *wholes]))
    mean = sum(loss - start for loss, count in zip(losses, counts, strict=True) if count) / sum(counts)
    return math.exp(mean) if mean < _LARGEST else math.inf


def count_as_asked(samples: Sequence[Sample], expected: Mapping[str, str]) -> tuple[Sample, ...]:
    """The samples, each with how many first lines hold the pattern that is expected after its prompt."""
    return tuple(
        replace(
            sample,
            as_asked=sum(
                re.search(expected[sample.prompt], answer.strip().split("\n")[0], re.IGNORECASE) is not None
                for answer in sample.answers
            ),
        )
        for sample in samples
    )
