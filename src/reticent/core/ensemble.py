"""What a mechanism sees of an ensemble: one public model and its parts, looked up together for each token.

Rows of a look-up are always the same and always all there, whatever was spent or removed, so that neither numerics
nor time depend on private state: row 0 is the public model, rows 1.. are the private ones in the order of
`Ensemble.rows`. A part has one row, or two where its halves were trained apart (SubMix).

Log-probabilities are natural, float64, of the model's own distribution at temperature 1; a mechanism tempers and
truncates them itself, inside its accounting.
"""

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Floats
from reticent.core.model import LanguageModel, Tokens

# What else costs as much as to read one token, about: public, of the length of texts alone.
COLUMNS: Final = 128  # columns of a text that a look-up attends to
COPIED: Final = 8  # columns of a text that are copied from another one


class Streams(Protocol):
    """Texts that grow token by token, all looked up in one forward: what a predictor or a server holds."""

    def open(self, context: Tokens) -> int:
        """A new text that begins with `context` (without the start token); its handle. Computes nothing yet."""
        ...

    def look_up(self, handles: Sequence[int]) -> Floats:
        """Next-token log-pmfs [n, 1 + rows, V] of the named texts, in one forward where it can be."""
        ...

    def append(self, handle: int, token: int) -> None:
        """The released token becomes part of the text."""
        ...

    def close(self, handle: int) -> None:
        """Forget a text and free what it held."""
        ...


@runtime_checkable
class MassStreams(Streams, Protocol):
    """Texts whose look-ups can also be had as the model's softmax gives them."""

    def look_up_masses(self, handles: Sequence[int]) -> NDArray[np.floating]:
        """Next-token chances [n, 1 + rows, V] up to a factor a row, in the model's precision."""
        ...


@runtime_checkable
class PatientStreams(Streams, Protocol):
    """Texts whose prompts can be read in pieces, between look-ups of other texts."""

    def read_ahead(self, handles: Sequence[int], *, most: int) -> list[bool]:
        """Read up to `most` tokens of prompts, the first text's first; which texts are now ready for a look-up."""
        ...


class Ensemble(Protocol):
    """k parts trained on disjoint owners, and the public model they started from."""

    @property
    def fingerprint(self) -> str:
        """Changes with any weight of any part, the public model or the tokenizer: what a ledger is bound to."""
        ...

    @property
    def public(self) -> LanguageModel:
        """The public model alone: encode, decode, start and end token, chat template."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the k parts: the accounts of the ledger."""
        ...

    @property
    def rows(self) -> tuple[int, ...]:
        """For each private row of a look-up the index of its part: (0, 1, …), or (0, 0, 1, 1, …) with halves."""
        ...

    def streams(self) -> Streams:
        """A fresh set of texts, none open."""
        ...

    def position_log_probs(self, tokens: Tokens) -> Floats:
        """log-pmfs [T, 1 + rows, V] before each of T tokens: how a text is evaluated in one forward."""
        ...
