"""Tables 1 and 2, figure 1 and RQ5 of Updates: what an update gives away of canary phrases, by copies and regime.

LSTMs, and a Transformer, on sentences of generated case law, cut at their full stops; the paper trains on Penn
Treebank, Reddit and Wikitext-103. Phrases are five words of the stated frequencies without a grammar: the generated
text is too small for one. Differential scores are at most 5 for them. Every training takes equally many steps, as
if each had converged; table 2 has equal epochs beside them. A canary's beam rank is a lower bound on its true rank.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from reproductions.experiment import (
    Experiment,
    Grid,
    Judgement,
    Line,
    Panel,
    Paper,
    Picture,
    Piece,
    Rendering,
    Scale,
    Values,
)
from reticent.core import Randomness

if TYPE_CHECKING:
    from reproductions.updates.regimes import UpdateData
    from reticent.core import Canary

CLASSES: Final = ("all low", "low to high", "mixed", "high to low")
COPIES: Final = {Scale.SMALL: (4, 16, 48), Scale.MEDIUM: (5, 20, 100), Scale.PAPER: (10, 50, 100)}
SIZES: Final[dict[Scale, Values]] = {
    Scale.SMALL: {"sentences": 500, "vocabulary": 800, "hidden_size": 64, "steps": 200, "phrases": 2},
    Scale.MEDIUM: {"sentences": 5000, "vocabulary": 3000, "hidden_size": 200, "steps": 2000, "phrases": 5},
    # The LSTM of Penn Treebank has two layers.
    Scale.PAPER: {"sentences": 40_000, "vocabulary": 10_000, "hidden_size": 200, "steps": 30_000, "phrases": 5}
    | {"layers": 2},
}
TRANSFORMER: Final[dict[str, int]] = {"layers": 2, "heads": 4}
EPSILONS: Final = (5.0, 111.0)
RANKED: Final = "all low 0"
_BATCH: Final = 16
SHARES: Final = (0.2, 0.5, 1.0)
# DS of the paper's table 1, Penn Treebank: 10, 50 and 100 copies; and of table 2, Reddit, 1:100K.
PRINTED: Final = {
    "all low": (3.40, 3.94, 3.97),
    "low to high": (3.52, 3.85, 3.97),
    "mixed": (3.02, 3.61, 3.90),
    "high to low": (1.96, 2.83, 3.46),
}
PRINTED_REGIMES: Final = {
    "re-training 0%": 3.04,
    "re-training 20%": 3.032,
    "re-training 50%": 3.031,
    "re-training 100%": 3.038,
    "continued training 20%": 3.56,
    "continued training 50%": 3.25,
    "continued training 100%": 3.27,
    "two stages 100%": 0.26,
}
# RQ5, Penn Treebank with 50 copies of the all-low phrase: next-token accuracy, rank of its first two tokens, DS.
PRINTED_PRIVATE: Final = {
    None: ("23%", "0", "3.94"),
    5.0: ("11.89%", "9,458,399", "4.5e-04"),
    111.0: ("13.34%", "849,685", "2.1e-03"),
}
PRINTED_TRANSFORMER: Final = {"all low": 3.99, "low to high": 3.97, "mixed": 3.96, "high to low": 3.10}
_LONGEST: Final = 25


def sentences(count: int, randomness: Randomness) -> list[str]:
    """So many sentences of generated case law in lower case, marks apart."""
    from reticent.data import generate_cases

    found: list[str] = []
    for record in generate_cases(max(8, count // 5), randomness=randomness):
        spaced = re.sub(r"([.,;:!?])", r" \1", record.text.lower())
        parts = (" ".join(part.split()) for part in re.split(r"(?<= [.!?]) |\n", spaced))
        found += [part for part in parts if 4 <= len(part.split()) <= _LONGEST]
    order = randomness.child("order").permutation(len(found))
    return [found[int(place)] for place in order[:count]]


def _data(parameters: Values, randomness: Randomness) -> "UpdateData":
    from reproductions.updates.regimes import UpdateData
    from reproductions.updates.vocabulary import word_tokenizer
    from reticent import Corpus, Record

    size = parameters["sentences"]
    texts = sentences(3 * size, randomness.child("text"))
    original, extra, later = (
        Corpus(Record(f"{name}{place}", text) for place, text in enumerate(texts[at * size : (at + 1) * size]))
        for at, name in enumerate("def")
    )
    tokenizer = word_tokenizer(original.texts, size=parameters["vocabulary"])
    unseen = sentences(max(8, size // 5), randomness.child("held out"))
    held_out = Corpus(Record(f"h{place}", text) for place, text in enumerate(unseen))
    return UpdateData(original, extra, later, tokenizer, held_out)


def _canaries(parameters: Values, data: "UpdateData", randomness: Randomness) -> "list[Canary]":
    from reproductions.updates.canary_making import PhraseSettings, Slot, make_phrase_canaries
    from reproductions.updates.vocabulary import known_words

    settings = PhraseSettings(
        count=parameters["phrases"],
        copies=parameters["copies"],
        template=tuple(Slot(f"word {place}", ("",)) for place in range(5)),
        known=known_words(data.tokenizer),
    )
    made = make_phrase_canaries(data.original.texts, settings, randomness=randomness.child("canaries"))
    return [one for each in made.values() for one in each]


def _update(parameters: Values, randomness: Randomness) -> Values:
    from reproductions.updates.regimes import Privacy, Regime, UpdateExperiment, UpdateSettings

    data = _data(parameters, randomness)
    epsilon = parameters["epsilon"]
    passes = parameters["steps"] * _BATCH / parameters["sentences"]  # over the original text
    settings = UpdateSettings(
        hidden_size=parameters["hidden_size"],
        layers=parameters.get("layers", 1),
        heads=parameters.get("heads"),
        epochs=passes,
        steps=None if parameters["by_epochs"] else parameters["steps"],
        batch=_BATCH,
        learning_rate=1e-2,
        privacy=None if epsilon is None else Privacy(epsilon=epsilon, delta=1e-5),
        seed=randomness.child("models").fresh_seed(),
    )
    canaries = _canaries(parameters, data, randomness)
    found = UpdateExperiment(data, settings).update(
        Regime(parameters["regime"]), canaries, share=parameters["share"], ranked=[RANKED]
    )
    pair = found.pair_ranks[RANKED]
    return {
        "scores": {kind: found.mean_score(kind) for kind in CLASSES},
        "increments": {kind: _mean_increments(found.scores, kind) for kind in CLASSES},
        "first": {
            kind: sum(r == 0 for n, r in found.ranks_apart.items() if n.startswith(kind)) for kind in CLASSES
        },
        "ranks": {kind: [r for n, r in found.beam_ranks.items() if n.startswith(kind)] for kind in CLASSES},
        "phrases": parameters["phrases"],
        "share": found.canary_share,
        "accuracy": found.accuracy,
        "ranked": {
            "score": found.scores[RANKED].score,
            "is_found": RANKED in found.found,
            "rank": pair.higher,
            "pairs": pair.size,
        },
        "epsilon": None if found.guarantee is None else found.guarantee.epsilon,
    }


def _mean_increments(scores: Mapping[str, object], kind: str) -> list[float]:
    """Mean gain of each token given those before it."""
    rows = [list(one.increments) for name, one in scores.items() if name.startswith(kind)]  # type: ignore[attr-defined]
    return [float(sum(column) / len(column)) for column in zip(*rows, strict=True)]


def _piece(
    scale: Scale,
    regime: str,
    share: float,
    copies: int,
    *,
    epsilon: float | None = None,
    is_transformer: bool = False,
    by_epochs: bool = False,
) -> Piece:
    parameters = {**SIZES[scale], "regime": regime, "share": share, "copies": copies, "epsilon": epsilon}
    parameters |= {"by_epochs": by_epochs, **(TRANSFORMER if is_transformer else {})}
    name = f"{regime} {share:.0%}, {copies} copies"
    name += "" if epsilon is None else f", ε = {epsilon:g}"
    name += ", Transformer" if is_transformer else ""
    return Piece(name + (", equal epochs" if by_epochs else ""), parameters, _update, "updates-canaries")


def _table1_pieces(scale: Scale) -> list[Piece]:
    most = COPIES[scale][-1]
    plain = [_piece(scale, "re-training", 0.0, copies) for copies in COPIES[scale]]
    transformer = _piece(scale, "re-training", 0.0, most, is_transformer=True)
    return [*plain, transformer, _piece(scale, "re-training", 0.0, most, epsilon=EPSILONS[0])]


def _render_table1(results: Mapping[str, Values]) -> Rendering:
    *plain, transformer, private = results
    rows = [
        (
            kind,
            *(f"{results[name]['scores'][kind]:.2f}{_mark(results[name], kind)}" for name in plain),
            " / ".join(f"{value:.2f}" for value in PRINTED[kind]),
            f"{results[transformer]['scores'][kind]:.2f}{_mark(results[transformer], kind)}",
            f"{PRINTED_TRANSFORMER[kind]:.2f}",
            f"{results[private]['scores'][kind]:.2f}{_mark(results[private], kind)}",
        )
        for kind in CLASSES
    ]
    rows.append(
        (
            "canary tokens",
            *(_one_in(results[name]) for name in plain),
            "1 in 18K / 3.6K / 1.8K",
            _one_in(results[transformer]),
            "1 in 10K",
            _one_in(results[private]),
        )
    )
    by_copies = {kind: [results[name]["scores"][kind] for name in plain] for kind in CLASSES}
    grows = [kind for kind in CLASSES if by_copies[kind] == sorted(by_copies[kind])]
    most = results[plain[-1]]
    middle = results[plain[1]]["scores"]
    hidden = max(abs(value) for value in results[private]["scores"].values())
    return Rendering(
        judgements=(
            Judgement.of(
                "The differential score grows with the number of copies, for all kinds of canaries.",
                len(grows) == len(CLASSES),
                reason=f"For {len(grows)} of {len(CLASSES)} kinds.",
            ),
            Judgement.of(
                "With enough copies a canary has the highest score that the beam finds: it ranks first.",
                most["first"]["all low"] == most["phrases"],
                reason=f"{most['first']['all low']} of {most['phrases']} phrases of rare words and "
                f"{sum(most['first'].values())} of all {len(CLASSES) * most['phrases']} phrases score higher than "
                "every phrase that is not a canary. All canaries share one update here; the paper gives each its "
                f"own. Counted against each other too, their ranks are {_ranks(most)}.",
            ),
            Judgement.of(
                "Phrases of rare words are exposed before those that begin with frequent ones.",
                middle["all low"] > middle["high to low"],
                reason=f"{plain[1]}: {middle['all low']:.2f} against {middle['high to low']:.2f}.",
            ),
            Judgement.of(
                "DP-SGD brings the scores near zero.",
                hidden < 0.3,
                reason=f"At ε = {results[private]['epsilon']:.2f} the largest mean is {hidden:.2f}.",
            ),
        ),
        tables=(
            Grid(
                "Mean differential score; * if all phrases of the kind score higher than all non-canaries",
                ("words", *plain, "printed (Penn Treebank)", transformer, "printed (Reddit)", private),
                tuple(rows),
            ),
        ),
        notes=(
            f"With {most['phrases']} phrases of each kind, one odd word moves a mean. Copies of canaries are a far "
            "larger share of the text than in the paper: see the last row.",
        ),
    )


def _one_in(one: Values) -> str:
    """How much of the text that the update is trained on is copies of canaries."""
    return f"1 in {1.0 / one['share']:,.0f} ({one['share']:.1%})"


def _ranks(one: Values) -> str:
    return ", ".join(f"{rank:,}" for rank in sorted(rank for each in one["ranks"].values() for rank in each))


def _mark(one: Values, kind: str) -> str:
    return " *" if one["first"][kind] == one["phrases"] else ""


def _fig1_pieces(scale: Scale) -> list[Piece]:
    return [_piece(scale, "re-training", 0.0, copies) for copies in COPIES[scale]]


def _render_fig1(results: Mapping[str, Values]) -> Rendering:
    lines = [
        Line(
            name=f"{kind}, {name.split(', ')[1]}",
            x=(0.0, 1.0, 2.0, 3.0, 4.0),
            y=tuple(one["increments"][kind]),
            is_marked=True,
            is_dashed=kind == "all low",
            colour=at,
        )
        for at, (name, one) in enumerate(results.items())
        for kind in ("all low", "high to low")
    ]
    most = list(results.values())[-1]["increments"]
    first = max(abs(most[kind][0]) for kind in ("all low", "high to low"))
    later = sum(most["all low"][1:]) / 4.0
    rows = tuple((line.name, *(f"{value:.2f}" for value in line.y)) for line in lines)
    return Rendering(
        judgements=(
            Judgement.of(
                "The score of the first token, without context, is near zero; that of later tokens grows quickly.",
                first < 0.3 and later > 0.5,
                reason=f"With the most copies, the first token has {first:.2f} at most, and the later tokens of "
                f"phrases of rare words have {later:.2f} on average.",
            ),
        ),
        tables=(
            Grid(
                "Mean differential score of a token, by the number of known tokens before it",
                ("phrase", *(f"{n} known" for n in range(5))),
                rows,
            ),
        ),
        pictures=(
            Picture(
                "updates-fig1",
                (
                    Panel(
                        title="",
                        x="tokens known before it",
                        y="differential score of the next token",
                        lines=tuple(lines),
                    ),
                ),
            ),
        ),
    )


def _table2_pieces(scale: Scale) -> list[Piece]:
    copies = COPIES[scale][1]
    made = []
    for by_epochs in (False, True):
        again = [_piece(scale, "re-training", share, copies, by_epochs=by_epochs) for share in (0.0, *SHARES)]
        on = [_piece(scale, "continued training", share, copies, by_epochs=by_epochs) for share in SHARES]
        made += [*again, *on, _piece(scale, "two stages", 1.0, copies, by_epochs=by_epochs)]
    return made


def _means(results: Mapping[str, Values]) -> dict[str, float]:
    """Mean score of all phrases, by regime and share."""
    return {name.split(",")[0]: sum(one["scores"].values()) / len(CLASSES) for name, one in results.items()}


def _higher(means: Mapping[str, float]) -> list[float]:
    """The shares of extra data at which continued training leaks more than re-training."""
    return [s for s in SHARES if means[f"continued training {s:.0%}"] > means[f"re-training {s:.0%}"]]


def _render_table2(results: Mapping[str, Values]) -> Rendering:
    by_steps = {name: one for name, one in results.items() if not name.endswith("equal epochs")}
    means, by_epochs = _means(by_steps), _means({name: results[name] for name in results if name not in by_steps})
    mixed = {name.split(",")[0]: one["scores"]["mixed"] for name, one in by_steps.items()}
    shares = {name.split(",")[0]: one["share"] for name, one in by_steps.items()}
    rows = tuple(
        (
            name,
            f"{means[name]:.2f}",
            f"{mixed[name]:.2f}",
            f"{by_epochs[name]:.2f}",
            f"{shares[name]:.1%}",
            f"{PRINTED_REGIMES[name]:g}",
        )
        for name in means
    )
    higher = _higher(means)
    steady = [means[f"re-training {s:.0%}"] for s in (0.0, *SHARES)]
    later, before = means["two stages 100%"], means["continued training 100%"]
    return Rendering(
        judgements=(
            Judgement.of(
                "In all cases the score is higher for continued training than for re-training.",
                len(higher) == len(SHARES),
                reason=f"At {len(higher)} of {len(SHARES)} shares of extra data where every training takes equally "
                f"many steps (mean over all phrases), and at {len(_higher(by_epochs))} where each takes equally "
                "many epochs over its own text. The paper does not say how long an update is trained.",
            ),
            Judgement.of(
                "Extra data in re-training does not change the score significantly.",
                min(steady) > 0.5 * max(steady),
                reason=f"The means go from {min(steady):.2f} to {max(steady):.2f}; the claim holds if the lowest "
                "is above half the highest. Every training takes equally many steps, so extra data leaves fewer of "
                "them for the phrases.",
            ),
            Judgement.of(
                "The score falls as more extra data is used in continued training.",
                means["continued training 20%"] > means["continued training 100%"],
                reason=f"{means['continued training 20%']:.2f} at 20 %, {before:.2f} at 100 %.",
            ),
            Judgement.of(
                "A second stage of training makes the score drop substantially.",
                later < 0.5 * before,
                reason=f"From {before:.2f} to {later:.2f}.",
            ),
        ),
        tables=(
            Grid(
                "Differential score by regime and extra data; printed: mixed phrase, Reddit, 1 in 100,000",
                ("regime", "all phrases", "mixed", "all phrases, equal epochs", "canary tokens", "printed"),
                rows,
            ),
        ),
    )


def _rq5_pieces(scale: Scale) -> list[Piece]:
    most = COPIES[scale][-1]
    return [_piece(scale, "re-training", 0.0, most, epsilon=epsilon) for epsilon in (None, *EPSILONS)]


def _render_rq5(results: Mapping[str, Values]) -> Rendering:
    plain, *private = results.values()
    ranks = [one["ranked"]["rank"] for one in private]
    rows = tuple(
        (
            "none" if epsilon is None else f"{one['epsilon']:.2f}",
            f"{one['accuracy']:.1%}",
            f"{one['ranked']['rank']:,}",
            f"{one['ranked']['score']:.2g}",
            "yes" if one["ranked"]["is_found"] else "no",
            *PRINTED_PRIVATE[epsilon],
        )
        for epsilon, one in zip((None, *EPSILONS), results.values(), strict=True)
    )
    return Rendering(
        judgements=(
            Judgement.of(
                "With DP the beam no longer finds the phrase, and the rank of its first two tokens rises from 0.",
                plain["ranked"]["is_found"]
                and plain["ranked"]["rank"] == 0
                and not any(one["ranked"]["is_found"] for one in private)
                and min(ranks) > 0,
                reason=f"Of {plain['ranked']['pairs']:,} pairs, {plain['ranked']['rank']:,} score higher "
                "without DP, "
                + " and ".join(f"{rank:,} at ε = {e:g}" for e, rank in zip(EPSILONS, ranks, strict=True))
                + ". All canaries share one update here, so that others can rank before this one.",
            ),
            Judgement.of(
                "A smaller ε hides the phrase further.",
                ranks[0] > ranks[1] and private[0]["ranked"]["score"] < private[1]["ranked"]["score"],
                reason="Judged by the rank of the two tokens and by the score of the whole phrase.",
            ),
            Judgement.of(
                "DP costs accuracy, at both ε.",
                max(one["accuracy"] for one in private) < plain["accuracy"],
                reason=f"{plain['accuracy']:.1%} without, "
                + " and ".join(
                    f"{one['accuracy']:.1%} at ε = {e:g}" for e, one in zip(EPSILONS, private, strict=True)
                )
                + ".",
            ),
        ),
        tables=(
            Grid(
                "One phrase of rare words; accuracy is next-token accuracy on held-out text; printed: Penn "
                "Treebank, 50 copies",
                (
                    *("ε", "accuracy", "rank of two tokens", "score", "beam finds it"),
                    *("printed accuracy", "printed rank", "printed score"),
                ),
                rows,
            ),
        ),
        notes=(
            f"Canary tokens: {_one_in(plain)}. The unit of privacy is one sentence, and the phrase stands in many "
            "sentences: nothing is proved for the phrase.",
        ),
    )


_figure = partial(Experiment, paper=Paper.UPDATES, needs_training=True)

EXPERIMENTS: Final = (
    _figure(
        name="updates-table1",
        title="differential score by copies and word frequency",
        pieces=_table1_pieces,
        render=_render_table1,
    ),
    _figure(
        name="updates-fig1",
        title="score of a token by the prefix that is known",
        pieces=_fig1_pieces,
        render=_render_fig1,
    ),
    _figure(
        name="updates-table2",
        title="re-training, continued training and two stages",
        pieces=_table2_pieces,
        render=_render_table2,
    ),
    _figure(
        name="updates-rq5",
        title="what differential privacy leaves of a phrase",
        pieces=_rq5_pieces,
        render=_render_rq5,
    ),
)
