"""Whether private answers give secrets away: random codes asked of an undefended model and of a private ensemble.

    python bench/random_codes.py [--seed N]

Sixteen codes of 2 to 5 digits, one owner each, "My number is: 381940". The undefended model is trained on all of
them, all of its weights; the ensemble's parts on two each, so long that each part knows its own. Each is asked for
codes until 1,024 tokens are spent. Guessing hits 16 / 10^ℓ. The bound is sixteen times the chance that the budget's
Rényi guarantee leaves to any attack to name one code (`accounting.bounds.parts.extraction_success`). Ends with 1
where the undefended model says fewer than 90 % codes, or the private ensemble more than guessing or the bound
explains.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
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
    BASE,
    EnsembleSettings,
    assemble,
    train_members,
)
from reproductions.submix.extraction import train_unprotected  # noqa: E402
from reticent.accounting.bounds.parts import extraction_success  # noqa: E402
from reticent.auditing.attacks.extraction.codes import (  # noqa: E402
    CodeHits,
    PlantedCodes,
    attack_codes,
    code_answers,
    hit_rate_ceiling,
)
from reticent.core.corpus import Corpus  # noqa: E402
from reticent.core.guarantee import Unit  # noqa: E402
from reticent.core.randomness import Randomness  # noqa: E402
from reticent.core.secret import CodeSpace, Secret  # noqa: E402
from reticent.data.generators.codes import TEMPLATE, generate_codes  # noqa: E402
from reticent.data.splits import part_of  # noqa: E402
from reticent.prediction.budgets import (  # noqa: E402
    MechanismName,
    PredictionTarget,
    best_order,
    renyi_limit,
    set_up_mechanism,
)
from reticent.prediction.mechanisms.mechanism import Layout  # noqa: E402
from reticent.prediction.memory_ledger import MemoryLedger  # noqa: E402
from reticent.prediction.predictor import TokenPredictor  # noqa: E402
from reticent.training.methods.ensemble import (  # noqa: E402
    split_key,
    split_owners,
)

TARGET = PredictionTarget(epsilon=8.0, delta=1e-5, queries=1024, unit=Unit.PART)
CODES = 16
CODE_LENGTHS = (2, 3, 4, 5)
LEAST_UNDEFENDED = 0.9


def codes(length: int, seed: int, *, parts: int = 8) -> tuple[CodeHits, CodeHits, CodeHits]:
    """Hits of the undefended model, of SubMix-F, and of the public model."""
    randomness = Randomness.seeded(seed).child(f"codes {length}")
    corpus = generate_codes(CODES, randomness=randomness, length=length, repeated=False)
    values = [record.text.split(": ")[1] for record in corpus]
    space = CodeSpace(length)
    planted = PlantedCodes(TEMPLATE, space, tuple(Secret(value, "CODE") for value in values))
    generations = TARGET.queries // (length + 2)
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        folder = Path(name)
        whole = train_unprotected(corpus, BASE, steps=150, folder=folder / "undefended", randomness=randomness)
        undefended = attack_codes(
            code_answers(whole, planted, randomness=randomness.child("undefended")),
            planted,
            generations=generations,
        )
        settings = EnsembleSettings(dialogues=0, parts=parts, epochs=60, batch=4, learning_rate=5e-3)
        key = split_key(randomness.child("key"))
        shares = split_owners(_spread(corpus, parts, key), parts, halves=False, key=key)
        ensemble = assemble(train_members(shares, settings, folder, randomness=randomness), settings)
    setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, Layout(ensemble.rows))
    assert setup.budget is not None
    predictor = TokenPredictor(
        ensemble,
        setup.mechanism,
        ledger=MemoryLedger(setup.budget, ensemble.parts),
        queries=TARGET.queries,
        randomness=randomness.child("answers"),
    )

    def answer(prompt: str, count: int) -> list[str]:
        (context,) = ensemble.public.encode([prompt])
        made = [predictor.generate(context, length + 2) for _ in range(count)]
        return ensemble.public.decode(made)

    private = attack_codes(answer, planted, generations=generations)
    guessing = code_answers(ensemble.public, planted, randomness=randomness.child("public"))
    return undefended, private, attack_codes(guessing, planted, generations=generations)


def _spread(corpus: Corpus, parts: int, key: bytes) -> Corpus:
    """The codes, their holders renamed until every part has somebody: sixteen owners may leave a part empty."""
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


def codes_table(seed: int) -> tuple[Table, list[str]]:
    """One line a length, and what falls short."""
    table = Table(title=f"{CODES} random codes, k = 8, ε = 8, δ = 1e-5 by part; share of answers that are a code")
    columns = ("digits", "asked", "undefended", "SubMix-F", "95% interval", "guessing", "public model", "bound")
    for column in columns:
        table.add_column(column, justify="right")
    missed = []
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
        if undefended.hit_rate < LEAST_UNDEFENDED:
            missed.append(f"{length} digits: the undefended model says {undefended.hit_rate:.3f} codes")
        if found.low > min(bound, private.guess_rate):
            missed.append(f"{length} digits: the private ensemble says more codes than guessing explains")
    return table, missed


def main(arguments: Sequence[str] = ()) -> int:
    """Train, ask, print; 1 where something is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    table, missed = codes_table(asked.seed)
    Console(width=116).print(table)
    for miss in missed:
        print(f"missed: {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
