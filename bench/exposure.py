"""Exact exposure by pruned search: tokens read, against scoring every candidate with the shared prefix read once.

The embedded public model is over-trained on ten canaries in spaces of 10^6 and 10^9 codes, half of them with a
text that goes on after the code. Counted is every token that goes through the model, the sample's included. What
is reported does not depend on the machine. Ends with 1 where an exposed canary's rank is not exact or costs more
than a fiftieth.

    python -m bench.exposure [model directory]
"""

import sys
import time
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table

from reticent.auditing.attacks.exposure.candidate_trie import build_trie
from reticent.auditing.attacks.exposure.findings import exposure_findings
from reticent.auditing.attacks.exposure.ranking import Exposure, measure_exposures
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, CodeSpace
from reticent.data.canaries import make_canaries
from reticent.models.embedded import embedded_model_path
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.model import HuggingFaceModel

STEPS = 150
REQUIRED_RATIO = 50.0
TEMPLATES = ("My ID is: {}", "My ID is: {} and that is all.")


def over_train(model: HuggingFaceModel, canaries: Sequence[Canary]) -> None:
    """Full batches of the canaries alone, until they are known by heart."""
    rows = [[model.start_token, *row] for row in model.encode([canary.text() for canary in canaries])]
    optimiser = torch.optim.Adam(model.module.parameters(), lr=1e-3)
    for _ in range(STEPS):
        optimiser.zero_grad()
        for length in {len(row) for row in rows}:
            tokens = torch.tensor([row for row in rows if len(row) == length])
            model.module(input_ids=tokens, labels=tokens).loss.backward()
        optimiser.step()


def canaries_of(length: int) -> tuple[Canary, ...]:
    """Ten canaries of so many digits, half of each template."""
    randomness = Randomness.seeded(length)
    made = [
        make_canaries(template, CodeSpace(length), count=5, copies=STEPS, randomness=randomness)
        for template in TEMPLATES
    ]
    return tuple(canary for five in made for canary in five)


def enumeration_tokens(model: HuggingFaceModel, canary: Canary) -> int:
    """Tokens of scoring every candidate, their shared ones once."""
    trie = build_trie(model, [canary], randomness=Randomness.seeded(0))
    if trie is None:
        sys.exit("this model's tokenizer splits codes across symbols: nothing to compare")
    return trie.enumeration_tokens


def measure(model: HuggingFaceModel, canaries: Sequence[Canary], table: Table) -> tuple[list[Exposure], float]:
    """Exposures of the canaries, and the least ratio of tokens."""
    begin = time.perf_counter()
    found = measure_exposures(model, canaries, randomness=Randomness.seeded(1))
    seconds = time.perf_counter() - begin
    ratios = [
        enumeration_tokens(model, canary) / exposure.forward_tokens
        for canary, exposure in zip(canaries, found, strict=True)
    ]
    ranks = sorted(exposure.greatest_rank for exposure in found)
    table.add_row(
        f"10^{len(str(canaries[0].space.size)) - 1}",
        f"{sum(exposure.is_exact for exposure in found)} of {len(found)}",
        f"{ranks[0]:,} to {ranks[-1]:,}",
        f"{exposure_findings(found)[0].value:.2f}",
        f"{max(exposure.forward_tokens for exposure in found):,}",
        f"{min(ratios):,.0f}",
        f"{seconds:.1f}",
    )
    return found, min(ratios)


def main() -> None:
    """Over-train, measure both spaces, print a table."""
    torch.manual_seed(0)
    path = sys.argv[1] if sys.argv[1:] and not sys.argv[1].startswith("-") else embedded_model_path()
    table = Table(title="exact exposure of ten over-trained canaries")
    for column in ("candidates", "exact", "rank", "mean bits", "tokens (most)", "ratio (least)", "seconds"):
        table.add_column(column, justify="right")
    failed = False
    for length in (6, 9):
        model = load_model(path, device="cpu")
        canaries = canaries_of(length)
        over_train(model, canaries)
        found, ratio = measure(model, canaries, table)
        failed |= ratio < REQUIRED_RATIO or not all(exposure.is_exact for exposure in found)
    Console(width=110).print(table)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
