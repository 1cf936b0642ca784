"""`reticent serve`: answer OpenAI-compatible requests within a privacy budget."""

from typing import TYPE_CHECKING

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.core.errors import ConfigError
from reticent.core.extras import require
from reticent.server.settings import ServeSettings

if TYPE_CHECKING:
    from reticent.server.launching import Serving


@verb(ServeSettings)
def serve(settings: ServeSettings, output: Output) -> int:
    """Answer OpenAI-compatible requests until stopped. An ensemble pays for every token before it is drawn."""
    require("fastapi", "uvicorn", "prometheus_client", purpose="serving")
    if not settings.run.is_dir():
        raise ConfigError(f"{settings.run}: no such folder", hint="give the run directory of a training run")
    from reticent.server.launching import log_plainly
    from reticent.server.launching import serve as answer

    serving = settings.serving()
    serving.check()
    _show_promise(serving, output)
    if settings.dry_run:
        output.show("Nothing was started. This is the guarantee that answers would have.")
        return 0
    log_plainly()
    scheme = "https" if settings.tls_cert else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return answer(serving, lambda port: output.show(f"'{serving.name}' on {scheme}://{host}:{port}/v1"))


def _show_promise(serving: "Serving", output: Output) -> None:
    """The guarantee that answers have, or would have."""
    from reticent.server.launching import promised

    guarantee, lines = promised(serving)
    output.document({"schema_version": 1, "name": serving.name, "guarantee": guarantee, "sentences": lines})
    output.show(*lines)
