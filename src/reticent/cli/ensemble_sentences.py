"""What `reticent train --method submix` says when it is done, or of what it would do."""

from typing import TYPE_CHECKING

from reticent.cli.console import Output
from reticent.runs.ensemble.manifest import NOTICE

if TYPE_CHECKING:
    from reticent.runs.ensemble.run import EnsemblePreview, EnsembleResult

INTERRUPTED = 130


def show_preview(found: "EnsemblePreview", output: Output) -> int:
    """What a run would do; the exit code."""
    output.document(
        {
            "schema_version": 1,
            "dry_run": True,
            "parts": found.parts,
            "members": found.members,
            "steps": found.steps,
            "guarantee": None,
        }
    )
    smallest, largest = min(found.records), max(found.records)
    output.show(
        f"Would train {found.members} models of {found.parts} parts, on {smallest:,} to {largest:,} records each,"
        f" {found.steps:,} steps in all.",
        "The weights would promise nothing; the guarantee comes with predictions (`reticent predict`).",
        "Nothing was trained or written.",
    )
    return 0


def show_result(result: "EnsembleResult", output: Output) -> int:
    """What a run did; the exit code."""
    manifest = result.manifest
    output.document(
        {
            "schema_version": 1,
            "run": str(result.run),
            "finished": result.is_finished,
            "step": result.step,
            "steps": result.steps,
            "parts": manifest.parts,
            "members": len(manifest.members),
            "guarantee": None,
            "notice": NOTICE,
        }
    )
    if not result.is_finished:
        again = f"reticent train --resume {result.run}"
        output.show(f"Stopped after step {result.step:,} of {result.steps:,} and saved. Go on with: {again}")
        return INTERRUPTED
    kind = "adapters" if manifest.lora_rank else "models"
    owners = sum(member.owners for member in manifest.members)
    output.show(
        f"Trained {len(manifest.members)} {kind} of {manifest.parts} parts in {result.steps:,} steps; each of"
        f" {owners:,} {manifest.unit}s stands in one of them, checked record by record.",
        NOTICE,
        f"Ask it with: reticent predict {result.run} --prompt … --epsilon 8 --delta 1e-5",
    )
    return 0
