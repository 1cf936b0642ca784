"""Figure 3 (right), figure 4 and table 1 of RDP-reconstruction, on the embedded model.

    figure 3   a canary of 16 digits in DP fine-tuning: bits of secrecy left against steps, beside the bound, for
               several σ and sampling rates of the canary
    figure 4   the risk map of a model trained without defence: log-probability × calibrated loss of training,
               held-out and generated texts; table 1 are the texts most at risk

The paper fine-tunes GPT-2 on Wikitext-103 and OpenWebText for days; here the embedded model learns generated
dialogues for seconds. The canary stands in one record, so the bound speaks of exactly what is measured. One model
of each kind: a single model understates the mean over models, by about a nat.
"""

import math
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
    from reticent import Corpus
    from reticent.models import HuggingFaceModel

PROMPT: Final = "John Doe's credit card number is {}"
DIGITS: Final = 16
BITS: Final = DIGITS * math.log2(10.0)
BATCH: Final = 4
NOISES: Final = (0.3, 0.5, 1.0)
RATES: Final = (0.05, 0.2)
STEPS: Final[dict[Scale, Values]] = {
    Scale.SMALL: {"steps": 40},
    Scale.MEDIUM: {"steps": 400},
    Scale.PAPER: {"steps": 186_000, "model": "gpt2"},
}
MAP: Final[dict[Scale, Values]] = {
    Scale.SMALL: {"records": 60, "epochs": 12.0, "generated": 40},
    Scale.MEDIUM: {"records": 600, "epochs": 20.0, "generated": 400},
    Scale.PAPER: {"records": 10_000, "epochs": 20.0, "generated": 10_000, "model": "gpt2"},
}
_LENGTH: Final = 48  # tokens read of a dialogue


def _secrecy(parameters: Values, randomness: Randomness) -> Values:
    """Bits left of the canary after some of the steps of one DP-SGD run, and what the bound says of them."""
    from reticent import DpSgd
    from reticent.accounting import leakage_bounds
    from reticent.core import CodeSpace, Repeated, SampledGaussian
    from reticent.data import generate_dialogues, make_canaries, plant_canaries
    from reticent.ledger import SqliteLedger
    from reticent.training import (
        TRAINING_ACCOUNT,
        Checkpoints,
        CheckpointSchedule,
        Computation,
        Learner,
        ModelStart,
        OptimiserSettings,
        PoissonSampler,
        PrivateGradients,
        Progress,
        Units,
        encode_texts,
        load_for_training,
        train_learner,
    )

    records, rate, steps = round(BATCH / parameters["rate"]) - 1, parameters["rate"], parameters["steps"]
    dialogues = generate_dialogues(records, randomness=randomness.child("dialogues"))
    canaries = make_canaries(PROMPT, CodeSpace(DIGITS), count=1, copies=1, randomness=randomness.child("canary"))
    corpus = plant_canaries(dialogues, canaries, randomness=randomness.child("place"))
    model = load_for_training(ModelStart(source=parameters.get("model", "embedded"), device="cpu"), seed=0)
    plan = DpSgd(
        sampler=PoissonSampler(len(corpus), BATCH),
        clip_norm=1.0,
        noise_multiplier=parameters["noise_multiplier"],
        steps=steps,
        delta=1e-5,
    )
    codes, prompts = model.encode([canaries[0].secret.reveal()]), model.encode([canaries[0].prefix])
    found: dict[int, float] = {0: _bits_left(model, prompts, codes)}
    shown = sorted({steps, *(round(steps * share) for share in (0.05, 0.1, 0.25, 0.5, 0.75))})

    def observe(progress: Progress) -> bool:
        if progress.step in shown:
            found[progress.step] = _bits_left(model, prompts, codes)
        return True

    with (
        tempfile.TemporaryDirectory() as name,
        SqliteLedger.create(
            Path(name) / "l.db", plan.budget(is_seeded=True), accounts=[TRAINING_ACCOUNT]
        ) as ledger,
    ):
        source = PrivateGradients(
            model.module,
            Units(encode_texts(model, corpus, max_length=_LENGTH)),
            plan,
            ledger=ledger,
            randomness=randomness.child("noise"),
            computation=Computation(token_budget=4096),
        )
        train_learner(
            Learner(model.module, OptimiserSettings(learning_rate=1e-3)),
            source,
            checkpoints=Checkpoints(Path(name) / "checkpoints"),
            schedule=CheckpointSchedule(seconds=1e9),
            seed=0,
            observe=observe,
        )
    step = SampledGaussian(parameters["noise_multiplier"], rate)
    bounds = [BITS if not n else BITS - leakage_bounds(Repeated(step, n), BITS).least for n in found]
    return {"steps": list(found), "bits": list(found.values()), "bound": bounds}


def _bits_left(model: "HuggingFaceModel", prompts: Sequence[Any], codes: Sequence[Any]) -> float:
    from reticent.auditing import emission_log_prob
    from reticent.core import Sampling

    return float(-emission_log_prob(model, codes, Sampling(), prompts=prompts)[0] / math.log(2.0))


def _canary_pieces(scale: Scale) -> list[Piece]:
    return [
        Piece(
            f"q = {rate:g}, σ = {noise:g}",
            {"rate": rate, "noise_multiplier": noise, **STEPS[scale]},
            _secrecy,
            "rdp-canary",
        )
        for rate in RATES
        for noise in NOISES
    ]


def _render_canary(results: Mapping[str, Values]) -> Rendering:
    panels = []
    for rate in RATES:
        chosen = {name: one for name, one in results.items() if name.startswith(f"q = {rate:g},")}
        lines = []
        for at, (name, one) in enumerate(chosen.items()):
            x, noise = tuple(map(float, one["steps"])), name.split(", ")[1]
            lines.append(Line(name=noise, x=x, y=tuple(one["bits"]), is_marked=True, colour=at))
            lines.append(Line(name=f"bound, {noise}", x=x, y=tuple(one["bound"]), is_dashed=True, colour=at))
        panels.append(Panel(title=f"canary sampled at q = {rate:g}", x="steps", y="bits left", lines=tuple(lines)))
    above = {
        name: all(b >= low for b, low in zip(one["bits"], one["bound"], strict=True))
        for name, one in results.items()
    }
    left = {name: one["bits"][-1] for name, one in results.items()}
    rows = tuple(
        (name, f"{one['bits'][0]:.1f}", f"{one['bits'][-1]:.1f}", f"{one['bound'][-1]:.1f}")
        for name, one in results.items()
    )
    weakest = f"q = {RATES[-1]:g}, σ = {NOISES[0]:g}"
    ends = [[left[f"q = {rate:g}, σ = {noise:g}"] for noise in (NOISES[0], NOISES[-1])] for rate in RATES]
    ordered = all(low <= high for low, high in ends)
    return Rendering(
        judgements=(
            Judgement.of(
                "The measured secrecy is above the bound at all steps, for every σ and q.",
                all(above.values()),
                reason=f"In {sum(above.values())} of {len(above)} runs.",
            ),
            Judgement.of(
                "Even the least private run does not give the whole secret away.",
                left[weakest] > 1.0,
                reason=f"{left[weakest]:.1f} bits are left at {weakest}, where the bound promises "
                f"{results[weakest]['bound'][-1]:.1f}.",
            ),
            Judgement.of(
                "Less noise leads to more leakage.",
                ordered,
                reason="At the last step, lowest against highest σ, at both q: "
                + ", ".join(f"{bits:.1f} at {name}" for name, bits in left.items())
                + ".",
            ),
        ),
        tables=(
            Grid(
                "Bits left of a 16-digit canary (53.2 bits), one run each",
                ("run", "before training", "at the end", "at least, by the bound"),
                rows,
            ),
        ),
        pictures=(Picture("rdp-fig3-canary", tuple(panels)),),
        notes=(
            "Before training the model gives the number a lower chance than a uniform guess: it does not expect 16 "
            "random digits. The paper's least private setting is σ = 0.3, q = 0.2 as here, over more steps.",
        ),
    )


def _trained(corpus: "Corpus", parameters: Values, randomness: Randomness) -> "HuggingFaceModel":
    """The public model trained plainly on a corpus."""
    from reticent import load_model, train
    from reticent.data import write_corpus

    with tempfile.TemporaryDirectory(prefix="reticent-") as name:
        write_corpus(corpus, Path(name) / "train.jsonl")
        train(
            Path(name) / "train.jsonl",
            model=parameters.get("model", "embedded"),
            method="sgd",
            out=Path(name) / "run",
            epochs=parameters["epochs"],
            batch=8,
            learning_rate=1e-3,
            max_length=_LENGTH,
            device="cpu",
            seed=randomness.fresh_seed() % 2**31,
        )
        return load_model(Path(name) / "run" / "model")


def _map(parameters: Values, randomness: Randomness) -> Values:
    from reticent import Corpus, Record
    from reticent.auditing import draw_risk_map
    from reticent.core import Sampling
    from reticent.data import generate_dialogues

    size = parameters["records"]
    # Two lines of a dialogue each: texts short enough that some are likely to be emitted whole.
    whole = generate_dialogues(3 * size, randomness=randomness.child("dialogues"))
    texts = ["\n".join(record.text.split("\n")[:2]) for record in whole]
    parts = [
        Corpus(Record(f"{n}/{i}", t) for i, t in enumerate(texts[n * size : (n + 1) * size])) for n in range(3)
    ]
    target = _trained(parts[0], parameters, randomness.child("target"))
    reference = _trained(parts[1], parameters, randomness.child("reference"))
    sampled = target.complete(
        [""], Sampling(max_tokens=_LENGTH), count=parameters["generated"], randomness=randomness.child("generated")
    )[0]
    generated = [Record(f"g/{n}", text) for n, text in enumerate(sampled) if text.strip()]
    drawn = draw_risk_map(
        target, reference, groups={"training": parts[0], "held-out": parts[2], "generated": generated}
    )
    return {
        "groups": {
            group.name: {"x": group.log_probs.tolist(), "y": group.calibrated.tolist()} for group in drawn.groups
        },
        "worst": [[row.tokens, row.emission, row.calibrated, row.gain] for row in drawn.worst(5)],
    }


def _render_map(results: Mapping[str, Values]) -> Rendering:
    groups = results["map"]["groups"]
    means = {name: sum(one["y"]) / len(one["y"]) for name, one in groups.items()}
    others = groups["held-out"]["y"]
    spread = math.sqrt(sum((y - means["held-out"]) ** 2 for y in others) / len(others))
    rows = tuple(
        (
            str(tokens),
            f"10^{emission / math.log(10.0):.1f}",
            f"{calibrated:+.2f}",
            f"10^{gain / math.log(10.0):.1f}",
        )
        for tokens, emission, calibrated, gain in results["map"]["worst"]
    )
    lines = tuple(
        Line(name=name, x=tuple(one["x"]), y=tuple(one["y"]), is_marked=True, is_joined=False)
        for name, one in groups.items()
    )
    return Rendering(
        judgements=(
            Judgement.of(
                "Training texts have a lower calibrated loss than held-out ones.",
                means["training"] < means["held-out"] - 3.0 * spread / math.sqrt(len(others)),
                reason=f"Means {means['training']:.2f} and {means['held-out']:.2f} nats; asked: 3 standard errors.",
            ),
            Judgement.of(
                "Held-out texts have a calibrated loss around 0.",
                abs(means["held-out"]) < 0.5 * spread,
                reason=f"Mean {means['held-out']:+.2f}, standard deviation {spread:.2f}.",
            ),
            Judgement.of(
                "Generated texts have a lower calibrated loss on average than training texts.",
                means["generated"] < means["training"],
                reason=f"Means {means['generated']:.2f} and {means['training']:.2f} nats; who read few texts many "
                "times knows them better than what it makes up itself.",
            ),
        ),
        tables=(
            Grid(
                "The texts most at risk, as table 1 (texts are not shown)",
                ("tokens", "probability", "calibrated loss", "gained"),
                rows,
            ),
        ),
        pictures=(
            Picture(
                "rdp-fig4",
                (Panel(title="", x="log-probability (nats)", y="calibrated loss (nats)", lines=lines),),
            ),
        ),
        notes=("Table 1 prints 10^−3.6 and −9.81 for its sentence most at risk.",),
    )


_figure = partial(Experiment, paper=Paper.RDP, needs_training=True)

EXPERIMENTS: Final = (
    _figure(
        name="rdp-fig3-canary",
        title="secrecy of a canary under DP fine-tuning",
        pieces=_canary_pieces,
        render=_render_canary,
    ),
    _figure(
        name="rdp-fig4-table1",
        title="risk map and the texts most at risk",
        pieces=lambda scale: [Piece("map", dict(MAP[scale]), _map)],
        render=_render_map,
    ),
)
