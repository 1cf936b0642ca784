"""The best of a random number of training runs: `reticent train --tune N --tune-score FILE`.

    K runs, K drawn from the logarithmic distribution with mean N; each draws its learning rate and its seed;
    the one with the least loss on public text is kept, the others are removed.

Every run has its own ledger and certificate, and both state from its first step on what the kept run proves
(`DpSgd.tuned_guarantee`). How many there were is written nowhere. An interrupted tuning keeps nothing, since a run
that someone looks at would be one more release; a killed one leaves a hidden folder, to be deleted unread. The
public text must share no equal text and no named owner with what is trained on.
"""

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from reticent.accounting.prices.best_of_runs import number_of_runs, rate_for
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.models.huggingface.loading import load_model
from reticent.runs.directory import RunDirectory
from reticent.runs.proofs.ancestry import Members
from reticent.runs.training.result import Observer, TrainedRun
from reticent.runs.training.run import Given, RunKind
from reticent.training.batches import encode_texts
from reticent.training.evaluation import evaluate_model
from reticent.training.plans.plan import TUNING_SHAPE

FACTORS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the learning rate, each as likely as the others


def likely_runs(mean: float, share: float) -> int:
    """A number of runs that with this chance is not passed, of those that `--tune` with this mean may take."""
    return number_of_runs(share, shape=TUNING_SHAPE, rate=rate_for(mean, TUNING_SHAPE))


def train_tuned(given: Given, kind: RunKind, observe: Observer) -> TrainedRun:
    """Train, keep the best run as the run directory that was asked for, and return it.

    Guarantee: the kept run is the best of K by a score of its weights and public text alone, K drawn as its event
    says.
    """
    tune, out = given.settings.training.tune, given.settings.required_out()
    assert tune is not None
    if given.ranks.size > 1:
        raise ConfigError("--tune trains in one process", found=f"{given.ranks.size} processes")
    require_public(given)
    runs = number_of_runs(
        float(given.randomness.uniform(1)[0]), shape=TUNING_SHAPE, rate=rate_for(tune, TUNING_SHAPE)
    )
    RunDirectory.for_new_run(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        best, least = None, math.inf
        for number in range(runs):
            found = _one(given, kind, Path(folder) / str(number) / out.name, observe)
            loss = _score(given, found)
            if best is None or loss < least:
                best, least = found, loss
        assert best is not None
        best.path.rename(out)
    return replace(best, path=out)


def require_public(given: Given) -> None:
    """Refuse to choose by text that is trained on: the price is that of a choice by public text."""
    score = given.settings.training.tune_score
    assert score is not None
    shared = Members.of(given.corpus).shared(given.settings.data.corpus(score).load())
    if shared.concerns(Unit.OWNER):
        raise ConfigError(
            "--tune-score: the best run cannot be chosen by text that is trained on",
            found=f"{shared.in_words()} in common",
            hint="choose by public text: a choice by private text gives it away",
        )


def _one(given: Given, kind: RunKind, out: Path, observe: Observer) -> TrainedRun:
    """One run, with a learning rate and a seed of its own."""
    source = given.randomness
    asked = given.settings.training
    factor = FACTORS[int(source.integers(len(FACTORS), 1)[0])]
    training = asked.model_copy(update={"learning_rate": factor * asked.learning_rate})
    settings = given.settings.model_copy(update={"training": training})
    fresh = source.fresh_seed()
    randomness = Randomness.system() if source.protects else Randomness.seeded(fresh)
    out.parent.mkdir()
    prepared = kind.begin(replace(given, settings=settings, seed=fresh, randomness=randomness))
    prepared.create(out)
    found = prepared.carry_on(RunDirectory(out), observe)
    if not found.is_finished:
        raise ConfigError("tuning was stopped: nothing of it is kept", hint="start it again")
    return found


def _score(given: Given, found: TrainedRun) -> float:
    """Mean loss on public text; nothing private is read."""
    data, asked = given.settings.data, given.settings.training
    assert asked.tune_score is not None
    model = load_model(str(found.model), device=given.settings.model.device, dtype="float32")
    texts = encode_texts(model, data.corpus(asked.tune_score), max_length=data.max_length)
    loss = math.log(evaluate_model(model.module, texts, token_budget=asked.token_budget).perplexity)
    return loss if math.isfinite(loss) else math.inf
