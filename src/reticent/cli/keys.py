"""`reticent keys`: who may ask a server. Keys are shown once, when they are made, and stored as hashes."""

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.console import Output, table
from reticent.cli.options import AsJson

keys = typer.Typer(help="Keys of a server: add, list, remove.", no_args_is_help=True)

KeysFile = Annotated[Path, typer.Option("--file", help="The key file; made where there is none.", metavar="FILE")]


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Whose key it is.", metavar="NAME")],
    file: KeysFile = Path("keys.json"),
    quota: Annotated[
        int | None, typer.Option("--quota", help="Tokens it may draw in all: rationing, not privacy.")
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="A key for the operator's page and `reticent ledger`.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a key and show it, this once; the file holds its hash."""
    from reticent.server.keys import add_key

    output = Output(as_json=as_json)
    key = add_key(file, name, quota=quota, is_operator=operator)
    output.document({"schema_version": 1, "name": name, "key": key})
    output.show(key)


@keys.command("list")
def list_keys(file: KeysFile = Path("keys.json"), as_json: AsJson = False) -> None:
    """The keys' names, quotas and what they have drawn."""
    from reticent.server.keys import KeyFile
    from reticent.server.quotas import Quotas, usage_path

    output = Output(as_json=as_json)
    found = KeyFile(file).keys
    usage = usage_path(file)
    drawn = Quotas(usage).drawn() if usage.exists() else {}
    lines = [
        {"name": key.name, "operator": key.is_operator, "quota": key.quota, "tokens": drawn.get(key.digest, 0)}
        for key in found
    ]
    output.document({"schema_version": 1, "keys": lines})
    rows = [
        (line["name"], "operator" if line["operator"] else "", line["quota"] or "–", line["tokens"])
        for line in lines
    ]
    output.show(table(str(file), ("name", "role", "quota", "tokens"), rows))


@keys.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="Whose key it is.", metavar="NAME")],
    file: KeysFile = Path("keys.json"),
) -> None:
    """Take a key out of the file; a running server stops to admit it."""
    from reticent.server.keys import remove_key

    remove_key(file, name)
