"""The PII defence table in the order of Lukas et al. 2023, Table VI, on generated case law with a tiny model.

    python bench/pii_defences.py [--cases N] [--epochs N] [--private-epochs N] [--texts N] [--targets N]
                                 [--candidates N] [--seed N] [--only NAME ...] [--out FILE]

All models start from the embedded one. Beside the first row the same candidates are ranked in other ways: span in
context and calibrated, uncalibrated, by the base, and by whole-sentence perplexity as the paper does. The paper's
figures for GPT-2-Large on ECHR (precision, recall, reconstruction, inference, AUC): 30 / 23 / 18 / 70 % /
0.96 undefended, 3 / 3 / 1 / 8 % / 0.5 with DP at ε = 8, and 0 / 0 / 0 / 1 % / 0.82 scrubbed.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from reproductions.pii.defences import (  # noqa: E402
    COLUMNS,
    DefenceRow,
    DefenceTable,
    TableSettings,
    compare_scorings,
    measure_defence,
    prepare_games,
)
from reproductions.pii.training import Defence, TrainingSettings, train_defended  # noqa: E402
from reticent.core.document import write_document  # noqa: E402


def line(row: DefenceRow) -> str:
    """A row of the table; "–" where there was no data."""
    cells = [f"{row.defence.value:<16}", f"{row.perplexity:>10.2f}", f"{row.masked_perplexity:>10.2f}"]
    for metric in COLUMNS.values():
        value = row.value(metric)
        cells.append(f"{'–':>12}" if value is None else f"{value:>12.3f}")
    return "".join(cells)


def main(arguments: Sequence[str] = ()) -> int:
    """Train every defence, play every game, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--private-epochs", type=int, default=4)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--targets", type=int, default=40)
    parser.add_argument("--candidates", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=[defence.value for defence in Defence])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    settings = TableSettings(
        cases=chosen.cases,
        held_out=3 * chosen.cases,
        texts=chosen.texts,
        targets=chosen.targets,
        candidates=chosen.candidates,
        seed=chosen.seed,
        training=TrainingSettings(epochs=chosen.epochs, private_epochs=chosen.private_epochs),
    )
    games = prepare_games(settings)
    heads = "".join(f"{name:>12}" for name in COLUMNS)
    print(f"{len(games.case_law.training)} paragraphs, {len(games.targets)} targets; {games.case_law.tagger_note}")
    print(f"{'':<16}{'ppl':>10}{'ppl masked':>10}{heads}", flush=True)
    rows = []
    for defence in Defence:
        if chosen.only is not None and defence.value not in chosen.only:
            continue
        defended = train_defended(games.case_law, defence, settings=settings.training)
        rows.append(measure_defence(defended, games, settings=settings))
        print(line(rows[-1]), flush=True)
        for one in rows[-1].comparisons:
            limit = "not comparable" if one.ceiling is None else f"{one.ceiling:.3f}"
            print(f"    ceiling of {one.finding.metric}: {limit}; {one.verdict.value}")
        if defence is Defence.UNDEFENDED:
            for each in compare_scorings(defended.model, games, settings=settings):
                shares = f"reconstruction {each.reconstruction:.3f}, inference {each.inference:.3f}"
                print(f"    {each.scoring:<28} {shares}")
    if chosen.out is not None:
        write_document(chosen.out, DefenceTable(tuple(rows)).to_json())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
