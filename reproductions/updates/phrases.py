"""Tables 3, 4 and 5 of Updates: the phrases that an update with a newsgroup's messages exposes, by regime.

    tables 3, 4   the highest relative scores of four words, by vanilla beam search and in five groups
    table 5       such phrases scored again after re-training and after continued training, with 0, 20 or 100 % more
                  public text

LSTMs on messages of another group, updated with a group's (`updates.text`); the paper's public text is Reddit and
its second model a Transformer. The vocabulary is the public text's most frequent words. The messages have been
public for thirty years, so phrases are shown as the paper shows them, with how many of their words are of the
subject and how many messages hold them. Every training takes equally many steps, as if each had converged.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from reproductions.experiment import (
    ClaimVerdict,
    Experiment,
    Grid,
    Judgement,
    Paper,
    Piece,
    Rendering,
    Scale,
    Values,
)
from reproductions.updates.text import ARTICLES, HOCKEY, MESSAGES, MIDEAST
from reticent.core import Randomness

if TYPE_CHECKING:
    from reproductions.updates.regimes import UpdateExperiment
    from reproductions.updates.text import GroupText
    from reticent.auditing import Snapshots
    from reticent.models import HuggingFaceModel

SIZES: Final[dict[Scale, Values]] = {
    Scale.SMALL: {"public": 4000, "messages": 1500, "vocabulary": 2500, "hidden_size": 64, "steps": 300}
    | {"width": 400},
    Scale.MEDIUM: {"public": 4000, "messages": 8000, "vocabulary": 5000, "hidden_size": 200, "steps": 2000}
    | {"width": 2000},
    Scale.PAPER: {"public": 4000, "messages": 8000, "vocabulary": 10_000, "hidden_size": 200, "steps": 30_000}
    | {"width": None},
}
LENGTH, GROUPS, SHOWN = 4, 5, 5
SHARES: Final = (0.0, 0.2, 1.0)
AGAIN, ON = "re-training", "continued training"
# DS~ of the RNN's best phrase of each group: tables 3 and 4; medians over the phrases of table 5.
PRINTED: Final = {HOCKEY: (56.42, 53.68, 39.66, 21.59, 21.41), MIDEAST: (31.32, 22.79, 20.20, 18.35, 11.17)}
PRINTED_MEDIANS: Final = {AGAIN: "24.8 at 0 %, 24.9 at 100 %", ON: "83.1 at 0 %, 11.9 at 100 %"}


def _search(parameters: Values, randomness: Randomness) -> Values:
    """Phrases of one group's update, and their scores in every regime that is asked for."""
    from pathlib import Path

    from reproductions.updates.regimes import UpdateData, UpdateExperiment, UpdateSettings
    from reproductions.updates.text import read_group
    from reproductions.updates.vocabulary import word_tokenizer
    from reticent.auditing import Snapshots

    text = read_group(
        Path(parameters["data"]),
        parameters["group"],
        public=parameters["public"],
        messages=parameters["messages"],
        randomness=randomness,
    )
    tokenizer = word_tokenizer(text.vocabulary, size=parameters["vocabulary"])
    settings = UpdateSettings(
        hidden_size=parameters["hidden_size"],
        steps=parameters["steps"],
        learning_rate=5e-3,
        seed=randomness.child("models").fresh_seed(),
    )
    experiment = UpdateExperiment(UpdateData(text.original, text.extra, text.update, tokenizer), settings)
    after = {
        f"{regime} {share:.0%}": _updated(experiment, text, regime, share)
        for regime, share in parameters["regimes"]
    }
    pairs = {name: Snapshots(experiment.before, model) for name, model in after.items()}
    width = parameters["width"]
    found = {
        name: _phrases(pair, text, tokenizer, width=width) for name, pair in pairs.items() if name.endswith(" 0%")
    }
    phrases = list(dict.fromkeys(tuple(row["tokens"]) for one in found.values() for row in one["groups"]))
    return {
        "found": {name: _without_tokens(one) for name, one in found.items()},
        "phrases": tokenizer.batch_decode(phrases),
        "chance": _share_by_chance(text),
        "scores": {name: [row.relative for row in pair.score(phrases)] for name, pair in pairs.items()},
    }


def _updated(experiment: "UpdateExperiment", text: "GroupText", regime: str, share: float) -> "HuggingFaceModel":
    """The snapshot after an update with the messages and a share of extra public text."""
    from reticent import Corpus

    name = f"{regime} {share:.0%}"
    added = [*text.extra[: round(share * len(text.original))], *text.update]
    if regime == AGAIN:
        return experiment.trained(experiment.fresh(name), Corpus([*text.original, *added]), name)
    return experiment.trained(experiment.before, Corpus(added), name)


def _phrases(pair: "Snapshots", text: "GroupText", tokenizer: Any, *, width: int | None) -> Values:
    """The best phrases of both searches: scores, words of the subject, messages that hold them."""
    from reticent.auditing import BeamSettings, UpdateScore, match_phrases, search_phrases

    found: Values = {}
    for name, groups in (("vanilla", 1), ("groups", GROUPS)):
        settings = BeamSettings(length=LENGTH, width=width, groups=groups, score=UpdateScore.RELATIVE)
        beam = search_phrases(pair, settings)
        places = beam.best_of_groups(SHOWN if groups == 1 else 1)
        rows = [tuple(row) for row in beam.tokens[places].tolist()]
        shown = tokenizer.batch_decode(rows)
        words = text.subject_words(shown)
        holders = match_phrases(pair.after, rows, text.update)
        found[name] = [
            {"tokens": list(row), "phrase": phrase, "score": float(beam.scores[place]), "words": count}
            | {"holders": len(held)}
            for row, phrase, place, count, held in zip(rows, shown, places, words, holders, strict=True)
        ]
    return found


def _without_tokens(found: Values) -> Values:
    return {
        search: [{key: value for key, value in row.items() if key != "tokens"} for row in rows]
        for search, rows in found.items()
    }


def _share_by_chance(text: "GroupText") -> float:
    """Share of public phrases of four words that hold a word of the subject."""
    words = [record.text.split() for record in text.original]
    phrases = [" ".join(row[at : at + LENGTH]) for row in words for at in range(len(row) - LENGTH + 1)]
    return sum(count > 0 for count in text.subject_words(phrases)) / len(phrases)


def _piece(scale: Scale, group: str, regimes: Sequence[tuple[str, float]]) -> Piece:
    parameters = {**SIZES[scale], "group": group, "regimes": [list(one) for one in regimes]}
    return Piece(group, parameters, _search, "updates-phrases", files=(MESSAGES, ARTICLES))


def _hockey(scale: Scale) -> list[Piece]:
    return [_piece(scale, HOCKEY, [(AGAIN, 0.0)])]


def _mideast(scale: Scale) -> list[Piece]:
    return [_piece(scale, MIDEAST, [(regime, share) for regime in (AGAIN, ON) for share in SHARES])]


def _render_phrases(group: str, results: Mapping[str, Values]) -> Rendering:
    one = results[group]
    found = one["found"][f"{AGAIN} 0%"]
    rows = tuple(
        (
            search,
            str(place),
            row["phrase"],
            f"{row['score']:.1f}",
            f"{PRINTED[group][place - 1]:g}" if search == "groups" else "–",
            f"{row['words']} of {LENGTH}",
            str(row["holders"]),
        )
        for search in ("groups", "vanilla")
        for place, row in enumerate(found[search], start=1)
    )
    hits = {search: sum(row["words"] > 0 for row in found[search]) for search in found}
    literal = sum(row["holders"] > 0 for row in found["groups"])
    return Rendering(
        judgements=(
            Judgement.of(
                "The exposed phrases are on the subject of the newsgroup.",
                hits["groups"] >= 3,
                reason=f"{hits['groups']} of the {GROUPS} phrases found by groups and {hits['vanilla']} of the "
                f"{SHOWN} found by the vanilla search contain a word of the subject; of public phrases "
                f"{one['chance']:.1%} do. The claim asks for 3 of 5, which has probability "
                f"{_by_chance(one['chance']):.1g} by chance.",
            ),
            Judgement.of(
                "Some phrases occur literally in the messages, others are a digest of what recurs.",
                0 < literal < GROUPS,
                reason=f"{literal} of the {GROUPS} phrases found by groups occur in a message.",
            ),
        ),
        tables=(
            Grid(
                "Highest relative differential scores of four words, re-training; printed: RNN on Reddit",
                (
                    "search",
                    "rank",
                    "phrase",
                    "score",
                    "printed",
                    "words of the subject",
                    "sentences that contain it",
                ),
                rows,
            ),
        ),
        notes=(
            "A word is of the subject if it is at least four times as frequent in the messages as in the public "
            "text. The messages are public.",
        ),
    )


def _by_chance(share: float) -> float:
    """Chance of three or more of five where each has this one."""
    from scipy.stats import binom

    return float(binom.sf(2, GROUPS, share))


def _render_table5(results: Mapping[str, Values]) -> Rendering:
    scores: dict[str, list[float]] = results[MIDEAST]["scores"]
    phrases: list[str] = results[MIDEAST]["phrases"]
    count = len(phrases)
    rows = tuple((phrase, *(f"{values[n]:.1f}" for values in scores.values())) for n, phrase in enumerate(phrases))
    middle = {name: median(values) for name, values in scores.items()}
    rows += (("median", *(f"{middle[name]:.1f}" for name in scores)),)
    alone = [a > b for a, b in zip(scores[f"{ON} 0%"], scores[f"{AGAIN} 0%"], strict=True)]
    steady = sorted(middle[f"{AGAIN} {share:.0%}"] for share in SHARES)
    return Rendering(
        judgements=(
            Judgement.of(
                "Continued training on the messages alone scores higher than re-training.",
                sum(alone) > 0.5 * count and middle[f"{ON} 0%"] > middle[f"{AGAIN} 0%"],
                reason=f"For {sum(alone)} of {count} phrases; medians {middle[f'{ON} 0%']:.1f} and "
                f"{middle[f'{AGAIN} 0%']:.1f}.",
            ),
            _vanishing(middle),
            _steady(steady, middle),
        ),
        tables=(
            Grid(
                "Relative differential scores of the phrases that the group search finds after either update",
                ("phrase", *scores),
                rows,
            ),
        ),
        notes=(
            f"Printed medians over ten phrases, Reddit: {AGAIN} {PRINTED_MEDIANS[AGAIN]}; {ON} "
            f"{PRINTED_MEDIANS[ON]}. One training of each regime.",
        ),
    )


def _vanishing(middle: Mapping[str, float]) -> Judgement:
    """The claim on the lead of continued training: what is left of it, as a logarithm."""
    claim = "That effect vanishes as more additional data is used."
    leads = [middle[f"{ON} {share:.0%}"] / middle[f"{AGAIN} {share:.0%}"] for share in SHARES]
    shown = ", ".join(f"{lead:.2f} at {share:.0%}" for lead, share in zip(leads, SHARES, strict=True))
    reason = f"Median of continued training over that of re-training, by extra text: {shown}"
    held = leads[0] > 1.0 and math.log(leads[-1]) < 0.5 * math.log(leads[0])
    return Judgement.of(
        claim, held, reason=f"{reason}; the claim holds if less than half of the lead, as a logarithm, is left."
    )


def _steady(steady: Sequence[float], middle: Mapping[str, float]) -> Judgement:
    """The claim on re-training; a median near nothing can neither rise nor fall."""
    claim = "Scores vary little when additional data is used in re-training."
    reason = "Medians " + ", ".join(f"{middle[f'{AGAIN} {share:.0%}']:.1f} at {share:.0%}" for share in SHARES)
    if steady[-1] < 1.0:
        return Judgement(claim, ClaimVerdict.NOT_TESTABLE, f"{reason}: re-training learnt too little.")
    return Judgement.of(
        claim, steady[0] > 0.5 * steady[-1], reason=f"{reason}; the claim holds if they lie within a factor of two."
    )


_figure = partial(Experiment, paper=Paper.UPDATES, needs_training=True)

EXPERIMENTS: Final = (
    _figure(
        name="updates-table3",
        title="phrases that rec.sport.hockey exposes",
        pieces=_hockey,
        render=partial(_render_phrases, HOCKEY),
    ),
    _figure(
        name="updates-table4",
        title="phrases that talk.politics.mideast exposes",
        pieces=_mideast,
        render=partial(_render_phrases, MIDEAST),
    ),
    _figure(
        name="updates-table5",
        title="exposed phrases by regime and extra data",
        pieces=_mideast,
        render=_render_table5,
    ),
)
