"""What private answers are worth, and whether they give secrets away: real ensembles on customer dialogues and
codes.

    python bench/private_prediction.py [--dialogues N] [--parts K ...] [--seeds N] [--only utility|codes]

Utility: the embedded public model, LoRA adapters of k parts on generated dialogues, split by owner; held-out
dialogues of other owners, read in random order up to 1,024 tokens; every mechanism at (8, 1e-5) for one part. A
seed changes the dialogues, the split, the training and the held-out text; intervals are Student's over seeds. "Of
the gap" is how far a mechanism goes from the public model's log-perplexity to the non-private ensemble's, the
issue's target being 40 %.

Codes: sixteen codes of 2 to 5 digits, one owner each, "My number is: 381940". The undefended model is trained on
all of them; the ensemble's parts on two or so each, so long that each part knows its own. Each is asked for codes
until 1,024 tokens are spent. Guessing hits 16 / 10^ℓ.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from reticent.auditing.codes import CodeHits, PlantedCodes, answers_of, attack_codes  # noqa: E402
from reticent.core.corpus import Corpus  # noqa: E402
from reticent.core.guarantee import Unit  # noqa: E402
from reticent.core.randomness import Randomness  # noqa: E402
from reticent.core.secret import CodeSpace, Secret  # noqa: E402
from reticent.data.generators.codes import TEMPLATE, generate_codes  # noqa: E402
from reticent.data.generators.dialogues import generate_dialogues  # noqa: E402
from reticent.data.splits import split  # noqa: E402
from reticent.models.ensemble import AdapterEnsemble, Member  # noqa: E402
from reticent.models.huggingface import HuggingFaceModel  # noqa: E402
from reticent.models.loading import load_model  # noqa: E402
from reticent.prediction.budgets import Kind, Options, Target, set_up  # noqa: E402
from reticent.prediction.evaluation import Score, evaluate, over_seeds, passages, realised_share  # noqa: E402
from reticent.prediction.mechanism import Layout  # noqa: E402
from reticent.prediction.predictor import Predictor  # noqa: E402
from reticent.prediction.tally import Tally  # noqa: E402
from reticent.training.ensemble import (  # noqa: E402
    MemberRecipe,
    Share,
    member_seed,
    split_key,
    split_owners,
    train_member,
)
from reticent.training.gradient_source import Computation  # noqa: E402
from reticent.training.loop import Schedule  # noqa: E402
from reticent.training.optimiser import OptimiserSettings  # noqa: E402
from reticent.training.release import release_model  # noqa: E402
from reticent.training.starting_model import Start, starting_model  # noqa: E402

BASE = "embedded"
RANK = 8
LENGTH = 96  # tokens read of a dialogue
TARGET = Target(epsilon=8.0, delta=1e-5, answers=1024, unit=Unit.PART)
KINDS = (
    Kind.PUBLIC,
    Kind.CLIPPED_DIFFERENCES,
    Kind.PMIXED,
    Kind.SUBMIX_F,
    Kind.NON_PRIVATE,
)
WEIGHT_LIMITS = (0.3, 0.5)  # of SubMix-F; 0.5 is the default
CODES = 16
CODE_LENGTHS = (2, 3, 4, 5)


def recipe(*, epochs: float, batch: int, rate: float) -> MemberRecipe:
    """How every member is trained."""
    return MemberRecipe(
        epochs=epochs,
        batch=batch,
        optimiser=OptimiserSettings(learning_rate=rate),
        schedule=Schedule(seconds=1e9),
        computation=Computation(token_budget=4096),
        max_length=LENGTH,
    )


def train_one(share: Share, how: MemberRecipe, folder: Path, *, seed: int) -> HuggingFaceModel:
    """One adapter on one share."""
    own = member_seed(seed, share)
    model = starting_model(Start(source=BASE, lora_rank=RANK), seed=own)
    train_member(model, share, how, folder=folder / f"{share.name}.checkpoints", seed=own, observe=lambda _: True)
    return model


def train_ensemble(corpus: Corpus, parts: int, how: MemberRecipe, folder: Path, *, seed: int) -> AdapterEnsemble:
    """An ensemble of so many parts, its owners split by a key of the seed."""
    shares = split_owners(corpus, parts, halves=False, key=split_key(Randomness.seeded(seed).child("key")))
    members = []
    for share in shares:
        release_model(train_one(share, how, folder, seed=seed), folder / share.name, guarantee=None)
        members.append(Member(share.part, folder / share.name))
    return AdapterEnsemble(load_model(BASE, dtype="float32"), members, parts=[share.name for share in shares])


def utility(parts: int, seed: int, *, dialogues: int) -> list[Score]:
    """Scores of every mechanism on one ensemble, the two weight limits of SubMix-F one after the other."""
    randomness = Randomness.seeded(seed).child("utility")
    corpus = generate_dialogues(dialogues, randomness=randomness.child("dialogues"))
    shares = split(corpus, {"train": 0.85, "held out": 0.15}, by="owner", key=b"held out" + bytes([seed]))
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        how = recipe(epochs=3, batch=8, rate=3e-3)
        ensemble = train_ensemble(shares["train"], parts, how, Path(name), seed=seed)
    layout = Layout(ensemble.rows)
    setups = []
    for kind in KINDS:
        limits = WEIGHT_LIMITS if kind is Kind.SUBMIX_F else (None,)
        setups += [set_up(kind, TARGET, layout, options=Options(weight_limit=limit)) for limit in limits]
    texts = ensemble.public.encode(shares["held out"].texts)
    order = randomness.permutation(len(texts))
    chosen = passages(ensemble, (texts[int(i)][:LENGTH] for i in order), answers=TARGET.answers)
    return evaluate(setups, chosen, parts=parts, horizon=TARGET.answers, randomness=randomness.child("draws"))


def utility_table(parts: int, scores: Sequence[Sequence[Score]]) -> Table:
    """A table of perplexities with intervals, one line a mechanism."""
    names = [kind.value for kind in KINDS for _ in (WEIGHT_LIMITS if kind is Kind.SUBMIX_F else (None,))]
    limits = iter(WEIGHT_LIMITS)
    names = [f"{name}, λ ≤ {next(limits)}" if name == Kind.SUBMIX_F else name for name in names]
    table = Table(title=f"k = {parts}, ε = 8, δ = 1e-5 by part, 1,024 answers, {len(scores)} seeds")
    for column in ("mechanism", "perplexity", "95% interval", "of the gap, each seed", "of the gap"):
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    for line, name in enumerate(names):
        spread = over_seeds([seed[line] for seed in scores])
        shares = [realised_share(seed[0].perplexity, seed[line].perplexity, seed[-1].perplexity) for seed in scores]
        known = [share for share in shares if share is not None]
        each = " ".join(f"{share:.0%}" for share in known)
        mean = f"{sum(known) / len(known):.0%}" if known else "–"
        table.add_row(name, f"{spread.value:.2f}", f"{spread.low:.2f} to {spread.high:.2f}", each, mean)
    return table


def codes(length: int, seed: int, *, parts: int = 8) -> tuple[CodeHits, CodeHits, CodeHits]:
    """Hits of the undefended model, of SubMix-F, and of the public model."""
    randomness = Randomness.seeded(seed).child(f"codes {length}")
    corpus = generate_codes(CODES, randomness=randomness, length=length, repeated=False)
    values = [record.text.split(": ")[1] for record in corpus]
    space = CodeSpace(length)
    planted = PlantedCodes(TEMPLATE, space, tuple(Secret(value, "CODE") for value in values))
    generations = TARGET.answers // (length + 2)
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        folder = Path(name)
        whole = train_one(Share(0, None, corpus), recipe(epochs=250, batch=16, rate=5e-3), folder, seed=seed)
        undefended = attack_codes(
            answers_of(whole, planted, randomness=randomness.child("undefended")), planted, generations=generations
        )
        how = recipe(epochs=60, batch=4, rate=5e-3)
        ensemble = train_ensemble(_spread(corpus, parts, seed), parts, how, folder, seed=seed)
    setup = set_up(Kind.SUBMIX_F, TARGET, Layout(ensemble.rows))
    assert setup.budget is not None
    predictor = Predictor(
        ensemble,
        setup.mechanism,
        ledger=Tally(setup.budget, ensemble.parts),
        horizon=TARGET.answers,
        randomness=randomness.child("answers"),
    )

    def answer(prompt: str, count: int) -> list[str]:
        (context,) = ensemble.public.encode([prompt])
        made = [predictor.generate(context, length + 2) for _ in range(count)]
        return ensemble.public.decode(made)

    private = attack_codes(answer, planted, generations=generations)
    guessing = answers_of(ensemble.public, planted, randomness=randomness.child("public"))
    return undefended, private, attack_codes(guessing, planted, generations=generations)


def _spread(corpus: Corpus, parts: int, seed: int) -> Corpus:
    """The codes, their holders renamed until every part has somebody: sixteen owners may leave a part empty."""
    from dataclasses import replace

    from reticent.data.splits import part_of

    key = split_key(Randomness.seeded(seed).child("key"))
    names = iter(range(10**6))
    records = []
    for place, record in enumerate(corpus):
        owner = next(f"holder-{n}" for n in names if part_of(f"holder-{n}", parts, key=key) == place % parts)
        records.append(replace(record, owner=owner))
    return Corpus(records)


def codes_table(seed: int) -> Table:
    """One line a length."""
    table = Table(title=f"{CODES} random codes, k = 8, ε = 8, δ = 1e-5 by part; share of answers that are a code")
    for column in ("digits", "asked", "undefended", "SubMix-F", "95% interval", "public model", "guessing"):
        table.add_column(column, justify="right")
    for length in CODE_LENGTHS:
        undefended, private, public = codes(length, seed)
        found = private.finding()
        table.add_row(
            str(length),
            str(private.asked),
            f"{undefended.hit_rate:.3f}",
            f"{private.hit_rate:.3f}",
            f"{found.low:.3f} to {found.high:.3f}",
            f"{public.hit_rate:.3f}",
            f"{private.guess_rate:.4f}",
        )
    return table


def main(arguments: Sequence[str] = ()) -> None:
    """Train, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialogues", type=int, default=400)
    parser.add_argument("--parts", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=("utility", "codes"))
    asked = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    console = Console(width=116)
    began = time.monotonic()
    if asked.only != "utility":
        console.print(codes_table(0))
    if asked.only != "codes":
        for parts in asked.parts:
            scores = [utility(parts, seed, dialogues=asked.dialogues) for seed in range(asked.seeds)]
            console.print(utility_table(parts, scores))
    console.print(f"{time.process_time():,.0f} s of one core, {time.monotonic() - began:,.0f} s of the clock")


if __name__ == "__main__":
    main(sys.argv[1:])
