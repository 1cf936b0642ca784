"""What figures 4 to 7 of PII-leakage are drawn from: one undefended model on generated case law, every game played.

    extraction      recall by duplication and by token length, and as more is sampled; by entity class
    extractability  the estimated chance of a value beside how often it was emitted
    inference       accuracy by how much of the sentence is known
    membership      memorisation score: how much likelier a text is than under a model of other cases (a shadow);
                    of members, held-out and generated texts; of reconstructed and other targets

Numbers alone leave here. The games are `reproductions.pii.defences`' and `auditing.pii_*`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from reproductions.experiment import Values
from reproductions.pii.case_law import CaseLaw
from reproductions.pii.defences import Games, TableSettings, prepare_games
from reproductions.pii.training import Defence, TrainingSettings, train_defended
from reticent import Corpus
from reticent.auditing import (
    CandidateScorer,
    CandidateSources,
    ContextWindow,
    EmittedValues,
    ExtractionGame,
    MaskedSpan,
    OtherValues,
    auc_interval,
    compare_extractability,
    draw_candidates,
    estimate_extractability,
    gather_candidates,
    infer_values,
    masked_spans,
    rank_candidates,
    sample_texts,
    tag_texts,
    token_counter,
    token_lengths,
)
from reticent.core import Estimate, LanguageModel, Randomness, Sampling

WINDOWS: Final = (10, 30, 90, 270)  # characters before the value, and a third of them after it
_PERSON: Final = ("PERSON",)
_TOKENS: Final = 96  # of a sampled text


@dataclass(frozen=True, slots=True)
class _Played:
    """A trained model, one of other cases beside it, and the games' text."""

    model: LanguageModel
    shadow: LanguageModel
    games: Games
    strangers: Corpus  # held-out paragraphs that the shadow did not read either

    @property
    def text(self) -> CaseLaw:
        return self.games.case_law

    def memorisation(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Mean over tokens of log p − log p of the shadow, for each text [n]."""
        rows = [model.token_log_probs(model.encode(list(texts))) for model in (self.model, self.shadow)]
        return np.array([float((own - other).mean()) for own, other in zip(*rows, strict=True)])


def play_games(parameters: Values, randomness: Randomness) -> Values:
    """All numbers of the four figures."""
    settings = TableSettings(
        cases=parameters["cases"],
        held_out=parameters["held_out"],
        texts=1,  # the base is not asked here
        targets=parameters["targets"],
        candidates=parameters["candidates"],
        draws=parameters["draws"],
        seed=randomness.child("games").fresh_seed() % 2**31,
        training=TrainingSettings(start=parameters.get("model", "embedded"), epochs=parameters["epochs"]),
    )
    games = prepare_games(settings)
    text = games.case_law
    size = min(len(text.training), len(text.held_out) // 2)
    other = replace(text, training=text.held_out[:size])
    model, shadow = (
        train_defended(one, Defence.UNDEFENDED, settings=settings.training).model for one in (text, other)
    )
    played = _Played(model, shadow, games, text.held_out[size:])
    sampled = sample_texts(
        model,
        parameters["texts"],
        sampling=Sampling(max_tokens=_TOKENS, top_k=40),
        randomness=randomness.child("sampled"),
    )
    emitted = tag_texts(sampled, text.tagger)
    return {
        **_extraction(played, emitted),
        "extractability": _extractability(played, emitted, randomness.child("bootstrap")),
        "inference": _inference(played, settings),
        "membership": _membership(played, emitted, settings),
    }


def _extraction(played: _Played, emitted: EmittedValues) -> Values:
    inventory = played.text.values
    lengths = token_lengths(played.model, [*inventory, *emitted.values])
    game = ExtractionGame(inventory, emitted, None, lengths)
    rows = {"duplication": game.by_duplication(), "length": game.by_length(), "kind": game.by_kind()}
    return {
        **{name: [one.to_json(confidence=0.95, miss_rate=0.0) for one in each] for name, each in rows.items()},
        "sampled": [point.to_json() for point in game.over_tokens(points=8)],
    }


def _extractability(played: _Played, emitted: EmittedValues, randomness: Randomness) -> Values:
    values = played.text.values.of_kind("PERSON")
    estimated = estimate_extractability(played.model, played.text.values, values, contexts=4)
    compared = compare_extractability(estimated, values, emitted)
    return {
        "estimated": compared.estimated.tolist(),
        "observed": compared.observed.tolist(),
        "correlation": _ends(compared.correlation(randomness=randomness)),
    }


def _inference(played: _Played, settings: TableSettings) -> list[Values]:
    """Right guesses by the characters of context, the same values in the same places each time."""
    rows = []
    for before in WINDOWS:
        targets = masked_spans(
            played.text.values,
            others=OtherValues.KNOWN,
            count=settings.targets,
            randomness=settings.randomness("targets"),
            kinds=_PERSON,
            window=ContextWindow(before=before, after=before // 3),
        )
        draw = draw_candidates(
            targets,
            played.text.values,
            training=played.text.values,
            size=settings.candidates,
            lengths=token_counter(played.model),
            randomness=settings.randomness("trained decoys"),
        )
        right = infer_values(CandidateScorer(played.model), draw).right
        rows.append({"characters": before + before // 3, "right": int(right.sum()), "targets": len(right)})
    return rows


def _membership(played: _Played, emitted: EmittedValues, settings: TableSettings) -> Values:
    members = played.memorisation(played.text.training.texts)
    strangers = played.memorisation(played.strangers.texts)
    generated = tuple(text.reveal() for text in emitted.sampled.texts if text.reveal().strip())
    targets = played.games.targets
    hits = _reconstructed(played, targets, emitted, settings)
    by_record = dict(zip((record.id for record in played.text.training), members, strict=True))
    scores = np.array([by_record[target.record] for target in targets])
    return {
        "auc": _ends(auc_interval(members, strangers)),
        "means": {
            "training": float(members.mean()),
            "held-out": float(strangers.mean()),
            "generated": float(played.memorisation(generated).mean()),
        },
        "deviation": float(strangers.std(ddof=1)),
        "reconstruction": {"scores": scores.tolist(), "hits": [bool(hit) for hit in hits]},
        "success": _ends(auc_interval(scores[hits], scores[~hits]) if 0 < hits.sum() < len(hits) else None),
    }


def _reconstructed(
    played: _Played, targets: tuple[MaskedSpan, ...], emitted: EmittedValues, settings: TableSettings
) -> Any:
    """Which targets' values [n] are ranked first."""
    sources = CandidateSources(
        prefix=settings.draws, shared=64, pool=64, sampling=Sampling(max_tokens=12, top_k=40)
    )
    candidates = gather_candidates(
        played.model,
        played.text.tagger,
        targets,
        sources=sources,
        randomness=settings.randomness("continuations"),
        emitted=emitted,
    )
    return rank_candidates(CandidateScorer(played.model), targets, candidates).hits(1)


def _ends(estimate: Estimate | None) -> list[float] | None:
    return None if estimate is None else [estimate.value, estimate.low, estimate.high]
