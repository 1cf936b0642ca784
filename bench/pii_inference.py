"""The PII inference game, |C| = 100 for 200 masked values: candidates share their prefix, or a forward for each.

Both score the same candidates in the same generated cases with the embedded model, in the same process, turn
about, tokenizing included, and must agree to 1e-3 in every score and in every guess. The other side is the plain
loop that scripts of the field use: one candidate, one text, one forward, log-softmax, gather. It is timed on a
share of the places, evenly spread, and ours on the very same ones for the ratio. Processor time, one thread.

Sharing the prefix cannot save more than the tokens it spares: the `limit` printed beside each ratio is the tokens
that the plain loop computes over those that have to be computed. A vocabulary of 1,024 cuts a name into eight
tokens, and a suffix has to be computed after each candidate anew. 20 times as fast needs a limit well above 20:
names of two or three tokens after a long context, as with the vocabularies of large models.

    python -m bench pii_inference
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reticent.auditing.pii_contexts import ContextWindow, MaskedSpan, Others, masked_spans
from reticent.auditing.pii_inference import CandidateSet, draw_candidates, token_counter
from reticent.auditing.pii_inventory import take_inventory
from reticent.auditing.pii_scoring import CandidateScorer
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_cases
from reticent.models.huggingface import HuggingFaceModel
from reticent.models.loading import load_model

SENTENCES, CANDIDATES = 200, 100
COMPARED = 6  # sentences of which the plain loop is timed
ROUNDS = 3
REQUIRED_RATIO = 3.0  # of the scoring with suffix: below, the sharing is broken

Floats = NDArray[np.float64]


def one_forward_each(model: HuggingFaceModel, target: MaskedSpan, candidates: Sequence[str]) -> Floats:
    """The plain loop: every candidate in its whole text; log p of value and suffix given the prefix."""
    module: Any = model.module
    opening = model.tokenizer(target.prefix.rstrip(), add_special_tokens=False)["input_ids"]
    scores = []
    with torch.inference_mode():
        for candidate in candidates:
            row = model.tokenizer(target.text(candidate), add_special_tokens=False)["input_ids"]
            tokens = torch.tensor([[model.start_token, *row]])
            log_probs = torch.log_softmax(module(input_ids=tokens).logits[0, :-1].float(), dim=-1)
            chosen = log_probs.gather(1, tokens[0, 1:, None])[:, 0]
            scores.append(float(chosen[len(opening) :].double().sum()))
    return np.array(scores)


def sentences() -> tuple[HuggingFaceModel, tuple[MaskedSpan, ...], tuple[CandidateSet, ...]]:
    """200 masked sentences of persons with 100 candidates each."""
    from reticent.models.embedded import embedded_model_path

    model = load_model(embedded_model_path(), device="cpu")
    source = Randomness.seeded(1)
    values = take_inventory(generate_cases(160, randomness=source.child("cases")))
    targets = masked_spans(
        values,
        others=Others.KNOWN,
        count=SENTENCES,
        randomness=source.child("targets"),
        kinds=("PERSON",),
        window=ContextWindow(before=1200),
    )
    draw = draw_candidates(
        targets,
        values,
        training=values,
        size=CANDIDATES,
        lengths=token_counter(model),
        randomness=source.child("decoys"),
    )
    return model, draw.targets, draw.sets


def limit(model: HuggingFaceModel, targets: Sequence[MaskedSpan], sets: Sequence[CandidateSet]) -> float:
    """Tokens of the plain loop over tokens that have to be computed: the prefix once, and every continuation."""
    plain = shared = 0
    for target, each in zip(targets, sets, strict=True):
        opening = len(model.encode([target.prefix.rstrip()])[0]) + 1
        lengths = [len(row) for row in model.encode([target.text(candidate) for candidate in each.candidates])]
        plain += sum(lengths)
        shared += opening + sum(length - opening for length in lengths)
    return plain / shared


def main() -> None:
    """Measure, print, and end with 1 where sharing does not pay or the two disagree."""
    torch.set_num_threads(1)
    model, targets, sets = sentences()
    places = np.linspace(0, len(targets) - 1, COMPARED).astype(int).tolist()
    print(f"{len(targets)} places, {CANDIDATES} candidates each; the plain loop on {COMPARED} of them")
    without = [replace(target, suffix="") for target in targets]
    worst = np.inf
    for name, asked in (("value and suffix", list(targets)), ("value alone", without)):
        chosen, kept = [asked[place] for place in places], [sets[place] for place in places]
        ratios, gap, agree = compare(model, chosen, kept)
        ratio = float(np.median(ratios))
        rounds = ", ".join(f"{each:.1f}" for each in ratios)
        most = limit(model, chosen, kept)
        print(f"{name:<18} {ratio:.1f} times as fast ({rounds}); limit {most:.1f}; gap {gap:.1e}", flush=True)
        worst = min(worst, ratio if gap <= 1e-3 and agree else 0.0)
    if worst < REQUIRED_RATIO or len(targets) < SENTENCES:
        sys.exit(1)


def compare(
    model: HuggingFaceModel, targets: Sequence[MaskedSpan], sets: Sequence[CandidateSet]
) -> tuple[list[float], float, bool]:
    """Ratios of processor time, the largest gap of two scores, and whether all guesses agree."""
    scorer = CandidateScorer(model)
    candidates = [each.candidates for each in sets]
    one_forward_each(model, targets[0], candidates[0][:5])
    scorer.scores(targets[:1], [candidates[0][:5]])
    ratios, gap, agree = list[float](), 0.0, True
    for _ in range(ROUNDS):
        began = time.process_time()
        slow = [one_forward_each(model, target, each) for target, each in zip(targets, candidates, strict=True)]
        middle = time.process_time()
        fast = scorer.scores(targets, candidates)
        ratios.append((middle - began) / (time.process_time() - middle))
        gap = max(gap, *(float(np.abs(a - b).max()) for a, b in zip(slow, fast, strict=True)))
        agree &= all(int(a.argmax()) == int(b.argmax()) for a, b in zip(slow, fast, strict=True))
    return ratios, gap, agree


if __name__ == "__main__":
    main()
