"""What private answers are worth, and whether they give secrets away: real ensembles on customer dialogues and
codes.

    python bench/private_prediction.py [--dialogues N] [--parts K ...] [--seeds N] [--only utility|codes]

Utility: the embedded public model, LoRA adapters of k parts on generated dialogues, split by owner; held-out
dialogues of other owners, read in random order up to 1,024 tokens; every mechanism at (8, 1e-5) for one part. A
seed changes the dialogues, the split, the training and the held-out text; intervals are Student's over seeds. "Gap
in perplexity" is how far a mechanism goes from the public model to the non-private ensemble, (public −
private)/(public − non-private), the published way of counting, whose target is 40 %; "gap in loss" is the same in
logarithms, which is harder. Seeds differ in corpora more than mechanisms do, so SubMix-F and its rivals are
compared by the ratio of their perplexities within each seed.

Codes: sixteen codes of 2 to 5 digits, one owner each, "My number is: 381940". The undefended model is trained on
all of them, all of its weights; the ensemble's parts on two each, so long that each part knows its own. Each is
asked for codes until 1,024 tokens are spent. Guessing hits 16 / 10^ℓ. The bound is sixteen times the chance that
the budget's Rényi guarantee leaves to any attack to name one code (`accounting.parts.extraction_success`).
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

from reticent.accounting.parts import extraction_success  # noqa: E402
from reticent.auditing.codes import (  # noqa: E402
    CodeHits,
    PlantedCodes,
    answers_of,
    attack_codes,
    hit_rate_ceiling,
)
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
from reticent.prediction.budgets import (  # noqa: E402
    DEFAULT_WEIGHT_LIMIT,
    Kind,
    Options,
    Target,
    best_order,
    renyi_limit,
    set_up,
)
from reticent.prediction.evaluation import (  # noqa: E402
    Score,
    Spread,
    evaluate,
    over_seeds,
    paired_ratio,
    passages,
    realised_perplexity,
    realised_share,
)
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
from reticent.training.optimiser import Decay, OptimiserSettings  # noqa: E402
from reticent.training.release import release_model  # noqa: E402
from reticent.training.starting_model import Start, starting_model  # noqa: E402

BASE = "embedded"
RANK = 8
LENGTH = 96  # tokens read of a dialogue
TARGET = Target(epsilon=8.0, delta=1e-5, answers=1024, unit=Unit.PART)
KINDS = (
    Kind.PUBLIC,
    Kind.AGGREGATE,
    Kind.GNMAX,
    Kind.CLIPPED_DIFFERENCES,
    Kind.PMIXED,
    Kind.SUBMIX_F,
    Kind.NON_PRIVATE,
)
WEIGHT_LIMITS = (0.2, 0.3, 0.5)  # of SubMix-F
CODES = 16
CODE_LENGTHS = (2, 3, 4, 5)


def recipe(*, epochs: float, batch: int, rate: float, decay: Decay = Decay.CONSTANT) -> MemberRecipe:
    """How every member is trained."""
    return MemberRecipe(
        epochs=epochs,
        batch=batch,
        optimiser=OptimiserSettings(learning_rate=rate, decay=decay),
        schedule=Schedule(seconds=1e9),
        computation=Computation(token_budget=4096),
        max_length=LENGTH,
    )


def train_one(share: Share, how: MemberRecipe, folder: Path, *, seed: int, rank: int = RANK) -> HuggingFaceModel:
    """One adapter on one share; rank 0 trains the model itself."""
    own = member_seed(seed, share)
    model = starting_model(Start(source=BASE, lora_rank=rank), seed=own)
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


def line_names() -> list[str]:
    """What the lines of `utility` are, in order."""
    return [
        f"{kind.value}, λ ≤ {limit}" if limit else kind.value
        for kind in KINDS
        for limit in (WEIGHT_LIMITS if kind is Kind.SUBMIX_F else (None,))
    ]


def utility_table(parts: int, scores: Sequence[Sequence[Score]]) -> Table:
    """A table of perplexities with intervals, one line a mechanism."""
    table = Table(title=f"k = {parts}, ε = 8, δ = 1e-5 by part, 1,024 answers, {len(scores)} seeds")
    columns = (
        "mechanism",
        "perplexity",
        "95% interval",
        "gap in perplexity, each seed",
        "mean",
        "gap in loss, mean",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    for line, name in enumerate(line_names()):
        spread = over_seeds([seed[line] for seed in scores])
        ends = [(seed[0].perplexity, seed[line].perplexity, seed[-1].perplexity) for seed in scores]
        found = [[way(*each) for each in ends] for way in (realised_perplexity, realised_share)]
        in_perplexity, in_loss = ([share for share in shares if share is not None] for shares in found)
        table.add_row(
            name,
            f"{spread.value:.2f}",
            f"{spread.low:.2f} to {spread.high:.2f}",
            " ".join(f"{share:.0%}" for share in in_perplexity),
            _mean(in_perplexity),
            _mean(in_loss),
        )
    return table


def paired_table(parts: int, scores: Sequence[Sequence[Score]]) -> Table:
    """SubMix-F's perplexity over each rival's, within each seed."""
    default = line_names().index(f"{Kind.SUBMIX_F.value}, λ ≤ {DEFAULT_WEIGHT_LIMIT}")
    ours = [seed[default] for seed in scores]
    table = Table(
        title=f"k = {parts}: perplexity of SubMix-F (λ ≤ {DEFAULT_WEIGHT_LIMIT}) over the rival's, by seed"
    )
    for column in ("rival", "ratio", "95% interval", "verdict"):
        table.add_column(column, justify="right" if column in ("ratio", "95% interval") else "left")
    for line, name in enumerate(line_names()):
        if line != default:
            ratio = paired_ratio(ours, [seed[line] for seed in scores])
            table.add_row(name, f"{ratio.value:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}", _verdict(ratio))
    return table


def _mean(shares: Sequence[float]) -> str:
    return f"{sum(shares) / len(shares):.0%}" if shares else "–"


def _verdict(ratio: Spread) -> str:
    if ratio.seeds < 2:
        return "one seed says nothing"
    return "better" if ratio.high < 1.0 else "worse" if ratio.low > 1.0 else "not told apart"


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
        long = recipe(epochs=150, batch=16, rate=2e-3, decay=Decay.LINEAR)
        # A folder of its own: the first part would take up the checkpoint of a share with its name.
        whole = train_one(Share(0, None, corpus), long, folder / "undefended", seed=seed, rank=0)
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


def codes_bound(length: int) -> float:
    """The greatest expected hit rate that SubMix-F's budget allows on the codes of so many digits."""
    order = best_order(TARGET)
    found = extraction_success(order, renyi_limit(TARGET, order), candidates=CodeSpace(length).size)
    return hit_rate_ceiling(found.success, CODES)


def codes_table(seed: int) -> Table:
    """One line a length."""
    table = Table(title=f"{CODES} random codes, k = 8, ε = 8, δ = 1e-5 by part; share of answers that are a code")
    columns = ("digits", "asked", "undefended", "SubMix-F", "95% interval", "guessing", "public model", "bound")
    for column in columns:
        table.add_column(column, justify="right")
    for length in CODE_LENGTHS:
        undefended, private, public = codes(length, seed)
        found, bound = private.finding(), codes_bound(length)
        table.add_row(
            str(length),
            str(private.asked),
            f"{undefended.hit_rate:.3f}",
            f"{private.hit_rate:.3f}",
            f"{found.low:.3f} to {found.high:.3f}",
            f"{private.guess_rate:.4f}",
            f"{public.hit_rate:.3f}",
            f"{bound:.3f}, {'passed' if found.low > bound else 'held'}",
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
            console.print(paired_table(parts, scores))
    console.print(f"{time.process_time():,.0f} s of one core, {time.monotonic() - began:,.0f} s of the clock")


if __name__ == "__main__":
    main(sys.argv[1:])
