"""Figures 2 to 5 of CRT: utility, exposure and membership against the miss rate γ of the screening policy.

The paper trains LSTMs and GPT-2 on WikiText-2 and CustomerSim; here the embedded model learns generated dialogues,
a line each, with 10 canaries "My ID is: <6 digits>" × 20 (`crt.training`). γ is simulated, as in the paper; CRT is
shown with the built-in conservative policy and, beside it, with a list of all secrets, which nobody has. With 10
canaries the area under a membership curve has a wide interval, and is printed with it; groups are five of them.
Selective DP-SGD, the paper's rival, trains an LSTM from nothing, at small scale on fewer dialogues and more often,
or it would learn nothing by heart: its exposures are to be compared with the others', its perplexity is not.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Final

from reproductions.experiment import (
    ClaimVerdict,
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
from reticent.core import Randomness, at_most

SELECTIVE: Final = "selective DP-SGD (LSTM)"
BUILT_IN: Final = "CRT, built-in π_c"
ORACLE: Final = "CRT, oracle π_c"
CRT: Final = {BUILT_IN: "with the built-in π_c", ORACLE: "with the oracle as π_c"}
REDACTION: Final = "redaction"
METHODS: Final = (REDACTION, *CRT, "DP-SGD", SELECTIVE)
MISS_RATES: Final = {
    Scale.SMALL: (0.0, 0.1, 0.5),
    Scale.MEDIUM: (0.0, 0.1, 0.3, 0.5),
    Scale.PAPER: (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
}
SIZES: Final[dict[Scale, Values]] = {
    Scale.SMALL: {"dialogues": 40, "held_out": 20, "epochs": 4, "copies": 20, "epsilon": 8.0},
    Scale.MEDIUM: {"dialogues": 400, "held_out": 100, "epochs": 8, "copies": 20, "epsilon": 3.0},
    Scale.PAPER: {"dialogues": 9000, "held_out": 1000, "epochs": 10, "copies": 20, "epsilon": 1.0, "model": "gpt2"},
}
RECURRENT: Final[dict[Scale, Values]] = {
    Scale.SMALL: {"recurrent": "lstm:1x200", "recurrent_epochs": 60, "dialogues": 15},
    Scale.MEDIUM: {"recurrent": "lstm:1x200", "recurrent_epochs": 20},
    Scale.PAPER: {"recurrent": "lstm:1x200", "recurrent_epochs": 50},
}


def _train_and_attack(parameters: Values, randomness: Randomness) -> Values:
    from reproductions.crt.training import train_and_attack

    return train_and_attack(parameters, randomness)


def chance_limit(canaries: int) -> float:
    """Bits that the largest of so many exposures passes by chance at a rate below 0.05: each has P[> x] ≤ 2^−x."""
    return math.log2(canaries / 0.05)


def _pieces(scale: Scale) -> list[Piece]:
    pieces = []
    for method in METHODS:
        for rate in MISS_RATES[scale] if method != "DP-SGD" else (0.0,):
            parameters = {**SIZES[scale], "method": method, "miss_rate": rate}
            if method == SELECTIVE:
                parameters |= RECURRENT[scale]
            elif method != REDACTION:
                del parameters["epochs"]  # which are planned
            pieces.append(Piece(f"{method}, γ = {rate:g}", parameters, _train_and_attack, "crt-attacks"))
    return pieces


def _by_method(results: Mapping[str, Values]) -> dict[str, dict[float, Values]]:
    found: dict[str, dict[float, Values]] = {}
    for name, one in results.items():
        method, _, rate = name.partition(", γ = ")
        found.setdefault(method, {})[float(rate)] = one
    return found


def _picture(name: str, results: Mapping[str, Values], column: str, label: str) -> Picture:
    """One line a method against γ; DP-SGD, which has no policy, is level."""
    lines = []
    for method, rows in _by_method(results).items():
        x = tuple(rows) if len(rows) > 1 else (0.0, 0.5)
        values = [row[column] if not isinstance(row[column], list) else row[column][0] for row in rows.values()]
        y = tuple(values) if len(rows) > 1 else (values[0], values[0])
        lines.append(Line(name=method, x=x, y=y, is_marked=True, is_dashed=len(rows) == 1))
    return Picture(name, (Panel(title="", x="miss rate γ", y=label, lines=tuple(lines)),))


_COPIES: Final = (
    "DP-SGD's ε is for one record. A canary stands in 20 of them, so that it is not covered by that ε: redaction "
    "finds it wherever it stands, and of a missed one CRT keeps the first alone."
)
_POLICIES: Final = (
    "The policy π that redacts is simulated, as in the paper: a list of the true secrets less a share γ of them. "
    "The built-in π_c is the policy `conservative` of the package, which knows no list; the oracle is the whole "
    "list, which nobody has."
)
_CAUGHT: Final = (
    "ε of a caught secret is CRT's for one that π misses and π_c finds with the same characters wherever it "
    "stands. The δ of the average also counts the secrets that neither finds whole; no ε is proved of such a "
    "secret. With the built-in π_c most of these are addresses, which it finds in pieces."
)
_NOTE: Final = (
    "One training of each. Sampling and noise of private ones come from the system's generator, not the seed. "
    "Passes, batch and rate of CRT and DP-SGD are those that the package chooses for the ε."
)


def _render_fig2(results: Mapping[str, Values]) -> Rendering:
    rows = tuple(
        (
            name,
            f"{one['perplexity']:.2f}",
            f"{one['top1']:.1%}",
            _number(one["average_epsilon"], ".2f"),
            _delta(one["average_delta"]),
            _number(one["epsilon"], ".2f"),
        )
        for name, one in results.items()
    )
    return Rendering(
        judgements=tuple(judge(_by_method(results), method) for judge in (_close, _lower) for method in CRT),
        tables=(
            Grid(
                "Utility on held-out lines, and ε: on average, and at δ = 8e-5 of a caught secret or a record",
                ("training", "perplexity", "top-1", "ε on average", "δ of it", "ε of a caught secret or record"),
                rows,
            ),
        ),
        pictures=(_picture("crt-fig2", results, "perplexity", "perplexity"),),
        notes=(_NOTE, _POLICIES, _CAUGHT),
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _delta(value: float | None) -> str:
    return "–" if value is None else at_most(value, 3)


def _close(methods: Mapping[str, Mapping[float, Values]], method: str) -> Judgement:
    """The claim on utility."""
    crt, plain = methods[method][0.1], methods["redaction"][0.1]
    return Judgement.of(
        f"CRT's perplexity is close to that of training without noise, {CRT[method]}.",
        crt["perplexity"] < 1.5 * plain["perplexity"],
        reason=f"{crt['perplexity']:.2f} against {plain['perplexity']:.2f} of redaction alone at γ = 0.1; "
        "taken as: within half.",
    )


def _lower(methods: Mapping[str, Mapping[float, Values]], method: str) -> Judgement:
    """The claim on ε: the average counts where its δ is no larger than that of DP-SGD."""
    crt, private = methods[method][0.1], methods["DP-SGD"][0.0]
    average, delta, every = crt["average_epsilon"], crt["average_delta"], private["epsilon"]
    is_lower = average is not None and every is not None and average < every
    reason = (
        f"{_number(average, '.2f')} on average over secrets against {_number(every, '.2f')} for every record; for "
        f"a secret that π misses and π_c catches CRT's is {_number(crt['epsilon'], '.2f')}. The promises differ."
    )
    if crt["lost"]:
        reason += (
            f" Neither policy finds {crt['lost']:.1%} of the values whole: the average holds at "
            f"δ = {_delta(delta)} and not below, and for the worst secret no ε is proved."
        )
    claim = f"CRT is better than DP-SGD by a lower ε, {CRT[method]}."
    return Judgement.of(claim, is_lower and not crt["lost"], reason=reason)


def _render_fig3(results: Mapping[str, Values]) -> Rendering:
    methods = _by_method(results)
    rows = tuple(
        (
            name,
            f"{one['mean']:.2f}",
            f"{one['largest']:.2f}",
            "–" if one["missed"] is None else f"{one['missed']:.2f}",
        )
        for name, one in results.items()
    )
    plain = methods["redaction"]
    low, high = plain[0.0]["largest"], plain[max(plain)]["largest"]
    return Rendering(
        judgements=(
            *(_quiet(methods[method], CRT[method]) for method in CRT),
            _sharp(low, high),
            _unprotected(methods[SELECTIVE]),
        ),
        tables=(
            Grid(
                "Exposure in bits: mean and largest of 10 canaries, largest of those that the policy misses",
                ("training", "mean", "largest", "largest missed"),
                rows,
            ),
        ),
        pictures=(_picture("crt-fig3", results, "largest", "largest exposure of 10 (bits)"),),
        notes=(_NOTE, _POLICIES, _COPIES),
    )


def _quiet(rows: Mapping[float, Values], how: str) -> Judgement:
    """The claim on CRT's canaries."""
    largest, limit = max(one["largest"] for one in rows.values()), chance_limit(10 * len(rows))
    return Judgement.of(
        f"Canary exposure of CRT is close to nothing at every γ, {how}.",
        largest < limit,
        reason=f"Largest of all canaries {largest:.2f} bits; by chance below {limit:.1f} in 95 of 100, not 0.",
    )


def _sharp(low: float, high: float) -> Judgement:
    """The claim on redaction alone; where nothing is memorised even then, the scale is too small to tell."""
    claim = "Redaction without noise protects at γ = 0, and a rise in γ raises exposure sharply."
    reason = f"Largest exposure {low:.2f} bits at γ = 0 and {high:.2f} at the highest γ."
    if high < chance_limit(10):
        return Judgement(claim, ClaimVerdict.NOT_TESTABLE, f"{reason} Too little training to memorise anything.")
    return Judgement.of(claim, low < chance_limit(10), reason=reason)


def _unprotected(rows: Mapping[float, Values]) -> Judgement:
    """The claim on selective DP-SGD: what the policy misses is trained on plainly. It says nothing of γ = 0."""
    claim = "Selective DP-SGD exposes canaries as training without noise does, given any γ above 0."
    found = {rate: one["largest"] for rate, one in rows.items()}
    missing = {rate: bits for rate, bits in found.items() if rate > 0.0}
    limit = chance_limit(10)
    reason = (
        "Largest exposure "
        + ", ".join(f"{bits:.2f} bits at γ = {rate:g}" for rate, bits in missing.items())
        + f"; by chance below {limit:.1f} in 95 of 100. At γ = 0 it is {found[0.0]:.2f}: there ε holds for each of "
        "the 20 records that a canary stands in, not for the canary."
    )
    if max(missing.values()) < limit:
        return Judgement(
            claim, ClaimVerdict.NOT_TESTABLE, f"{reason} The LSTM learns too little to tell from chance."
        )
    return Judgement.of(claim, min(missing.values()) > limit, reason=reason)


def _render_membership(name: str, column: str, what: str, results: Mapping[str, Values]) -> Rendering:
    methods = _by_method(results)
    rows = tuple(
        (method, f"{one[column][0]:.2f}", f"{one[column][1]:.2f} to {one[column][2]:.2f}")
        for method, one in results.items()
    )
    worst = methods["redaction"][max(methods["redaction"])][column]
    loud = f"Without noise {what} succeeds as γ rises."
    judgements = [
        *(
            _at_chance(methods[method], column, f"CRT keeps {what} at chance for every γ, {CRT[method]}.")
            for method in CRT
        ),
        Judgement.of(loud, True, reason=f"AUC {worst[0]:.2f} at the highest γ, interval from {worst[1]:.2f}."),
    ]
    if worst[1] <= 0.5:
        # An attack that cannot be told from chance where nothing protects says nothing of what protects.
        weak = f"Even without noise the interval holds 0.5 (AUC {worst[0]:.2f} at the highest γ): too few canaries."
        judgements = [Judgement(one.claim, ClaimVerdict.NOT_TESTABLE, weak) for one in judgements]
    return Rendering(
        judgements=tuple(judgements),
        tables=(Grid(f"AUC of {what} by perplexity, 99 % interval", ("training", "AUC", "interval"), rows),),
        pictures=(_picture(name, results, column, "AUC"),),
        notes=(_NOTE, _POLICIES),
    )


def _at_chance(rows: Mapping[float, Values], column: str, claim: str) -> Judgement:
    """Whether every interval holds 0.5."""
    covered = [rate for rate, one in rows.items() if one[column][1] <= 0.5]
    reason = f"The 99 % interval of the AUC holds 0.5 at {len(covered)} of {len(rows)} γ."
    return Judgement.of(claim, len(covered) == len(rows), reason=reason)


_figure = partial(Experiment, paper=Paper.CRT, pieces=_pieces, needs_training=True)

EXPERIMENTS: Final = (
    _figure(name="crt-fig2", title="utility and guarantee", render=_render_fig2),
    _figure(name="crt-fig3", title="canary exposure against the miss rate", render=_render_fig3),
    _figure(
        name="crt-fig4",
        title="membership inference against the miss rate",
        render=partial(_render_membership, "crt-fig4", "auc", "membership inference"),
    ),
    _figure(
        name="crt-fig5",
        title="group membership inference against the miss rate",
        render=partial(_render_membership, "crt-fig5", "group_auc", "group membership inference"),
    ),
)
