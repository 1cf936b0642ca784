"""`reticent keys`: who may ask a server. Keys are shown once, when they are made, and stored as hashes."""

import typer

from reticent.cli.console import Output, table
from reticent.cli.flags import VerbCommand, verb
from reticent.server.settings import AddKeySettings, ListKeysSettings, RemoveKeySettings

keys = typer.Typer(help="Manage API keys: add, list, remove.", no_args_is_help=True)


@keys.command("add", cls=VerbCommand)
@verb(AddKeySettings)
def add(settings: AddKeySettings, output: Output) -> None:
    """Create a key and show it once; the file stores only its hash."""
    from reticent.server.access.keys import add_key

    key = add_key(settings.file, settings.name, quota=settings.quota, is_operator=settings.operator)
    output.document({"schema_version": 1, "name": settings.name, "key": key})
    output.show(key)


@keys.command("list", cls=VerbCommand)
@verb(ListKeysSettings)
def list_keys(settings: ListKeysSettings, output: Output) -> None:
    """List the keys with their quotas and the tokens drawn."""
    from reticent.server.access.keys import KeyFile
    from reticent.server.access.quotas import Quotas, usage_path

    file = settings.file
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


@keys.command("remove", cls=VerbCommand)
@verb(RemoveKeySettings)
def remove(settings: RemoveKeySettings, output: Output) -> None:  # noqa: ARG001
    """Remove a key from the file; a running server stops accepting it."""
    from reticent.server.access.keys import remove_key

    remove_key(settings.file, settings.name)
