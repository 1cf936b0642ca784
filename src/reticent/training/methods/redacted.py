"""Confidentially redacted training: public epochs without noise, then private steps with it (Zhao et al. 2022).

    first   shuffled epochs of the public part, ordinary gradients, no charge
    then    steps of a Poisson sample of the private part: clipped, charged, noised; beside it a sample of the
            public part, clipped alike and without noise, as large as its share of the records

The two sums of a step are computed apart and added once the private one is noisy. A step therefore releases what
DP-SGD on the private part releases, and what is added to it is a function of public text, a public seed and weights
that were released before: post-processing. In one batch of both either everything would need noise or a secret got
none. The paper alternates epochs of either kind under one optimiser. Its moments are then those of gradients of two
sizes, and noisy steps undo what plain ones learnt: `bench/redaction.py` compares.

The steps are taken by `public_first`. What it proves is in `plans.redacted`; what it reads is made by `redaction`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from reticent.core.corpus import Record
from reticent.training.batches import Encoder, TokenTexts, encode_texts
from reticent.training.methods.mask_filling import fill_masks
from reticent.training.methods.redaction import RedactedCorpus, is_empty


def encode_private(
    model: Encoder, corpus: RedactedCorpus, *, max_length: int | None = None, fill_seed: int | None = None
) -> TokenTexts:
    """Private records as tokens; what is nothing but a mask becomes an empty text, whose gradient is zero.

    With a seed, made-up values stand in the place of masks (`mask_filling`).
    """
    kept: Sequence[Record] = list(corpus.private)
    texts: Iterable[Record] = kept
    if fill_seed is not None:
        texts = [fill_masks(one, kinds, seed=fill_seed) for one, kinds in zip(kept, corpus.kinds, strict=True)]
    encoded = encode_texts(model, texts, max_length=max_length)
    nothing = np.zeros(0, dtype=np.int32)
    tokens = [nothing if is_empty(record) else text for record, text in zip(kept, encoded.texts, strict=True)]
    return replace(encoded, texts=tuple(tokens))
