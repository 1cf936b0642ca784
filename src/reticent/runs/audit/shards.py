"""Audit shards: a model on disk whose scores are computed by the workers of an engine, each with its own copy.

Sequences are cut into shards of as many as an audit in one process scores at once, so that shards are the very
batches of that audit and their scores are equal to its scores. Shards do not depend on the number of workers.

Scores of whole sequences are cut, of which membership, lazy reconstruction and the like consist; whatever else a
model offers is answered by the copy in this process. A worker loads a model once and keeps the last two.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from reticent.auditing.progress import CHUNK
from reticent.auditing.subject import Subject
from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError
from reticent.core.model import Access, LanguageModel, TextModel, Tokens
from reticent.engine.work import Engine, EngineSettings, Piece, Told, gather, open_engine
from reticent.runs.audit.subject import find_model

_KEPT: Final = 2  # the model and its base


@contextmanager
def sharded_subject(subject: Subject, settings: EngineSettings | None) -> Iterator[Subject]:
    """The subject with its model and base in shards, where they give scores; as it is without an engine."""
    if settings is None:
        yield subject
        return
    with open_engine(settings) as engine:
        base = None if subject.base is None else _sharded(subject.base, engine)
        yield replace(subject, model=_sharded(subject.model, engine), base=base)


Model = TypeVar("Model", bound=TextModel)


def _sharded(model: Model, engine: Engine) -> Model:
    """A copy that shares the weights, with `token_log_probs` by the engine."""
    if model.access < Access.WEIGHTS:
        return model  # a server: its requests run at once as it is
    if not isinstance(model, LanguageModel) or not hasattr(model, "__dict__"):
        return model
    copied = copy.copy(model)
    # The model's name is how the user called it; its place is where workers find it as well.
    shards = Shards(model.token_log_probs, (find_model(model.name).source, model.fingerprint), engine=engine)
    copied.token_log_probs = shards  # type: ignore[method-assign]
    return copied


class Shards:
    """Takes the place of a model's `token_log_probs`. `here` is the model's own, `identity` its place and hash."""

    def __init__(
        self,
        here: Callable[[Sequence[Tokens]], list[Floats]],
        identity: tuple[str, str],
        *,
        engine: Engine,
        told: Told = lambda _: None,
    ) -> None:
        self._here = here
        self._identity = identity
        self._engine = engine
        self._told = told

    def telling(self, told: Told) -> "Shards":
        """The same, telling how many tokens were scored."""
        return Shards(self._here, self._identity, engine=self._engine, told=told)

    def __call__(self, sequences: Sequence[Tokens]) -> list[Floats]:
        """One [T_i] array for each sequence."""
        if len(sequences) <= CHUNK:  # one shard: not worth the trip
            scores = self._here(sequences)
            self._told(sum(map(len, sequences)))
            return scores
        shards = [list(sequences[start : start + CHUNK]) for start in range(0, len(sequences), CHUNK)]
        pieces = [Piece(f"shard-{number:05d}", (self._identity, shard)) for number, shard in enumerate(shards)]
        return [row for rows in gather(pieces, score_shard, engine=self._engine, told=self._told) for row in rows]


def score_shard(argument: tuple[tuple[str, str], list[Tokens]], told: Told) -> list[Floats]:
    """In a worker: the scores of one shard."""
    (source, fingerprint), sequences = argument
    scores = _loaded(source, fingerprint).token_log_probs(sequences)
    told(sum(map(len, sequences)))
    return scores


@lru_cache(maxsize=_KEPT)
def _loaded(source: str, fingerprint: str) -> LanguageModel:
    """The model at that place, if it is the same one."""
    from reticent.models.huggingface.loading import load_model

    model = load_model(source)
    if model.fingerprint != fingerprint:
        raise ConfigError(
            f"{source}: a worker finds another model there",
            hint="every machine of the cluster needs the same files at the same place",
        )
    return model
