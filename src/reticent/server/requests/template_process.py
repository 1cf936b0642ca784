"""A chat template in a process of its own, which the server starts (`python -m` with this module's name).

A template is a program by the model's author, run on what clients send. Jinja's sandbox keeps it from the machine,
not from running for ever or filling the memory. So it runs where the kernel limits memory and the server can end
it: a line of JSON in, the template and what it is rendered with, a line out.

The environment is the one that transformers renders chat templates in. Imports nothing heavy.
"""

import json
import resource
import sys
from datetime import datetime
from typing import Any, Final

MEMORY: Final = 512 * 2**20  # bytes of address space


def environment() -> Any:
    """Jinja's sandbox with what chat templates expect."""
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks what the assistant says, for training alone."""

        tags = {"generation"}  # noqa: RUF012  as Jinja declares it

        def parse(self, parser: Parser) -> list[nodes.Node]:
            """The body as it is."""
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: object) -> None:
        raise TemplateError(str(message))

    def to_json(value: object, **options: Any) -> str:
        return json.dumps(value, **{"ensure_ascii": False} | options)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    return made


def rendered(template: str, values: dict[str, Any]) -> str:
    """The text that a template makes of a conversation."""
    return str(environment().from_string(template).render(**values))


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            text = rendered(asked["template"], asked["values"])
            said: dict[str, str | None] = {"text": text[: asked["most"] + 1]}
        except Exception:  # templates raise what they like: wrong order of roles, a missing system turn
            said = {"text": None}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
