"""A training run from settings to a run directory, the same for one model and for an ensemble.

    train     check the settings, read the corpus, prepare; create the directory; train what is left; release
    preview   what the run would do and prove; writes nothing

The directory appears whole, with its ledger, or not at all; after that a run can be resumed from any moment. What
one model (`runs.training.model`) and an ensemble (`runs.ensemble.run`) do at each point is a `RunKind`.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from reticent.core.corpus import Corpus
from reticent.core.errors import ConfigError, DataError
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.runs.directory import RUN, RunDirectory
from reticent.runs.experiment_log import opened_log
from reticent.runs.proofs.ancestry import Ancestry, Members, ancestry_of, require_unseen
from reticent.runs.settings.file import validate
from reticent.runs.training.launch import launched
from reticent.runs.training.result import (
    Announce,
    ManyRecords,
    Observer,
    Preview,
    TrainedRun,
    unannounced,
    unobserved,
)
from reticent.runs.training.settings import Method, Resumption, TrainSettings
from reticent.training.distributed.ranks import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a run is prepared from: settings with absolute paths, corpora, seed, processes and randomness.

    Every file is read once. `held_out` and `public` are None where there are none; `trained_on` counts the texts of
    `held_out` that the corpus holds too.
    """

    settings: TrainSettings
    corpus: Corpus
    held_out: Corpus | None
    public: Corpus | None
    trained_on: int
    seed: int
    ranks: Ranks
    randomness: Randomness

    @classmethod
    def read(
        cls, settings: TrainSettings, corpus: Corpus, *, seed: int, ranks: Ranks, source: Randomness
    ) -> "Given":
        """With the other corpora that the settings name; held-out text that is all trained on is refused."""
        held_out, trained_on = settings.data.held_out(), 0
        if held_out is not None:
            trained_on = Members.of(corpus).shared(held_out).texts
            require_unseen(held_out, trained_on, path=settings.data.holdout or "")
        return cls(
            settings=settings,
            corpus=corpus,
            held_out=held_out,
            public=settings.public_corpus(),
            trained_on=trained_on,
            seed=seed,
            ranks=ranks,
            randomness=source,
        )

    def ancestry(self) -> Ancestry:
        """The trainings behind the model that private steps start from, compared with the corpus.

        Guarantee: steps on public text are one of them, a plain one: text or, where owners are protected, people
        of the corpus in it are refused, and a later run on that text is refused as well.
        """
        found = ancestry_of(self.settings.model.source)
        if self.public is not None:
            self._require_other_text(self.public)
            found = found.followed_by("the steps on public text", None, self.public)
        return found.compared_with(self.corpus)

    def _require_other_text(self, public: Corpus) -> None:
        """Refuse public text of the corpus by its own name: the starting model has not seen it."""
        shared = Members.of(self.corpus).shared(public)
        if shared.concerns(self.settings.training.protected):
            raise ConfigError(
                "--public-text holds what the corpus holds, and would be trained on without noise",
                found=f"{shared.in_words()} in common",
                hint="take them out of the public text, or out of the corpus",
            )


class Prepared(Protocol):
    """A run that was read and checked: nothing is left that could be wrong with what it was given."""

    def create(self, out: Path) -> None:
        """Write the run directory; on the first process alone."""
        ...

    def carry_on(self, run: RunDirectory, observe: Observer) -> TrainedRun:
        """Train what is left, then release it."""
        ...


class RunKind(Protocol):
    """What is trained: one model, or the members of an ensemble."""

    def preview(self, given: Given) -> Preview:
        """What the run would do and prove."""
        ...

    def begin(self, given: Given) -> Prepared:
        """A new run."""
        ...

    def resume(self, given: Given, path: Path) -> Prepared:
        """A run that was interrupted, from what it wrote at its start."""
        ...

    def finished(self, path: Path, results: dict[str, Any]) -> TrainedRun:
        """What a finished run says of itself."""
        ...


def preview(settings: TrainSettings) -> Preview:
    """The plan and the guarantee that a run would have. Reads the corpus and writes nothing."""
    settings.check()
    kind = _kind(settings)
    settings = settings.resolved()
    corpus = settings.data.load()
    settings, chosen = settings.with_choices(records=len(corpus), owners=len(corpus.owners))
    seed = settings.seed or 0
    given = Given.read(settings, corpus, seed=seed, ranks=Ranks(), source=Randomness.system())
    if settings.training.tune is not None:
        from reticent.runs.training.tuning import require_public  # loads torch, as the preview does

        require_public(given)
    owners, is_here = _many_records(settings, corpus), settings.model.is_here()
    return replace(kind.preview(given), chosen=chosen, owners=owners, model_is_here=is_here)


def _many_records(settings: TrainSettings, corpus: Corpus) -> ManyRecords | None:
    """Of owners with several records, where DP-SGD promises something about single records."""
    asked = settings.training
    if asked.method is not Method.DP_SGD or asked.protected is not Unit.RECORD:
        return None
    return ManyRecords.of(corpus.records_of_owners)


def train(
    settings: TrainSettings | Resumption,
    *,
    observe: Observer = unobserved,
    randomness: Randomness | None = None,
    announce: Announce = unannounced,
    units: int | None = None,
) -> TrainedRun:
    """Train into a new run directory (`settings.out`), or continue an interrupted run (`Resumption`).

    `observe` is called after every step and may stop the run. `randomness` other than the system's is for
    experiments, and the guarantee says so. `announce` is called before training, with what was chosen for options
    that were not given and what is known of owners with several records. `units` is how many the plan was made
    for, where the caller brought one.
    """
    with launched() as ranks:
        source = randomness or Randomness.system()
        if isinstance(settings, Resumption):
            return _resume(settings, ranks, observe=observe, randomness=source)
        settings.check()
        kind = _kind(settings)
        settings = settings.resolved()
        out = settings.required_out()
        seed = ranks.tell(Randomness.system().fresh_seed) if settings.seed is None else settings.seed
        corpus = settings.data.load()
        if units is not None:
            settings.require_units(corpus, units)
        given = Given.read(settings, corpus, seed=seed, ranks=ranks, source=source)
        settings, chosen = settings.with_choices(records=len(corpus), owners=len(corpus.owners))
        given = replace(given, settings=settings)
        owners = _many_records(settings, corpus)
        announce(chosen, owners)
        if settings.training.tune is not None:
            from reticent.runs.training.tuning import train_tuned

            return replace(train_tuned(given, kind, observe), owners=owners)
        prepared = kind.begin(given)
        ranks.first(lambda: prepared.create(out))
        return replace(_carried_on(prepared, out, settings, ranks, observe), owners=owners)


def _carried_on(
    prepared: Prepared, path: Path, asked: TrainSettings | Resumption, ranks: Ranks, observe: Observer
) -> TrainedRun:
    """Train what is left; the first process tells the tracker that was asked for."""
    place = asked.log_place if ranks.is_first else None
    with opened_log(place, path.name, with_loss=asked.log_training_loss) as log:
        result = prepared.carry_on(RunDirectory(path), log.watching(observe))
        log.trained(result)
    return result


def _resume(asked: Resumption, ranks: Ranks, *, observe: Observer, randomness: Randomness) -> TrainedRun:
    """Continue a run from its last checkpoint; a finished run is left as it is."""
    path = asked.resume
    information = ranks.tell(lambda: RunDirectory.open(path).information())
    if information["command"] != "train":
        raise ConfigError(f"{path}: not a training run", found=information["command"])
    settings = validate(TrainSettings, information["config"], where=str(path / RUN)).model_copy(
        update={"engine": asked.engine, "workers": asked.workers, "ray_address": asked.ray_address}
    )
    kind = _kind(settings)
    if information["finished"] is not None:
        return kind.finished(path, information["results"])
    corpus = settings.data.load()
    if corpus.fingerprint != information["corpora"]["training"]:
        raise DataError(
            "not the corpus that this run was started with",
            path=settings.data.file,
            hint="put the old file back, or start a new run",
        )
    given = Given.read(settings, corpus, seed=0, ranks=ranks, source=randomness)
    result = _carried_on(kind.resume(given, path), path, asked, ranks, observe)
    return replace(result, owners=_many_records(settings, corpus))


def _kind(settings: TrainSettings) -> RunKind:
    if settings.training.method is Method.SUBMIX:
        from reticent.runs.ensemble.run import EnsembleKind

        return EnsembleKind()
    from reticent.runs.training.model import ModelKind

    if settings.engine_settings is not None:
        raise ConfigError(
            "one model is not trained in pieces", hint="--engine is for --method submix; for one model use torchrun"
        )
    return ModelKind()
