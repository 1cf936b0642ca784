"""The PII inference game, |C| = 100 for 200 masked values: candidates share their prefix, or a forward for each.

Both score the same candidates in the same generated cases, in the same process, turn about, tokenizing included,
and must agree to 1e-3 in every score. The other side is the plain loop that scripts of the field use: a candidate,
one text, one forward, log-softmax, gather. It is timed on a few of the places, evenly spread, and ours on the same
ones for the ratio. Processor time, one thread.

Three ways to score: as the game does, where what follows the value is read after the ten likeliest candidates only;
after all of them; and values alone. Guesses of the first are compared with those of the plain loop, which reads it
after all of them: how many are the same is printed, and of the other two all must be.

Two models: stories15m (32,000 tokens, a name is three or four of them; of `models/` in RETICENT_SHARED, or in the
folder `shared` beside the checkout), and the embedded one (1,024 tokens, a name is eight). `limit` is the tokens
that the plain loop computes over those that have to be: the prefix once and every continuation. A suffix has to be
computed after each candidate anew, which no sharing spares: hence the short list.

    python -m bench pii_inference
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reticent.auditing.attacks.personal_data.contexts import ContextWindow, MaskedSpan, OtherValues, masked_spans
from reticent.auditing.attacks.personal_data.inference import (
    SHORTLIST,
    CandidateSet,
    draw_candidates,
    token_counter,
)
from reticent.auditing.attacks.personal_data.inventory import take_inventory
from reticent.auditing.attacks.personal_data.scoring import CandidateScorer
from reticent.core.arrays import Floats
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_cases
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.model import HuggingFaceModel

SENTENCES, CANDIDATES = 200, 100
COMPARED = 4  # sentences of which the plain loop is timed
ROUNDS = 2
REQUIRED = {"stories15m": 20.0, "embedded": 10.0}  # of the game as it is played
ROOT = Path(__file__).resolve().parent.parent


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


def models() -> Iterator[tuple[str, HuggingFaceModel]]:
    """Those that are here."""
    from reticent.models.embedded import embedded_model_path

    stories = Path(os.environ.get("RETICENT_SHARED", ROOT.parent / "shared")) / "models" / "stories15m"
    if stories.is_dir():
        yield "stories15m", load_model(stories, device="cpu")
    else:
        print("stories15m is not here: skipped")
    yield "embedded", load_model(embedded_model_path(), device="cpu")


def sentences(model: HuggingFaceModel) -> tuple[tuple[MaskedSpan, ...], tuple[CandidateSet, ...]]:
    """200 masked sentences of persons with 100 candidates each."""
    source = Randomness.seeded(1)
    values = take_inventory(generate_cases(160, randomness=source.child("cases")))
    targets = masked_spans(
        values,
        others=OtherValues.KNOWN,
        count=SENTENCES,
        randomness=source.child("targets"),
        kinds=("PERSON",),
        window=ContextWindow(before=450, after=60),
    )
    draw = draw_candidates(
        targets,
        values,
        training=values,
        size=CANDIDATES,
        lengths=token_counter(model),
        randomness=source.child("decoys"),
    )
    return draw.targets, draw.sets


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
    kept = True
    for name, model in models():
        targets, sets = sentences(model)
        places = np.linspace(0, len(targets) - 1, COMPARED).astype(int).tolist()
        print(f"{name}: {len(targets)} places, {CANDIDATES} candidates each; the plain loop on {COMPARED} of them")
        here, there = [targets[place] for place in places], [sets[place] for place in places]
        alone = [replace(target, suffix="") for target in here]
        played = measure(CandidateScorer(model, shortlist=SHORTLIST), here, there)
        whole, values = (measure(CandidateScorer(model), each, there) for each in (here, alone))
        print(f"  as the game does    {played.sentence}\n  value and suffix    {whole.sentence}")
        print(f"  value alone         {values.sentence}", flush=True)
        kept &= played.ratio >= REQUIRED[name] and max(each.gap for each in (played, whole, values)) <= 1e-3
        kept &= whole.agreeing == values.agreeing == len(places)
    if not kept:
        sys.exit(1)


@dataclass(frozen=True, slots=True)
class Measured:
    """One comparison: median ratio of times, guesses that agree, the largest gap of two scores."""

    ratio: float
    agreeing: int
    gap: float
    sentence: str


def measure(scorer: CandidateScorer, targets: Sequence[MaskedSpan], sets: Sequence[CandidateSet]) -> Measured:
    """Both sides on the same places."""
    model = scorer.model
    assert isinstance(model, HuggingFaceModel)
    candidates = [each.candidates for each in sets]
    one_forward_each(model, targets[0], candidates[0][:5])
    scorer.scores(targets[:1], [candidates[0][:12]])
    ratios = list[float]()
    for _ in range(ROUNDS):
        began = time.process_time()
        slow = [one_forward_each(model, target, each) for target, each in zip(targets, candidates, strict=True)]
        middle = time.process_time()
        fast = scorer.scores(targets, candidates)
        ratios.append((middle - began) / (time.process_time() - middle))
    pairs = list(zip(slow, fast, strict=True))
    gap = max(float(np.abs(a - b)[np.isfinite(b)].max()) for a, b in pairs)
    agreeing = sum(int(a.argmax()) == int(b.argmax()) for a, b in pairs)
    ratio, rounds = float(np.median(ratios)), ", ".join(f"{each:.1f}" for each in ratios)
    most = limit(model, targets, sets)
    sentence = (
        f"{ratio:.1f} times as fast ({rounds}); all tokens {most:.1f}; {agreeing} of {len(pairs)} guesses agree"
    )
    return Measured(ratio, agreeing, gap, sentence)


if __name__ == "__main__":
    main()
