"""The ensemble of the demo: its parts trained, its utility at two budgets, and its answers attacked.

Each ε has its own ledger, so that both fit into one table. Outside the demo an ensemble has one ledger for good
(`runs.ensemble.prediction`): two budgets for the same parts would be spent twice.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from reticent.core.ensemble import Ensemble
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Guarantee
from reticent.core.model import Access
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.ledger.durable import SqliteLedger
from reticent.prediction.budgets import MechanismName
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.prediction.predictor import TokenPredictor
from reticent.runs.demo.corpora import Corpora
from reticent.runs.demo.scale import DELTA, Scale
from reticent.runs.directory import RunDirectory
from reticent.runs.ensemble.comparison import Comparison, Line, compare_mechanisms
from reticent.runs.ensemble.prediction import PredictionSettings

_BATCH: Final = 50  # answers that grow together
_TOKENS: Final = 10  # of an answer in which a planted number is looked for


class PrivateAnswers:
    """A predictor seen from outside: prompts in, text out, every token charged. Temperature 1 alone.

    Draws come from the system's generator whatever source is given: a seed would make them predictable.
    """

    access: Final = Access.TEXT

    def __init__(self, predictor: TokenPredictor, name: str) -> None:
        self._predictor = predictor
        self._name = name

    @property
    def name(self) -> str:
        """For tables."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """The ensemble's."""
        return self._predictor.ensemble.fingerprint

    def complete(
        self,
        prompts: Sequence[str],
        sampling: Sampling,
        *,
        count: int,
        randomness: Randomness,  # noqa: ARG002
    ) -> list[list[str]]:
        """`count` continuations of each prompt."""
        if not sampling.is_plain:
            raise ConfigError("this mechanism was set up for temperature 1 without truncation")
        public = self._predictor.ensemble.public
        answers = []
        for context in public.encode(prompts):
            made: list[list[int]] = []
            while len(made) < count:
                made += self._batch(context, min(_BATCH, count - len(made)), sampling.max_tokens)
            answers.append(public.decode(made))
        return answers

    def _batch(self, context: Sequence[int], count: int, tokens: int) -> list[list[int]]:
        """So many answers to one context, grown side by side."""
        end = self._predictor.ensemble.public.end_token
        handles = [self._predictor.open(context) for _ in range(count)]
        made: list[list[int]] = [[] for _ in handles]
        growing = dict(zip(handles, made, strict=True))
        try:
            for _ in range(tokens):
                if not growing:
                    break
                drawn = self._predictor.step(list(growing))
                for (handle, text), token in zip(list(growing.items()), drawn, strict=True):
                    if token == end:
                        del growing[handle]
                    else:
                        text.append(token)
        finally:
            for handle in handles:
                self._predictor.close(handle)
        return made


@contextmanager
def private_answers(
    ensemble: Ensemble, run: RunDirectory, *, epsilon: float, scale: Scale
) -> Iterator[tuple[PrivateAnswers, Guarantee]]:
    """SubMix-F at (ε, δ) a part over as many tokens as the attack asks for, with a durable ledger in `run`."""
    settings = PredictionSettings(
        mechanism=MechanismName.SUBMIX_F, epsilon=epsilon, delta=DELTA, queries=scale.asked * _TOKENS
    )
    setup = settings.set_up(Layout(ensemble.rows))
    assert setup.budget is not None
    run.start("predict", config=settings.to_json(), seed=None, corpora={})
    SqliteLedger.create(run.ledger, setup.budget, accounts=ensemble.parts, identity=ensemble.fingerprint).close()
    with SqliteLedger.open(run.ledger, identity=ensemble.fingerprint) as opened:
        predictor = TokenPredictor(ensemble, setup.mechanism, ledger=opened, queries=settings.queries)
        yield PrivateAnswers(predictor, f"SubMix-F, ε = {epsilon:g}"), setup.budget.guarantee


def perplexities(
    ensemble: Ensemble, corpora: Corpora, epsilons: tuple[float, ...], *, seed: int
) -> tuple[dict[float, Line], int]:
    """Usefulness of the answers at every ε: perplexity of the utility text, within one budget; and its tokens."""
    public = ensemble.public
    end = [] if public.end_token is None else [public.end_token]
    texts = [[*tokens, *end] for tokens in public.encode(corpora.utility.texts)]
    settings = Comparison(
        mechanisms=(MechanismName.SUBMIX_F,),
        epsilons=epsilons,
        delta=DELTA,
        queries=sum(len(text) for text in texts),
        repeats=1,
    )
    lines = compare_mechanisms(ensemble, texts, settings, randomness=Randomness.seeded(seed))
    return {line.epsilon: line for line in lines if line.epsilon is not None}, settings.queries
