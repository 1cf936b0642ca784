"""`reticent ledger`: the operator's view of what an ensemble or a training has spent.

From a run directory, whose ledger its owner alone can read (with --ledger where it is in PostgreSQL), or from the
operator's port of a running server (`http://127.0.0.1:8001`), with the operator's key in RETICENT_OPERATOR_KEY.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import typer

from reticent.cli.console import Output, table
from reticent.cli.flags import VerbCommand, verb
from reticent.core.errors import ConfigError
from reticent.core.printing.numbers import counted
from reticent.core.printing.safe_text import for_json
from reticent.server.settings import (
    CorpusLedgerSettings,
    ExportLedgerSettings,
    ReanchorSettings,
    ShowLedgerSettings,
)

ledger = typer.Typer(
    help="Show what was spent, for the operator: show, verify, export, corpus, reanchor.", no_args_is_help=True
)

KEY = "RETICENT_OPERATOR_KEY"


@ledger.command("show", cls=VerbCommand)
@verb(ShowLedgerSettings)
def show(settings: ShowLedgerSettings, output: Output) -> None:
    """Show the budget and what each part has spent."""
    run = settings.run
    if _is_url(run):
        document = _fetched_document(run, "ledger.json")
    else:
        from reticent.runs.ensemble.prediction import query_budget
        from reticent.server.operator.spending import spending

        with _opened(run, settings.ledger) as opened:
            document = spending(opened, queries=query_budget(Path(run))).to_json()
    output.document(document)
    if "parts" not in document:
        output.show("Nothing is charged: the weights themselves carry the guarantee.")
        return
    rows = [
        (part, f"{values['spent']:.6g}", f"{100 * values['share']:.2f} %")
        for part, values in document["parts"].items()
    ]
    output.show(*_sentences(document), table("Spend", ("account", "spent", "share of budget"), rows))
    if document.get("reanchored"):
        output.show(
            f"An operator accepted this ledger without its witness {counted(document['reanchored'], 'time')}: the "
            "budget holds if nothing was released that is not in it."
        )


def _sentences(document: dict[str, Any]) -> list[str]:
    """What may be spent and what was charged: steps of a training, tokens of an ensemble."""
    from reticent.core.printing.numbers import at_most

    promise = f"within (ε = {at_most(document['epsilon'])}, δ = {document['delta']:g})"
    if "steps" in document:
        return [
            f"The training may take {document['limit']:,.0f} noisy steps, {promise}.",
            f"{counted(round(document['steps']), 'step')} in {counted(document['rows'], 'charge')}.",
        ]
    return [
        f"Each part may spend {document['limit']:.6g} {document['measure']}, {promise}.",
        *_query_budget(document),
        f"{counted(document['answers'], 'token')} in {counted(document['rows'], 'charge')}. Private: do not "
        "publish.",
    ]


def _query_budget(document: dict[str, Any]) -> list[str]:
    """The query budget and what is left of it, where it is known: an older server's page does not say."""
    queries = document.get("queries")
    if queries is None:
        return []
    left = max(0, queries - document["answers"])
    return [
        f"The query budget is {counted(queries, 'token')}, of which {left:,} {'is' if left == 1 else 'are'} left."
    ]


@ledger.command("verify", cls=VerbCommand)
@verb(ShowLedgerSettings)
def verify(settings: ShowLedgerSettings, output: Output) -> None:
    """Check every row of the chain, its pages and its witness."""
    run = settings.run
    if _is_url(run):
        document = _fetched_document(run, "verify")
    else:
        with _opened(run, settings.ledger) as opened:
            head = opened.verify()
            document = {"rows": head.sequence, "digest": head.digest}
    output.document({"schema_version": 1} | document)
    output.show(f"The chain of {counted(document['rows'], 'row')} is intact; its head is {document['digest']}.")


@ledger.command("export", cls=VerbCommand)
@verb(ExportLedgerSettings)
def export(settings: ExportLedgerSettings, output: Output) -> None:  # noqa: ARG001
    """Export every row as JSON Lines. The rows are as private as the text."""
    run, out = settings.run, settings.out
    if _is_url(run):
        content = _fetched(run, "export").decode("utf8")
    else:
        with _opened(run, settings.ledger) as opened:
            content = "".join(line + "\n" for line in opened.export())
    if out is None:
        sys.stdout.write(for_json(content))
        return
    from reticent.core.document import write_atomically

    write_atomically(out, content.encode("utf8"), mode=0o600)


@ledger.command("corpus", cls=VerbCommand)
@verb(CorpusLedgerSettings)
def corpus(settings: CorpusLedgerSettings, output: Output) -> None:
    """List every release of a corpus and their joint guarantee."""
    from reticent.core.printing.numbers import at_most
    from reticent.runs.proofs.corpus_ledger import CorpusLedger, Entry, all_together

    file = settings.file
    entries = CorpusLedger(file).entries()
    if not entries:
        raise ConfigError(f"{file}: no corpus ledger here", hint="reticent train … --corpus-ledger FILE writes one")
    promised = [entry.guarantee for entry in entries if entry.guarantee is not None]
    whole = all_together(entries, promised[-1]) if promised else None
    output.document(
        {
            "schema_version": 1,
            "releases": [{"time": one.time, "run": one.run, "guarantee": one.guarantee} for one in entries],
            "together": whole,
        }
    )

    def row(entry: Entry) -> tuple[str, ...]:
        if entry.guarantee is None:
            return (entry.time, entry.run, "plain training", "–", "∞", "–")
        one = entry.guarantee
        return (entry.time, entry.run, one.mechanism, one.unit.value, at_most(one.epsilon), at_most(one.delta))

    output.show(
        table("Releases", ("time", "run", "mechanism", "protects one", "ε", "δ"), [row(one) for one in entries])
    )
    if whole is None:
        output.show("Nothing is proved: no release of this corpus has a guarantee.")
    elif whole.epsilon == float("inf"):
        output.show(f"Nothing is proved for {whole.covers}.")
    else:
        output.show(
            f"Proved together: ε = {at_most(whole.epsilon)} at δ = {at_most(whole.delta)} for one "
            f"{whole.unit.value} ({whole.neighbours.value}), against anyone who sees all releases."
        )


@ledger.command("reanchor", cls=VerbCommand)
@verb(ReanchorSettings)
def reanchor(settings: ReanchorSettings, output: Output) -> None:
    """Accept a ledger whose witness file is missing, damaged or ahead of it.

    Charges after the last remaining row are lost. If anything was released since, the budget is spent twice and the
    guarantee is false: restore the true ledger instead. The rows themselves must be intact. Processes that have the
    ledger open are stopped. The decision is recorded permanently in the ledger.
    """
    from reticent.runs.ledger_place import LedgerPlace

    run = settings.run
    if not settings.nothing_was_released:
        raise ConfigError(
            f"{run}: a new witness drops every charge after the last row",
            found="no confirmation that nothing was released since",
            hint="restore the newest ledger; if nothing was released since: --nothing-was-released",
        )
    head = LedgerPlace(settings.ledger).reanchor(run)
    output.document({"schema_version": 1, "rows": head.sequence, "digest": head.digest})
    output.show(
        f"The ledger was accepted as it is, and row {head.sequence:,} records that. Its head is {head.digest}.",
        "The guarantee now also rests on your word that nothing was released after the row before it.",
    )


def _is_url(run: str) -> bool:
    return run.startswith(("http://", "https://"))


def _opened(run: str, address: str | None) -> Any:
    from reticent.runs.ledger_place import LedgerPlace

    return LedgerPlace(address).open(Path(run))


def _fetched_document(address: str, page: str) -> dict[str, Any]:
    """A page of the operator's port that is a JSON object."""
    try:
        document = json.loads(_fetched(address, page))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ConfigError("this address does not answer as an operator's port", hint="see --operator-port of serve")
    return document


def _fetched(address: str, page: str) -> bytes:
    """A page of the operator's port; the key comes from the environment, never from the command line."""
    key = os.environ.get(KEY)
    if not key:
        raise ConfigError(
            f"{KEY} is not set", hint="set it to an operator's key: reticent keys add NAME --operator"
        )
    request = urllib.request.Request(  # noqa: S310 (http or https by `_is_url`)
        f"{address.rstrip('/')}/{page}", headers={"Authorization": f"Bearer {key}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            return bytes(response.read())
    except urllib.error.HTTPError as error:
        raise ConfigError("the operator's port refused the request", found=f"status {error.code}") from None
    except (urllib.error.URLError, OSError):
        raise ConfigError(
            "the operator's port does not answer", hint="start the server with --operator-port N"
        ) from None
