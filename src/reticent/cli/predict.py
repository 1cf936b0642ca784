"""`reticent predict`: a continuation of a prompt, each token charged to the ensemble's ledger before it is
drawn."""

import sys

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.runs.ensemble.settings import PredictSettings


@verb(PredictSettings)
def predict(settings: PredictSettings, output: Output) -> None:
    """Continue a prompt privately. Tokens come from the system's random generator, so there is no --seed."""
    from reticent.runs.ensemble.text_predictor import Predictor

    with Predictor(settings) as predictor:
        prompt = sys.stdin.read() if settings.prompt == "-" else settings.prompt
        assert prompt is not None  # refused by `check`
        answer = predictor.generate(prompt, max_tokens=settings.max_tokens)
    output.document(answer)
    output.show(answer.text)
