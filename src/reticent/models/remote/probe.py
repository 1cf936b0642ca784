"""What a server offers, found out by asking it: a few requests for one token, none with anybody's text.

A capability counts when the server *answers* by it; a field that is accepted and ignored does not, and nothing is
concluded from a server's name. A server that refuses a field (400, 422, 501) lacks it; any other refusal, and a
server that does not answer, is an error, so that an outage is never taken for a missing capability.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

from reticent.core.errors import ModelError
from reticent.core.model import Access
from reticent.models.remote import protocol
from reticent.models.remote.tokenizer import NOT_OFFERED, PROBE_TEXT, RemoteTokenizer, ServerTokenizer
from reticent.models.remote.transport import JsonTransport, RefusedRequest

_REFUSED_FIELD: Final = {400, 422, 501}
_CLOCK_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the server was found to offer, and what it says of the model."""

    scoring: protocol.Scoring | None
    extensions: bool
    token_output: bool
    tokenizer: RemoteTokenizer | None
    context_length: int | None
    card: tuple[tuple[str, object], ...]

    @property
    def access(self) -> Access:
        """Log-probabilities where prompts are scored, else text."""
        return Access.TEXT if self.scoring is None else Access.LOGPROBS


def probe_server(
    transport: JsonTransport, model: str, *, tokenizer: RemoteTokenizer | None, chat: bool = False
) -> Capabilities:
    """Ask the server what it offers; `tokenizer` None asks for its own as well. Of a chat only text is seen."""
    card = _card(transport, model)
    known = None if chat else tokenizer or ServerTokenizer.connect(transport, model)
    start = None if known is None else known.start_token
    prober = _Prober(transport, model, chat=chat)
    extensions = prober.ask(_quiet_prompt(start), {"max_tokens": 1, **protocol.EXTENSIONS}) is not None
    window = card.get("max_model_len")
    return Capabilities(
        scoring=None if start is None else prober.scoring(start, extensions=extensions),
        extensions=extensions,
        token_output=start is not None and prober.tells_tokens(start),
        tokenizer=known,
        # One place is taken by the token that a scoring request must sample.
        context_length=window - 1 if isinstance(window, int) and window > 1 else None,
        card=tuple(sorted(card.items())),
    )


def honours_top_k(
    transport: JsonTransport, model: str, *, tokenizer: RemoteTokenizer | None, chat: bool = False
) -> bool:
    """Whether `top_k` has an effect: with 1, four hot samples are all the same.

    A model that is nearly certain of its next eight tokens, even when hot, passes without `top_k` as well.
    """
    prompt = _quiet_prompt(None if tokenizer is None else tokenizer.start_token)
    hot = {"max_tokens": 8, "temperature": 2.0, "top_p": 1.0, **protocol.EXTENSIONS, "top_k": 1, "n": 4}
    answer = _Prober(transport, model, chat=chat).ask(prompt, hot)
    return answer is not None and len({protocol.text_of(choice) for choice in protocol.choices(answer, 4)}) == 1


class _Prober:
    """Requests that a server may refuse."""

    def __init__(self, transport: JsonTransport, model: str, *, chat: bool) -> None:
        self._transport = transport
        self._model = model
        self._chat = chat

    def ask(self, prompt: str | list[int], fields: dict[str, Any]) -> Any:
        """The answer, or None where the server refuses these fields."""
        path, asked = protocol.request(prompt, chat=self._chat)
        try:
            return self._transport.post(path, {"model": self._model, **asked, **fields})
        except RefusedRequest as error:
            if error.status in _REFUSED_FIELD:
                return None
            raise

    def scoring(self, start: int, *, extensions: bool) -> protocol.Scoring | None:
        """The first way of scoring that gives one log-probability for the second of two tokens."""
        prompt = [start, start]
        for scoring in protocol.SCORINGS:
            answer = self.ask(prompt, protocol.scoring_fields(scoring, extensions=extensions))
            if answer is None:
                continue
            try:
                protocol.prompt_scores(answer, prompt, scoring)
            except ModelError:
                continue  # accepted, but not answered: the field was ignored
            return scoring
        return None

    def tells_tokens(self, start: int) -> bool:
        """Whether sampled tokens come back as ids."""
        answer = self.ask([start], {"max_tokens": 1, "logprobs": 0, "return_tokens_as_token_ids": True})
        return answer is not None and protocol.tokens_of(protocol.choices(answer, 1)[0]) is not None


def _quiet_prompt(start: int | None) -> str | list[int]:
    """A prompt that says nothing: the start token, or a greeting where none is known."""
    return PROBE_TEXT if start is None else [start]


def _card(transport: JsonTransport, model: str) -> dict[str, object]:
    """What `/v1/models` says of the model; a name it does not list is an error."""
    try:
        answer = transport.get("/v1/models")
    except RefusedRequest as error:
        if error.status in NOT_OFFERED:
            return {}
        raise
    listed = answer.get("data") if isinstance(answer, dict) else None
    cards = [card for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []
    card = next((card for card in cards if card.get("id") == model), None)
    if card is None:
        raise ModelError(
            f"{transport.url} has no model of this name",
            found=repr(model),
            expected=", ".join(str(card.get("id")) for card in cards[:5]) or "none listed",
        )
    kept = {key: card[key] for key in ("id", "root", "owned_by", "max_model_len") if card.get(key) is not None}
    created = card.get("created")
    # Some servers write the time of the request here, which says nothing of the model.
    if isinstance(created, int) and abs(time.time() - created) > _CLOCK_SECONDS:
        kept["created"] = created
    return kept
