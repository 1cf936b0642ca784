"""What private answers are worth: real ensembles on customer dialogues, every mechanism at the same (ε, δ).

    python bench/private_prediction.py [--dialogues N] [--parts K ...] [--seeds N]

The embedded public model, LoRA adapters of k parts on generated dialogues, split by owner; held-out dialogues of
other owners, read in random order up to 1,024 tokens; every mechanism at (8, 1e-5) for one part. A seed changes the
dialogues, the split, the training and the held-out text; intervals are Student's over seeds. "Of the gap" is how
far a mechanism goes from a public model to the non-private ensemble, in log-perplexity: from the calibrated one
and from the public model as it was. Seeds differ in corpora more than mechanisms do, so SubMix-F and its rivals are
compared by the ratio of their perplexities within each seed.

The public model is calibrated on generated dialogues of another seed, which no part has seen; --plain leaves it as
it was.

Three lines promise something else and stand beside, not against. SubMix (Algorithm 2) has two adapters a part, each
on half of its text, and protects the actual data alone. DP-SGD is one model, all of its weights, at the same (ε, δ)
for one dialogue: a part is many. MemFree is the non-private ensemble without n-grams of its training text; it has
no guarantee, and where held-out text holds such an n-gram it gives the true token no chance, so that its perplexity
is infinite.

Ends with 1 unless SubMix-F is better than the public model, clipped differences and PMixED in every interval and
realises 60 % of the gap.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from reproductions.submix.dialogue_ensembles import (  # noqa: E402
    LENGTH,
    EnsembleSettings,
    PrivateRecipe,
    assemble,
    dialogue_texts,
    private_losses,
    read_passages,
    train_members,
)
from reticent.core.corpus import Corpus  # noqa: E402
from reticent.core.ensemble import Ensemble  # noqa: E402
from reticent.core.errors import ConfigError  # noqa: E402
from reticent.core.guarantee import Unit  # noqa: E402
from reticent.core.randomness import Randomness  # noqa: E402
from reticent.data.generators import generate_dialogues  # noqa: E402
from reticent.models.ensemble.adapters import AdapterEnsemble  # noqa: E402
from reticent.prediction.budgets import (  # noqa: E402
    DEFAULT_WEIGHT_LIMIT,
    MechanismName,
    MechanismOptions,
    PredictionTarget,
    Setup,
    set_up_mechanism,
)
from reticent.prediction.calibration import CalibratedEnsemble, Calibration, fit  # noqa: E402
from reticent.prediction.evaluation import (  # noqa: E402
    Score,
    Spread,
    evaluate_mechanisms,
    over_seeds,
    paired_ratio,
    realised_share,
)
from reticent.prediction.mechanisms.mechanism import Layout  # noqa: E402
from reticent.prediction.mechanisms.unprotected import NGramIndex  # noqa: E402
from reticent.training.methods.ensemble import split_key, split_owners  # noqa: E402

TARGET = PredictionTarget(epsilon=8.0, delta=1e-5, queries=1024, unit=Unit.PART)
KINDS = (
    MechanismName.PUBLIC,
    MechanismName.AGGREGATE,
    MechanismName.GNMAX,
    MechanismName.CLIPPED_DIFFERENCES,
    MechanismName.PMIXED,
    MechanismName.SUBMIX_F,
    MechanismName.NON_PRIVATE,
    MechanismName.MEMFREE,
)
OF_HALVES = (MechanismName.SUBMIX, MechanismName.SUBMIX_PER_PART)
WEIGHT_LIMITS = (0.2, 0.3, 0.5)  # of SubMix-F
NGRAM = 10
OURS = f"{MechanismName.SUBMIX_F.value}, λ ≤ {DEFAULT_WEIGHT_LIMIT}"
BEATEN = (MechanismName.PUBLIC.value, MechanismName.CLIPPED_DIFFERENCES.value, MechanismName.PMIXED.value)
LEAST_GAP = 0.6
UNCALIBRATED = "public, not calibrated"

Scores = dict[str, Score]  # by the names of the table's lines


def utility(parts: int, seed: int, *, dialogues: int, is_plain: bool) -> Scores:
    """Scores of every mechanism on the ensembles of one seed."""
    randomness = Randomness.seeded(seed).child("utility")
    settings = EnsembleSettings(dialogues=dialogues, parts=parts, epochs=3.0)
    training, held_out = dialogue_texts(settings, randomness=randomness)
    found: Scores = {}
    key = key_without_empty_halves(training, parts, randomness=randomness)
    for halves in (False, True):
        shares = split_owners(training, parts, halves=halves, key=key)
        with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
            plain = assemble(train_members(shares, settings, Path(name), randomness=randomness), settings)
        ensemble = plain if is_plain else CalibratedEnsemble(plain, calibration_of(plain, seed))
        if not halves:
            read = read_passages(plain, held_out, answers=TARGET.queries)
            public = [set_up_mechanism(MechanismName.PUBLIC, TARGET, Layout(plain.rows))]
            as_it_was = evaluate_mechanisms(
                public, read, parts=parts, queries=TARGET.queries, randomness=randomness
            )[0]
            found[UNCALIBRATED] = replace(as_it_was, mechanism=UNCALIBRATED)
        setups = setups_of(ensemble, training, halves=halves)
        scores = evaluate_mechanisms(
            list(setups.values()),
            read_passages(ensemble, held_out, answers=TARGET.queries),
            parts=parts,
            queries=TARGET.queries,
            randomness=randomness.child(f"draws, halves {halves}"),
        )
        found |= dict(zip(setups, scores, strict=True))
    recipe = PrivateRecipe(epsilon=TARGET.epsilon, delta=TARGET.delta)
    losses = private_losses(settings, recipe, randomness=randomness)[: TARGET.queries]
    found[MechanismName.DP_SGD.value] = Score(
        MechanismName.DP_SGD.value, len(losses), float(losses.mean()), 0.0, 0.0
    )
    return found


def calibration_of(ensemble: AdapterEnsemble, seed: int) -> Calibration:
    """Fitted on dialogues of a seed that no ensemble is trained on."""
    public = generate_dialogues(60, randomness=Randomness.seeded(10_000 + seed).child("public"))
    texts = (text[:LENGTH] for text in ensemble.public.encode(public.texts))
    return fit(ensemble.public.position_log_probs, texts)


def key_without_empty_halves(training: Corpus, parts: int, *, randomness: Randomness) -> bytes:
    """The first key that leaves no half of a part without an owner: a hundred owners in 32 halves may."""
    for attempt in range(1000):
        key = split_key(randomness.child(f"key {attempt}" if attempt else "key"))
        with suppress(ConfigError):
            split_owners(training, parts, halves=True, key=key)
            return key
    raise RuntimeError(f"too few owners for {parts} parts")


def setups_of(ensemble: Ensemble, training: Corpus, *, halves: bool) -> dict[str, Setup]:
    """The mechanisms that an ensemble can answer by, calibrated, by the name of their line."""
    layout = Layout(ensemble.rows)
    if halves:
        return {kind.value: set_up_mechanism(kind, TARGET, layout) for kind in OF_HALVES}
    setups = {}
    learnt = (text[:LENGTH] for text in ensemble.public.encode(training.texts))
    options = MechanismOptions(index=NGramIndex(learnt, NGRAM))
    for kind in KINDS:
        for limit in WEIGHT_LIMITS if kind is MechanismName.SUBMIX_F else (None,):
            name = f"{kind.value}, λ ≤ {limit}" if limit else kind.value
            setups[name] = set_up_mechanism(kind, TARGET, layout, options=replace(options, weight_limit=limit))
    return setups


def gaps(name: str, scores: Sequence[Scores], *, start: str = MechanismName.PUBLIC) -> list[float]:
    """How much of the gap from a public model each seed realises, in log-perplexity."""
    ends = [
        (seed[start].perplexity, seed[name].perplexity, seed[MechanismName.NON_PRIVATE].perplexity)
        for seed in scores
    ]
    return [share for share in (realised_share(*each) for each in ends) if share is not None]


def utility_table(parts: int, scores: Sequence[Scores]) -> Table:
    """A table of perplexities with intervals, one line a mechanism."""
    table = Table(title=f"k = {parts}, ε = 8, δ = 1e-5 by part, 1,024 answers, {len(scores)} seeds")
    columns = (
        "mechanism",
        "perplexity",
        "95% interval",
        "of the gap, each seed",
        "mean",
        "from the model as it was",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    for name in scores[0]:
        spread = over_seeds([seed[name] for seed in scores])
        if spread.value == float("inf"):
            table.add_row(name, "∞", "–", "–", "–", "–")
            continue
        shares = gaps(name, scores)
        table.add_row(
            name,
            f"{spread.value:.2f}",
            f"{spread.low:.2f} to {spread.high:.2f}",
            " ".join(f"{share:.0%}" for share in shares),
            _mean(shares),
            _mean(gaps(name, scores, start=UNCALIBRATED)),
        )
    return table


def paired(name: str, scores: Sequence[Scores]) -> Spread:
    """SubMix-F's perplexity over a rival's, within each seed."""
    return paired_ratio([seed[OURS] for seed in scores], [seed[name] for seed in scores])


def paired_table(parts: int, scores: Sequence[Scores]) -> Table:
    """SubMix-F against every line that has a finite perplexity."""
    table = Table(
        title=f"k = {parts}: perplexity of SubMix-F (λ ≤ {DEFAULT_WEIGHT_LIMIT}) over the rival's, by seed"
    )
    for column in ("rival", "ratio", "95% interval", "verdict"):
        table.add_column(column, justify="right" if column in ("ratio", "95% interval") else "left")
    for name in scores[0]:
        ratio = paired(name, scores)
        if name != OURS and ratio.value > 0.0:
            table.add_row(name, f"{ratio.value:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}", _verdict(ratio))
    return table


def missed(parts: int, scores: Sequence[Scores]) -> list[str]:
    """What falls short, in words."""
    found = [
        f"k = {parts}: SubMix-F is not better than {name}" for name in BEATEN if not paired(name, scores).high < 1.0
    ]
    shares = gaps(OURS, scores)
    if len(shares) < len(scores) or sum(shares) < LEAST_GAP * len(shares):
        found.append(f"k = {parts}: SubMix-F realises {_mean(shares)} of the gap")
    return found


def _mean(shares: Sequence[float]) -> str:
    return f"{sum(shares) / len(shares):.0%}" if shares else "–"


def _verdict(ratio: Spread) -> str:
    if ratio.seeds < 2:
        return "one seed says nothing"
    return "better" if ratio.high < 1.0 else "worse" if ratio.low > 1.0 else "not told apart"


def main(arguments: Sequence[str] = ()) -> int:
    """Train, measure, print; 1 where something is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialogues", type=int, default=400)
    parser.add_argument("--parts", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="leave the public model as it is")
    asked = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    console = Console(width=116)
    began = time.monotonic()
    misses = []
    for parts in asked.parts:
        scores = [
            utility(parts, seed, dialogues=asked.dialogues, is_plain=asked.plain) for seed in range(asked.seeds)
        ]
        console.print(utility_table(parts, scores))
        console.print(paired_table(parts, scores))
        misses += missed(parts, scores)
    for miss in misses:
        console.print(f"missed: {miss}")
    console.print(f"{time.process_time():,.0f} s of one core, {time.monotonic() - began:,.0f} s of the clock")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
