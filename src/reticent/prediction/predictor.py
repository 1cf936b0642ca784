"""The predictor: look up → mix → charge, durably → draw with the system's generator → one token.

Several texts are answered at once: one look-up, one durable charge for the batch, then one draw each. Rows are
mixed against what the earlier ones of the batch leave, so the batch is charged as if it came one by one; where a
mechanism can, the arithmetic of all texts is done together. The token is drawn from the very float64 array that was
charged, and nothing else leaves: no probabilities, no costs, no weights.

A spent budget is never visible where it depends on data: parts fall silent one by one and the public model remains.
`Exhausted.REFUSE` looks at public counts alone: answers given against the query budget, or against the paid-for
number of answers. Spent and healthy predictors compute the same rows and the same arithmetic and commit a charge
either way.

What is left is read, the batch mixed and the charge written while all other processes are held off: to mix first
and again when another was faster would let what one part has spent decide how the others are mixed. A mechanism
that stops (SubMix) spends all that is left, so that whoever opens the ledger later finds it stopped.

Does not check texts, keep quotas or log anything. Safe for threads, which take turns.
"""

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import cast

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.choice import member_of
from reticent.core.ensemble import Ensemble, MassStreams, PatientStreams
from reticent.core.errors import BudgetExhausted, ConfigError, InternalError
from reticent.core.event import Composed, Event
from reticent.core.ledger import DecidingLedger
from reticent.core.model import Tokens
from reticent.core.randomness import Randomness
from reticent.prediction.lifetime import Lifetime
from reticent.prediction.mechanisms.mechanism import Mechanism, Moment, Release, TogetherMechanism, in_units
from reticent.prediction.mechanisms.shaping import Masses, Rows
from reticent.prediction.memory_ledger import MemoryLedger


class Exhausted(StrEnum):
    """What to do when the public budget is used up."""

    PUBLIC = "public"
    REFUSE = "refuse"


class TokenPredictor:
    """Private next-token prediction: context in, one token out, within a budget.

    `queries` is the public number of answers that the budget is spread over and `answered` how many of them were
    given before this predictor was made. With a `lifetime` fewer are expected where fewer come.

    Guarantee: nothing is released before its charge is durable in the ledger, and what is released is a draw, by
    the system's generator, from the array that was charged. So the released tokens have the ledger's guarantee.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        mechanism: Mechanism,
        *,
        ledger: DecidingLedger | None,
        queries: int,
        exhausted: Exhausted = Exhausted.PUBLIC,
        answered: int = 0,
        lifetime: Lifetime | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self._exhausted = member_of(Exhausted, exhausted, name="exhausted")
        self._randomness = randomness or Randomness.system()
        _check(ensemble, mechanism, ledger, queries=queries, protects=self._randomness.protects)
        self.ensemble = ensemble
        self._mechanism = mechanism
        self._ledger = ledger
        self.queries = queries
        self._answered = answered
        self._lifetime = lifetime
        self._streams = ensemble.streams()
        self._texts: dict[int, list[int]] = {}
        self._mechanisms: dict[int, Mechanism] = {}  # of texts that are shaped in their own way
        self._unread: dict[int, int] = {}  # the last token of a text: its next look-up, if it comes, reads it
        self._stopped = False
        self._lock = threading.Lock()

    @property
    def answered(self) -> int:
        """How many tokens were released, those before this predictor included: public."""
        return self._answered

    @property
    def affordable(self) -> int:
        """How many more tokens are answered before a refusing predictor refuses: by public counts alone."""
        price = self._mechanism.price
        if price and self._ledger is not None:
            return int(min(self._ledger.remaining().values()) / price)
        return max(0, self.queries - self._answered)

    @property
    def waited(self) -> float:
        """Seconds that the charge under way has waited for the ledger; 0 where none is under way."""
        return float(getattr(self._ledger, "busy_seconds", 0.0))

    @property
    def token_bytes(self) -> int:
        """Bytes of memory that each token of each open text takes; 0 where the ensemble does not say."""
        return int(getattr(self._streams, "token_bytes", 0))

    def open(self, context: Tokens, *, mechanism: Mechanism | None = None) -> int:
        """A new text that begins with `context`; its handle.

        `mechanism` is the predictor's own with another shaping: what it costs must be metered and priced alike.
        """
        own = self._mechanism
        if mechanism is not None and (mechanism.measure, mechanism.price) != (own.measure, own.price):
            raise ConfigError(f"a text of {own.name} cannot be answered by {mechanism.name}: priced otherwise")
        with self._lock:
            handle = self._streams.open(context)
            self._texts[handle] = list(context)
            if mechanism is not None:
                self._mechanisms[handle] = mechanism
            return handle

    def close(self, handle: int) -> None:
        """Forget a text."""
        with self._lock:
            self._texts.pop(handle, None)
            self._mechanisms.pop(handle, None)
            self._unread.pop(handle, None)
            self._streams.close(handle)

    def check(self, *, by_writing: bool = False) -> None:
        """LedgerError where the ledger cannot be reached, is not what it was, or cannot be written."""
        if self._ledger is None:
            return
        if by_writing:
            self._ledger.require_writable()
        else:
            self._ledger.remaining()

    def rehearse(self) -> None:
        """Run the mechanism once on made-up input, so that the first answer need not wait for the compiler.

        Nothing is charged or released.
        """
        masses = np.full((1, 1 + len(self.ensemble.rows), 2), 0.5, dtype=np.float32)  # of two tokens
        moment = Moment(remaining=np.zeros(len(self.ensemble.parts)), left=self.queries)
        mechanism = self._mechanism
        mechanism.release(np.log(masses[0], dtype=np.float64), moment, randomness=Randomness.seeded(0))
        if isinstance(mechanism, TogetherMechanism) and isinstance(self._streams, MassStreams):
            mechanism.release_together(Masses(masses), [mechanism.shaping], moment)

    def read_ahead(self, handles: Sequence[int], *, most: int) -> list[bool]:
        """Read up to `most` tokens of the texts' prompts; which of the texts are read. Releases nothing.

        A step reads what is left, however much, so this is for whoever wants short steps.
        """
        with self._lock:
            self._require_open(handles)
            if not isinstance(self._streams, PatientStreams):
                return [True] * len(handles)
            return self._streams.read_ahead(handles, most=most)

    def step(self, handles: Sequence[int]) -> list[int]:
        """One token for each of the texts, charged together, released together and appended to them.

        BudgetExhausted, with nothing spent, where the predictor refuses and the public budget is used up.
        """
        if not handles:
            return []
        with self._lock:
            self._require_open(handles)
            for handle in handles:
                if handle in self._unread:
                    self._streams.append(handle, self._unread.pop(handle))
            rows = self._look_up(handles)  # [n, 1 + rows, V]
            self._require_budget(len(handles))
            releases = self._charge(handles, rows)
            # Only now, with the charge on disk, is there a token.
            tokens = [self._randomness.choice(release.pmf) for release in releases]
            for handle, token in zip(handles, tokens, strict=True):
                self._unread[handle] = token
                self._texts[handle].append(token)
            return tokens

    def generate(self, context: Tokens, max_tokens: int) -> list[int]:
        """A continuation of `context`, without it, up to the end token, which is not part of it.

        Shorter where a refusing predictor's budget ends on the way, since what was drawn is paid for;
        BudgetExhausted where there is none for the first token.
        """
        end = self.ensemble.public.end_token
        handle, made = self.open(context), list[int]()
        try:
            for _ in range(max_tokens):
                token = self.step([handle])[0]
                if token == end:
                    break
                made.append(token)
        except BudgetExhausted:
            if not made:
                raise
        finally:
            self.close(handle)
        return made

    def _look_up(self, handles: Sequence[int]) -> Rows:
        """Masses where both sides know them, which saves a logarithm and an exponential a number; else log-pmfs."""
        if isinstance(self._streams, MassStreams) and self._together(handles) is not None:
            return Masses(self._streams.look_up_masses(handles))
        return self._streams.look_up(handles)

    def _together(self, handles: Sequence[int]) -> list[TogetherMechanism] | None:
        """The mechanisms of the texts where they can be mixed together; None where one of them cannot."""
        found = [self._mechanisms.get(handle, self._mechanism) for handle in handles]
        first, *others = {id(each): each for each in found}.values()
        if not isinstance(first, TogetherMechanism) or not all(first.is_like(other) for other in others):
            return None
        return cast(list[TogetherMechanism], found)  # what is like one that can, can

    def _charge(self, handles: Sequence[int], rows: Rows) -> list[Release]:
        """Mix and charge the batch. The order of these lines is the guarantee."""
        if self._ledger is None:
            self._answered += len(handles)
            return self._mix(handles, rows, remaining=np.zeros(len(self.ensemble.parts)))
        releases: list[Release] = []

        def decide(left: Mapping[str, float]) -> tuple[dict[str, float], Event]:
            accounts = self.ensemble.parts
            remaining = np.array([left[account] for account in accounts])
            releases[:] = self._mix(handles, rows, remaining=remaining)
            totals = in_units(np.stack([each.costs for each in releases])).sum(axis=0).tolist()  # exact
            if any(release.stops for release in releases):
                totals = remaining.tolist()
            return dict(zip(accounts, totals, strict=True)), _event(releases)

        self._ledger.charge_decided(decide)
        self._answered += len(handles)
        self._stopped = self._stopped or any(release.stops for release in releases)
        return releases

    def _mix(self, handles: Sequence[int], rows: Rows, *, remaining: Floats) -> list[Release]:
        """Releases of a batch, each against what the earlier ones leave."""
        together = self._together(handles)
        if together is not None:
            moment = self._moment(handles[0], remaining, number=0, stopped=self._stopped)
            return together[0].release_together(rows, [each.shaping for each in together], moment)
        if isinstance(rows, Masses):
            raise InternalError("masses were looked up for mechanisms that mix log-pmfs")
        releases: list[Release] = []
        stopped = self._stopped
        for number, handle in enumerate(handles):
            moment = self._moment(handle, remaining, number=number, stopped=stopped)
            mechanism = self._mechanisms.get(handle, self._mechanism)
            release = mechanism.release(rows[number], moment, randomness=self._randomness)
            remaining = remaining - in_units(release.costs)
            stopped = stopped or release.stops
            releases.append(release)
        return releases

    def _moment(self, handle: int, remaining: Floats, *, number: int, stopped: bool) -> Moment:
        """What is known when the text with that number in the batch is mixed."""
        return Moment(
            remaining=remaining,
            left=self._left(self._answered + number),
            context=tuple(self._texts[handle]),
            stopped=stopped,
        )

    def _left(self, answered: int) -> int:
        """How many answers are still to come after so many: by public counts and the clock alone."""
        if self._lifetime is None:
            return max(1, self.queries - answered)
        return self._lifetime.left(self.queries, answered, datetime.now(UTC))

    def _require_open(self, handles: Sequence[int]) -> None:
        if len(set(handles)) != len(handles) or not set(handles) <= set(self._texts):
            raise ConfigError("a step needs distinct handles of open texts", found=f"{len(handles)} handles")

    def _require_budget(self, answers: int) -> None:
        """Refuse by public counts alone: whether a part is spent must not show."""
        if self._exhausted is Exhausted.REFUSE and answers > self.affordable:
            raise BudgetExhausted(
                f"the query budget is used up: {self._answered:,} tokens were answered, and more would exceed it"
            )


def _event(releases: Sequence[Release]) -> Event:
    events = tuple(release.event for release in releases)
    return events[0] if len(events) == 1 else Composed(events)


def _check(
    ensemble: Ensemble, mechanism: Mechanism, ledger: DecidingLedger | None, *, queries: int, protects: bool
) -> None:
    """Refuse a combination whose tokens would not have the ledger's guarantee."""
    if queries < 1:
        raise ConfigError("the query budget must be at least one answer", found=queries)
    if ledger is None:
        if mechanism.measure is not None:
            raise ConfigError(f"{mechanism.name} must be charged", hint="give the predictor a ledger")
        return
    if not protects and not isinstance(ledger, MemoryLedger):
        raise ConfigError(
            "a seed makes released tokens predictable",
            hint="draw from the system's generator; seeds are for experiments on a MemoryLedger",
        )
    if mechanism.measure is not None and ledger.budget.measure != mechanism.measure:
        raise ConfigError(
            f"the ledger does not meter what {mechanism.name} costs",
            found=ledger.budget.measure,
            expected=mechanism.measure,
            hint="use the ledger that was made for this mechanism and order",
        )
    if set(ledger.accounts) != set(ensemble.parts):
        raise ConfigError(
            "the ledger's accounts are not the ensemble's parts",
            found=f"{len(ledger.accounts)} accounts",
            expected=f"{len(ensemble.parts)} parts",
        )
