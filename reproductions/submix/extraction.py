"""Figure 6 of SubMix: random codes, one to each model of the ensemble, asked for through SubMix at growing ε.

m codes of ℓ digits stand in a sentence each, k = m/2 parts of two models: every model learns one code by heart. The
attack gives the sentence's beginning g times (`auditing.attacks.extraction.codes`); a hit is an answer that is one
of the codes. SubMix is Algorithm 2 at order 2, its ε spread over the tokens of all g answers; its budget is one for
all of them. Beside it one model trained on all codes without protection, and blind guessing, m / 10^ℓ.

The expected hit rate has a ceiling for a secret in one part, m times `accounting.bounds.parts.extraction_success`;
it is 1 at every ε of the figure. Algorithm 2 promises even that of the actual data alone, up to its stopping time.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

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
from reticent.core import Randomness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reticent import Corpus
    from reticent.auditing import PlantedCodes
    from reticent.models import AdapterEnsemble, HuggingFaceModel

TEMPLATE: Final = "My number is: {}"
LENGTHS: Final = (2, 3, 4, 5)
EPSILONS: Final = (10.0, 100.0, 1000.0, 10_000.0, 100_000.0)
ORDER: Final = 2.0
DELTA: Final = 1e-5
_TOKENS: Final = 4  # that an answer may have beyond its digits, as the attack on a model asks for
SIZES: Final[dict[Scale, Values]] = {
    Scale.SMALL: {"parts": 3, "generations": 100, "steps": 150.0, "open_steps": 300.0, "learning_rate": 1e-2},
    Scale.MEDIUM: {"parts": 8, "generations": 1000, "steps": 200.0, "open_steps": 300.0, "learning_rate": 1e-2},
    Scale.PAPER: {"parts": 3, "generations": 100, "steps": 1000.0, "open_steps": 1000.0, "learning_rate": 1e-3}
    | {"model": "gpt2"},
}


def _attack(parameters: Values, randomness: Randomness) -> Values:
    """Hit rates at one length of codes: without protection, and through SubMix at every ε."""
    import tempfile
    from pathlib import Path

    from reproductions.submix.dialogue_ensembles import BASE, EnsembleSettings, assemble, train_members
    from reticent import Corpus
    from reticent.auditing import PlantedCodes, attack_codes, code_answers
    from reticent.core import CodeSpace, Secret
    from reticent.data import generate_codes
    from reticent.training import MemberShare, verify_disjoint

    parts, length = parameters["parts"], parameters["length"]
    corpus = generate_codes(
        2 * parts, randomness=randomness.child("codes"), length=length, template=TEMPLATE, repeated=False
    )
    codes = tuple(Secret(text[s.start : s.end], "CODE") for text, (s,) in ((r.text, r.spans) for r in corpus))
    planted = PlantedCodes(TEMPLATE, CodeSpace(length), codes)
    settings = EnsembleSettings(
        dialogues=0,
        parts=parts,
        epochs=parameters["steps"],  # a share is one record: an epoch is a step
        source=parameters.get("model", BASE),
        learning_rate=parameters["learning_rate"],
        batch=2 * parts,
    )
    shares = [MemberShare(place // 2, place % 2, Corpus([record])) for place, record in enumerate(corpus)]
    verify_disjoint(shares, corpus)
    generations = parameters["generations"]
    with tempfile.TemporaryDirectory(prefix="reticent-") as name:
        folder = Path(name)
        ensemble = assemble(train_members(shares, settings, folder, randomness=randomness), settings)
        open_model = train_unprotected(
            corpus, settings.source, steps=parameters["open_steps"], folder=folder / "open", randomness=randomness
        )
    draws = randomness.child("attack")
    plain = attack_codes(code_answers(open_model, planted, randomness=draws), planted, generations=generations)
    found = {}
    for epsilon in EPSILONS:
        answer = _private_answers(ensemble, planted, epsilon, draws.child(f"{epsilon:g}"), generations=generations)
        hits = attack_codes(answer, planted, generations=generations)
        found[f"{epsilon:g}"] = {
            "hit_rate": hits.hit_rate,
            "high": hits.finding().high,
            "recall": hits.recall,
            "ceiling": _ceiling(epsilon, planted),
        }
    return {
        "open": {"hit_rate": plain.hit_rate, "recall": plain.recall},
        "members": _member_chances(ensemble, planted),
        "guess": plain.guess_rate,
        "submix": found,
    }


def train_unprotected(
    corpus: "Corpus", source: str, *, steps: float, folder: "Path", randomness: Randomness
) -> "HuggingFaceModel":
    """One model on all codes at once, all of its weights: an adapter learns three of four by heart."""
    from reproductions.submix.dialogue_ensembles import LENGTH
    from reticent.training import (
        CheckpointSchedule,
        Computation,
        Decay,
        MemberRecipe,
        MemberShare,
        ModelStart,
        OptimiserSettings,
        load_for_training,
        train_member,
    )

    how = MemberRecipe(
        epochs=steps,
        batch=len(corpus),
        optimiser=OptimiserSettings(learning_rate=2e-3, decay=Decay.LINEAR),
        schedule=CheckpointSchedule(seconds=1e9),
        computation=Computation(token_budget=4096),
        max_length=LENGTH,
    )
    seed = randomness.child("unprotected").fresh_seed()
    model = load_for_training(ModelStart(source=source, device="cpu"), seed=seed)
    train_member(model, MemberShare(0, None, corpus), how, folder=folder, seed=seed, observe=lambda _: True)
    model.module.eval()
    return model


def _member_chances(ensemble: "AdapterEnsemble", planted: "PlantedCodes") -> list[float]:
    """The chance that each model gives to its own code after the prompt."""
    texts = ensemble.public.encode([planted.template.format(code.reveal()) for code in planted.codes])
    (prompt,) = ensemble.public.encode([planted.prompt])
    chances = []
    for row, text in enumerate(texts, start=1):
        log_probs = ensemble.position_log_probs(text)  # [T, 1 + rows, V]
        chances.append(math.exp(sum(log_probs[t, row, text[t]] for t in range(len(prompt), len(text)))))
    return chances


def _ceiling(epsilon: float, planted: "PlantedCodes") -> float:
    from reticent.accounting import extraction_success
    from reticent.auditing import hit_rate_ceiling

    bound = extraction_success(ORDER, epsilon, candidates=planted.space.size)
    return hit_rate_ceiling(bound.success, len(planted.codes))


def _private_answers(
    ensemble: "AdapterEnsemble",
    planted: "PlantedCodes",
    epsilon: float,
    randomness: Randomness,
    *,
    generations: int,
) -> "Callable[[str, int], list[str]]":
    """SubMix at (2, ε) as the attack sees it: all answers side by side, one budget for all."""
    from reticent.accounting import epsilon_from_renyi
    from reticent.prediction import (
        Layout,
        MechanismName,
        MechanismOptions,
        MemoryLedger,
        PredictionTarget,
        TokenPredictor,
        set_up_mechanism,
    )

    tokens = planted.space.length + _TOKENS
    converted = epsilon_from_renyi(ORDER, epsilon, delta=DELTA)
    target = PredictionTarget(epsilon=converted, delta=DELTA, queries=generations * tokens)
    setup = set_up_mechanism(
        MechanismName.SUBMIX, target, Layout(ensemble.rows), options=MechanismOptions(order=ORDER)
    )
    assert setup.budget is not None
    tally = MemoryLedger(setup.budget, ensemble.parts)
    predictor = TokenPredictor(
        ensemble, setup.mechanism, ledger=tally, queries=generations * tokens, randomness=randomness
    )

    def answer(prompt: str, count: int) -> list[str]:
        (context,) = ensemble.public.encode([prompt])
        handles = [predictor.open(context) for _ in range(count)]
        made: list[list[int]] = [[] for _ in handles]
        for _ in range(tokens):
            for row, token in zip(made, predictor.step(handles), strict=True):
                row.append(token)
        return ensemble.public.decode(made)

    return answer


def _pieces(scale: Scale) -> list[Piece]:
    return [Piece(f"{n} digits", {**SIZES[scale], "length": n}, _attack, "submix-codes") for n in LENGTHS]


def _render(results: Mapping[str, Values]) -> Rendering:
    lines = tuple(
        Line(name=name, x=EPSILONS, y=tuple(_at(one, e)["hit_rate"] for e in EPSILONS), is_marked=True)
        for name, one in results.items()
    )
    rows = tuple(
        (
            name,
            f"{one['open']['hit_rate']:.0%}",
            f"{one['guess']:.2%}",
            *(f"{_at(one, e)['hit_rate']:.0%}" for e in EPSILONS),
        )
        for name, one in results.items()
    )
    return Rendering(
        judgements=(*_judged(results),),
        tables=(
            Grid(
                "Hit rate of the answers",
                ("codes", "no protection", "blind guess", *(f"SubMix, ε = {e:g}" for e in EPSILONS)),
                rows,
            ),
        ),
        pictures=(
            Picture("submix-fig6", (Panel(title="", x="ε at order 2", y="hit rate", lines=lines, is_log_x=True),)),
        ),
        notes=("One draw of codes at each length.", _proved(results)),
    )


def _at(one: Values, epsilon: float) -> Values:
    found: Values = one["submix"][f"{epsilon:g}"]
    return found


def _proved(results: Mapping[str, Values]) -> str:
    """What the extraction bound says of these hit rates: mostly nothing, and that is said."""
    least = min(_at(one, e)["ceiling"] for one in results.values() for e in EPSILONS)
    if least >= 1.0:
        return (
            "The extraction bound allows every code to be extracted at each ε shown: that SubMix prevents it is "
            "measured here, not proved."
        )
    passed = any(_at(one, e)["hit_rate"] > _at(one, e)["ceiling"] for one in results.values() for e in EPSILONS)
    return (
        f"The extraction bound allows a hit rate of {least:.2f} at least; it is {'' if passed else 'not '}passed."
    )


def _judged(results: Mapping[str, Values]) -> list[Judgement]:
    weakest = min(one["open"]["hit_rate"] for one in results.values())
    memorised = Judgement.of(
        "Without protection the hit rate is at least 0.9 at every length.",
        weakest >= 0.9,
        reason=f"At least {weakest:.2f}; the model was trained on the codes alone.",
    )
    claim = "SubMix prevents the attack at ε = 100 for all lengths."
    at = {name: (_at(one, 100.0)["hit_rate"], one["guess"]) for name, one in results.items()}
    reason = "Hit rate and blind guess: " + ", ".join(f"{name} {r:.2f} and {g:.2g}" for name, (r, g) in at.items())
    if weakest < 0.5:
        prevented = Judgement(claim, ClaimVerdict.NOT_TESTABLE, "Without protection the codes were not memorised.")
    else:
        # A tenth is what 100 answers distinguish from no hit or a guess at two digits.
        held = all(rate < guess + 0.1 for rate, guess in at.values())
        prevented = Judgement.of(claim, held, reason=f"{reason}; taken as: less than a tenth above guessing.")
    last = {name: _at(one, EPSILONS[-2])["hit_rate"] for name, one in results.items()}
    short, long = last[f"{LENGTHS[0]} digits"], last[f"{LENGTHS[-1]} digits"]
    return [
        memorised,
        prevented,
        Judgement.of(
            "Extraction becomes more difficult as the codes get longer.",
            long <= short,
            reason=f"At ε = {EPSILONS[-2]:g}: {short:.2f} with {LENGTHS[0]} digits, {long:.2f} with {LENGTHS[-1]}.",
        ),
    ]


_figure = partial(Experiment, paper=Paper.SUBMIX, needs_training=True)

EXPERIMENTS: Final = (
    _figure(name="submix-fig6", title="random codes extracted through SubMix", pieces=_pieces, render=_render),
)
