"""Answers to the same prompts by every mechanism of a comparison, side by side: what a private answer reads like.

Drawn from a seed and charged on budgets in memory, which are spread over the query budget as in service. The
non-private ensemble may repeat private text: answers are for the operator, and shown where they are asked for.
"""

from dataclasses import dataclass
from typing import Any

from reticent.core.ensemble import Ensemble
from reticent.core.model import Tokens
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.prediction.budgets import MechanismName, Setup
from reticent.prediction.predictor import Predictor
from reticent.prediction.tally import Tally
from reticent.runs.ensemble.comparison import Comparison, Rival, cases_of, set_up_case
from reticent.runs.ensemble.settings import EvaluateSettings


@dataclass(frozen=True, slots=True)
class Sample:
    """One mechanism's answers to one prompt; `epsilon` is None where it has none."""

    prompt: str
    mechanism: MechanismName
    epsilon: float | None
    answers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "prompt": self.prompt,
            "mechanism": self.mechanism.value,
            "epsilon": self.epsilon,
            "answers": list(self.answers),
        }


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
            made = _generate(ensemble, setup, prompt, settings, horizon=comparison.answers, randomness=source)
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
    horizon: int,
    randomness: Randomness,
) -> list[list[int]]:
    ledger = None if setup.budget is None else Tally(setup.budget, ensemble.parts)
    predictor = Predictor(ensemble, setup.mechanism, ledger=ledger, horizon=horizon, randomness=randomness)
    return [predictor.generate(prompt, settings.max_tokens) for _ in range(settings.samples)]
