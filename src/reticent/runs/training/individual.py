"""What a finished run proves of each record by itself, from the levels that its records were clipped to."""

import math
from pathlib import Path

import numpy as np

from reticent.core.corpus import Corpus
from reticent.core.evidence.individual import IndividualBound, IndividualBounds
from reticent.training.gradients.levels import LevelFile
from reticent.training.plans.plan import DpSgd


def individual_bounds(folder: Path, plan: DpSgd, corpus: Corpus) -> IndividualBounds:
    """The bounds of a finished run's records.

    Guarantee: as `IndividualPrice.epsilons`, for the run by itself: what its starting model was trained on before
    is not in it.
    """
    levels = LevelFile(folder, plan.records).read()
    price = plan.individual_price()
    single = price.epsilons(levels.counts(plan.steps))  # [n]
    numbers: dict[str, int] = {}
    texts = [numbers.setdefault(text, len(numbers)) for text in corpus.texts]  # [n]
    copies = np.bincount(texts)  # [texts]
    counts = levels.counts(plan.steps, texts)
    of_text = np.full(len(copies), math.inf)
    for number in sorted(set(copies.tolist())):
        chosen = copies == number
        of_text[chosen] = price.epsilons(counts[chosen], copies=number)
    records = {
        record.id: IndividualBound(float(single[place]), int(copies[text]), float(of_text[text]))
        for place, (record, text) in enumerate(zip(corpus, texts, strict=True))
    }
    return IndividualBounds(plan.delta, price.epsilon, records)
