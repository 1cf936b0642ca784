"""An exact n-gram language model in numpy: the oracle of the tests.

    p(x_t | start, x_<t) = p(x_t | x_{t-n+1} … x_{t-1}),   fitted with add-α smoothing:  (count + α) / (total + αV)

Ids 0 … V-2 are the symbols; V-1 is the **boundary**, start and end token in one, as in GPT-2. It fills contexts
that reach back before the first symbol, so what stands after an end token is scored as a new text, and no token has
probability zero but those a table gives zero. Everything is float64 and in log space.

A row is kept sparse: the tokens it names, and one value for all others. It does not interpolate orders, prune, or
scale to large corpora.
"""

import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Floats
from reticent.core.document import check_schema, number_from_json, number_to_json
from reticent.core.errors import ModelError
from reticent.core.model import Access, Tokens
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling

Level = Literal["character", "word"]
Context = tuple[int, ...]

END: Final = "<end>"  # how tables and decoded texts write the boundary
SCHEMA_VERSION: Final = 1
# A word takes the white space before it along, so that joining the words gives back the text.
_WORD: Final = re.compile(r"\s*\S+|\s+")
_SUM_TOLERANCE: Final = 1e-9


@dataclass(slots=True)
class _Row:
    """A log-pmf over V tokens: `tokens` (ascending) have `log_probs`, each of the others has `rest`."""

    tokens: NDArray[np.int64]
    log_probs: Floats
    rest: float
    # Both are made when first asked for: of most rows nothing is.
    _named: dict[int, float] | None = field(default=None, init=False, repr=False, compare=False)
    _dense: Floats | None = field(default=None, init=False, repr=False, compare=False)

    def at(self, token: int) -> float:
        """log p of one token."""
        if self._named is None:
            self._named = dict(zip(self.tokens.tolist(), self.log_probs.tolist(), strict=True))
        return self._named.get(token, self.rest)

    def dense(self, size: int) -> Floats:
        """The whole log-pmf [V], which nobody may change."""
        if self._dense is None:
            self._dense = np.full(size, self.rest)
            self._dense[self.tokens] = self.log_probs
            self._dense.setflags(write=False)
        return self._dense


class NGramModel:
    """An n-gram model with all access: fitted on texts, or given as a table of conditional distributions."""

    def __init__(
        self,
        symbols: Sequence[str],
        rows: Mapping[Context, _Row],
        *,
        order: int,
        level: Level,
        unknown: str | None = None,
    ) -> None:
        """Use `fit`, `from_table` or `load`. A context without a row has the uniform distribution."""
        if order < 1:
            raise ModelError("an n-gram model's order is too small", found=order, expected="at least 1")
        if level not in ("character", "word"):
            raise ModelError("unknown level of an n-gram model", found=repr(level), expected="character or word")
        if not symbols or len(set(symbols)) != len(symbols) or END in symbols or "" in symbols:
            raise ModelError(
                "an n-gram model needs distinct, non-empty symbols", hint=f"{END} names the end of a text"
            )
        if unknown is not None and unknown not in symbols:
            raise ModelError("the symbol for unknown text must be one of the symbols")
        self._symbols = tuple(symbols)
        self._ids = {symbol: index for index, symbol in enumerate(self._symbols)}
        self._rows = dict(rows)
        self._order = order
        self._level: Level = level
        self._unknown = unknown
        nothing = np.empty(0)
        self._uniform = _Row(nothing.astype(np.int64), nothing, -math.log(self.vocabulary_size))
        self._fingerprint: str | None = None

    @classmethod
    def fit(
        cls,
        texts: Iterable[str],
        *,
        order: int = 3,
        level: Level = "character",
        smoothing: float = 0.1,
        vocabulary: Sequence[str] | None = None,
        unknown: str | None = None,
    ) -> "NGramModel":
        """Count n-grams of the texts, the end of each included, and add `smoothing` to every count.

        `vocabulary` None takes the symbols that occur, sorted. `unknown` names a symbol for all that is not in it.
        """
        if not (smoothing > 0.0 and math.isfinite(smoothing)):
            raise ModelError("add-α smoothing needs α > 0", found=smoothing, hint="use from_table for exact zeros")
        split = [_split(text, level) for text in texts]
        symbols = sorted({symbol for text in split for symbol in text}) if vocabulary is None else list(vocabulary)
        if unknown is not None and unknown not in symbols:
            symbols.append(unknown)
        model = cls(symbols, {}, order=order, level=level, unknown=unknown)
        counts: defaultdict[Context, Counter[int]] = defaultdict(Counter)
        before = model._context([], 0)
        for text in split:
            sequence = (*before, *model._look_up(text), model.end_token)
            for position, token in enumerate(sequence[len(before) :]):
                counts[sequence[position : position + len(before)]][token] += 1
        model._rows = _smoothed(counts, smoothing, model.vocabulary_size)
        return model

    @classmethod
    def from_table(
        cls,
        symbols: Sequence[str],
        table: Mapping[tuple[str, ...], Mapping[str, float]],
        *,
        order: int,
        level: Level = "character",
    ) -> "NGramModel":
        """A model with the very probabilities of `table`: context symbols → {symbol or END: probability}.

        A context has n-1 symbols, or fewer at the start of a text. What a row leaves out has probability 0. Every
        context that can occur must have a row; one that cannot is uniform.
        """
        empty = cls(symbols, {}, order=order, level=level)
        ids = {**empty._ids, END: empty.end_token}
        rows = {}
        for context, pmf in table.items():
            if len(context) >= order or not set(context) <= set(empty._symbols) or not set(pmf) <= set(ids):
                raise ModelError("a row of the table does not fit the model", found=f"a context of {len(context)}")
            if any(not 0.0 <= p <= 1.0 for p in pmf.values()) or abs(math.fsum(pmf.values()) - 1) > _SUM_TOLERANCE:
                raise ModelError("a row of the table is no distribution", expected="probabilities that sum to 1")
            pairs = sorted((ids[symbol], p) for symbol, p in pmf.items() if p > 0.0)
            log_probs = np.log(np.array([p for _, p in pairs], dtype=np.float64))
            named = np.array([token for token, _ in pairs], dtype=np.int64)
            before = [ids[symbol] for symbol in context]
            rows[empty._context(before, len(before))] = _Row(named, log_probs, -math.inf)
        model = cls(symbols, rows, order=order, level=level)
        model._check_closed()
        return model

    def __repr__(self) -> str:
        return (
            f"NGramModel(order={self._order}, {self._level}s, V={self.vocabulary_size}, {len(self._rows)} contexts)"
        )

    @property
    def name(self) -> str:
        """A short name for tables and messages."""
        return f"{self._order}-gram"

    @property
    def access(self) -> Access:
        """Everything: the table is the weights."""
        return Access.WEIGHTS

    @property
    def fingerprint(self) -> str:
        """Hash of the whole model."""
        if self._fingerprint is None:
            contexts = sorted(self._rows)
            rows = [self._rows[context] for context in contexts]
            # Of all rows at once: numbers written out take ten times as long.
            parts = (
                json.dumps(self._header(), sort_keys=True, ensure_ascii=True).encode(),
                np.array(contexts, dtype=np.int64).tobytes(),
                np.array([len(row.tokens) for row in rows], dtype=np.int64).tobytes(),
                np.array([row.rest for row in rows], dtype=np.float64).tobytes(),
                *(row.tokens.tobytes() for row in rows),
                *(row.log_probs.tobytes() for row in rows),
            )
            self._fingerprint = hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()
        return self._fingerprint

    @property
    def vocabulary_size(self) -> int:
        """The symbols and the boundary (V)."""
        return len(self._symbols) + 1

    @property
    def context_length(self) -> int | None:
        """None: any length can be scored."""
        return None

    @property
    def start_token(self) -> int:
        """The boundary."""
        return len(self._symbols)

    @property
    def end_token(self) -> int:
        """The boundary."""
        return len(self._symbols)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text; text outside the vocabulary is the unknown symbol, or an error without one."""
        return [self._look_up(_split(text, self._level)) for text in texts]

    def decode(self, sequences: Sequence[Tokens]) -> list[str]:
        """Text of each sequence; a boundary is shown as END."""
        written = (*self._symbols, END)
        return ["".join(written[token] for token in self._checked(sequence)) for sequence in sequences]

    def token_log_probs(self, sequences: Sequence[Tokens]) -> list[Floats]:
        """log p(x_t | start, x_<t) for every token of every sequence: one [T_i] array each."""
        return [self._score([], self._checked(sequence)) for sequence in sequences]

    def next_token_log_probs(self, contexts: Sequence[Tokens]) -> Floats:
        """Next-token log-pmfs [n, V] after each context; an empty context is the start of a text."""
        rows = [self._row(self._checked(context), len(context)).dense(self.vocabulary_size) for context in contexts]
        return np.stack(rows) if rows else np.empty((0, self.vocabulary_size))

    def continuation_log_probs(self, prefix: Tokens, continuations: Sequence[Tokens]) -> list[Floats]:
        """log p of every token of every continuation of one prefix."""
        before = self._checked(prefix)
        return [self._score(before, self._checked(continuation)) for continuation in continuations]

    def generate(
        self, prompts: Sequence[Tokens], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[list[int]]]:
        """`count` sampled continuations of each prompt, without the prompt, cut before the end token."""
        if count < 1:
            raise ValueError("count must be at least 1")
        checked = [self._checked(prompt) for prompt in prompts]
        known: dict[tuple[Context, float], Floats] = {}  # what tokens were drawn from before
        return [[self._sample(prompt, sampling, randomness, known) for _ in range(count)] for prompt in checked]

    def complete(
        self, prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[str]]:
        """`count` continuations of each prompt as text, without the prompt."""
        sampled = self.generate(self.encode(prompts), sampling, count=count, randomness=randomness)
        return [self.decode(continuations) for continuations in sampled]

    def save(self, path: Path) -> None:
        """Write the model as one JSON document; `load` gives back an equal one."""
        path.write_text(json.dumps(self._document(), ensure_ascii=True), encoding="utf8")

    @classmethod
    def load(cls, path: Path) -> "NGramModel":
        """The model that `save` wrote."""
        try:
            document = json.loads(path.read_text(encoding="utf8"))
        except (OSError, ValueError) as error:
            raise ModelError(f"{path}: no n-gram model can be read here", found=type(error).__name__) from None
        if not isinstance(document, dict) or document.get("kind") != "ngram":
            raise ModelError(f"{path}: this JSON document is no n-gram model")
        check_schema(document, SCHEMA_VERSION, kind="n-gram model")
        try:
            rows = {tuple(map(int, row["context"])): _row_from_json(row) for row in document["rows"]}
            return cls(
                document["symbols"],
                rows,
                order=document["order"],
                level=document["level"],
                unknown=document["unknown"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{path}: this n-gram model is damaged", found=type(error).__name__) from None

    def _header(self) -> dict[str, Any]:
        """All of the model but its rows."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "ngram",
            "order": self._order,
            "level": self._level,
            "symbols": list(self._symbols),
            "unknown": self._unknown,
        }

    def _document(self) -> dict[str, Any]:
        """The model as a JSON document, rows in the order of their contexts."""
        rows = [_row_to_json(context, self._rows[context]) for context in sorted(self._rows)]
        return self._header() | {"rows": rows}

    def _look_up(self, text: Sequence[str]) -> list[int]:
        """Ids of the symbols of a text. The error never shows the text."""
        fallback = None if self._unknown is None else self._ids[self._unknown]
        found = [self._ids.get(symbol, fallback) for symbol in text]
        if None in found:
            raise ModelError(
                f"a text has a {self._level} outside the vocabulary",
                found=f"{found.count(None)} of {len(found)}, the first at {found.index(None)}",
                hint="fit with `unknown` or with a larger `vocabulary`",
            )
        return [token for token in found if token is not None]

    def _checked(self, tokens: Tokens) -> list[int]:
        """The tokens as a list, refused where one is no id of this vocabulary."""
        listed = [int(token) for token in tokens]
        if listed and not 0 <= min(listed) <= max(listed) < self.vocabulary_size:
            raise ModelError("a token id is outside the vocabulary", expected=f"0 … {self.vocabulary_size - 1}")
        return listed

    def _context(self, tokens: Sequence[int], place: int) -> Context:
        """The n-1 tokens before `place`: those of its own text, boundaries in front where there are fewer."""
        first, boundary = place - self._order + 1, len(self._symbols)
        kept = tuple(tokens[first if first > 0 else 0 : place])
        while boundary in kept:
            kept = kept[kept.index(boundary) + 1 :]
        missing = self._order - 1 - len(kept)
        return (boundary,) * missing + kept if missing else kept

    def _row(self, tokens: Sequence[int], place: int) -> _Row:
        """The distribution of the token at `place`."""
        return self._rows.get(self._context(tokens, place), self._uniform)

    def _score(self, prefix: list[int], continuation: list[int]) -> Floats:
        """log p of each token of the continuation."""
        whole = [*prefix, *continuation]
        places = range(len(prefix), len(whole))
        return np.array([self._row(whole, place).at(whole[place]) for place in places], dtype=np.float64)

    def _sample(
        self,
        prompt: list[int],
        sampling: Sampling,
        randomness: Randomness,
        known: dict[tuple[Context, float], Floats],
    ) -> list[int]:
        """One continuation, drawn by the one definition of a sampler: pmfs [V] by context and temperature."""
        whole = list(prompt)
        for position in range(sampling.max_tokens):
            context = self._context(whole, len(whole))
            key = context, sampling.temperature_at(position)
            if key not in known:
                log_probs = self._rows.get(context, self._uniform).dense(self.vocabulary_size)
                known[key] = np.exp(sampling.transform(log_probs, position))
            token = randomness.choice(known[key])
            if token == self.end_token:
                break
            whole.append(token)
        return whole[len(prompt) :]

    def _check_closed(self) -> None:
        """Refuse a table that lacks the row of a context that can occur."""
        first = self._context([], 0)
        waiting, seen = [first], {first}
        while waiting:
            context = waiting.pop()
            if context not in self._rows:
                raise ModelError(
                    "the table lacks the row of a context that can occur",
                    found=f"{len(self._rows)} rows",
                    expected="one for every context of positive probability",
                )
            for token in self._rows[context].tokens.tolist():
                following = self._context([*context, token], self._order)
                if token != self.end_token and following not in seen:
                    seen.add(following)
                    waiting.append(following)


def _split(text: str, level: Level) -> list[str]:
    """The symbols of a text; joined, they are the text."""
    return list(text) if level == "character" else _WORD.findall(text)


def _smoothed(counts: Mapping[Context, Counter[int]], smoothing: float, size: int) -> dict[Context, _Row]:
    """Add-α: (count + α) / (total + αV), of all contexts at once."""
    named = [sorted(counter) for counter in counts.values()]
    ends = np.cumsum([len(tokens) for tokens in named]).tolist()
    tokens = np.array([token for each in named for token in each], dtype=np.int64)
    of_tokens = [counter[token] for counter, each in zip(counts.values(), named, strict=True) for token in each]
    logs = np.log(np.array(of_tokens, dtype=np.float64) + smoothing)
    rows, start, log_rest = {}, 0, math.log(smoothing)
    for (context, counter), end in zip(counts.items(), ends, strict=True):
        log_total = math.log(sum(counter.values()) + smoothing * size)
        rows[context] = _Row(tokens[start:end], logs[start:end] - log_total, log_rest - log_total)
        start = end
    return rows


def _row_to_json(context: Context, row: _Row) -> dict[str, Any]:
    """A row as JSON; Python writes a float so that reading it gives the same float."""
    return {
        "context": list(context),
        "tokens": row.tokens.tolist(),
        "log_probs": row.log_probs.tolist(),
        "rest": number_to_json(row.rest),
    }


def _row_from_json(row: dict[str, Any]) -> _Row:
    """The row that `_row_to_json` wrote."""
    tokens = np.array(row["tokens"], dtype=np.int64)
    log_probs = np.array(row["log_probs"], dtype=np.float64)
    if tokens.shape != log_probs.shape or (np.diff(tokens) <= 0).any():
        raise ValueError("tokens of a row ascend and have one log-probability each")
    return _Row(tokens, log_probs, number_from_json(row["rest"]))
