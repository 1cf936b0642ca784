"""`reticent bound`: guarantees and leakage bounds from parameters alone: no model, no data, no torch."""

from typing import Any

import typer
import typer.core

from reticent.cli.bound_sentences import confidentiality_sentences, dp_sgd_sentences, extraction_sentences
from reticent.cli.console import Output
from reticent.cli.flags import VerbCommand, verb
from reticent.runs.bounds.settings import (
    ConfidentialityBoundSettings,
    DpSgdBoundSettings,
    ExtractionBoundSettings,
    RunBoundSettings,
)


class _BoundGroup(typer.core.TyperGroup):
    """`reticent bound RUN` beside `reticent bound dp-sgd …`: what is no bound's name is a path."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The named bound, or the re-derivation of a run."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


bound = typer.Typer(
    cls=_BoundGroup,
    help="Guarantee and leakage bounds from parameters alone; `bound RUN` derives the numbers of a run again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bound.command("run", cls=VerbCommand)
@verb(RunBoundSettings)
def run(settings: RunBoundSettings, output: Output) -> int:
    """Derive the ε of a run again, and check its weights and ledger. `reticent bound RUN` for short."""
    from reticent.runs.rederivation import rederive, sentences

    found = rederive(settings.run)
    output.document(found.to_json())
    output.show(*sentences(found))
    return 0 if found.agrees else 1


@bound.command("dp-sgd", cls=VerbCommand)
@verb(DpSgdBoundSettings)
def dp_sgd(settings: DpSgdBoundSettings, output: Output) -> None:
    """ε of DP-SGD by two accountants, how many bits of a secret can leak, and what attacks can reach."""
    from reticent.runs.bounds.bound import bound_dp_sgd

    document = bound_dp_sgd(settings)
    output.document(document)
    output.show(*dp_sgd_sentences(document))


@bound.command("confidentiality", cls=VerbCommand)
@verb(ConfidentialityBoundSettings)
def confidentiality(settings: ConfidentialityBoundSettings, output: Output) -> None:
    """Confidentiality of secrets under redacted training: on average, in the worst case, and for groups."""
    from reticent.runs.bounds.bound import bound_confidentiality

    document = bound_confidentiality(settings)
    output.document(document)
    output.show(*confidentiality_sentences(document))


@bound.command("extraction", cls=VerbCommand)
@verb(ExtractionBoundSettings)
def extraction(settings: ExtractionBoundSettings, output: Output) -> None:
    """Probability of extracting a secret under a Rényi guarantee, with owner-level and (ε, δ) conversions."""
    from reticent.runs.bounds.bound import bound_extraction

    document = bound_extraction(settings)
    output.document(document)
    output.show(*extraction_sentences(document))
