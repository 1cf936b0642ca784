"""`reticent bound`: guarantees and leakage bounds from parameters alone: no model, no data, no torch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from reticent.cli.console import Output
from reticent.cli.options import AsJson
from reticent.core.errors import ConfigError
from reticent.core.ranges import EPOCHS, EPSILON, NOISE_MULTIPLIER, ORDER, STEPS
from reticent.runs.corpora import Relation

if TYPE_CHECKING:
    from reticent.runs.bounds.document import Training


class _BoundGroup(typer.core.TyperGroup):
    """`reticent bound RUN` beside `reticent bound dp-sgd …`: what is no bound's name is a path."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The named bound, or the re-derivation of a run."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


bound = typer.Typer(
    cls=_BoundGroup,
    help="Guarantee and leakage bounds from parameters alone; `bound RUN` derives a run's numbers again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


Noise = Annotated[float | None, typer.Option("--noise-multiplier", help="Noise relative to the clip norm.")]
Rate = Annotated[float | None, typer.Option("--sampling-rate", help="Chance of a record to be in a batch.")]
Steps = Annotated[int | None, typer.Option("--steps", help="Number of noisy steps.")]
Delta = Annotated[float, typer.Option("--delta", help="δ at which ε is stated; well below 1/records.")]


@bound.command("run")
def run(
    path: Annotated[Path, typer.Argument(help="Run directory, model folder or guarantee.json.", metavar="RUN")],
    as_json: AsJson = False,
) -> int:
    """Derive a run's ε again and check its weights and ledger; `reticent bound RUN` for short."""
    from reticent.runs.rederivation import rederive, sentences

    output = Output(as_json=as_json)
    found = rederive(path)
    output.document(found.to_json())
    output.show(*sentences(found))
    return 0 if found.agrees else 1


@bound.command("dp-sgd")
def dp_sgd(
    noise_multiplier: Noise = None,
    target_epsilon: Annotated[
        float | None, typer.Option("--target-epsilon", help="Instead of the noise: find the least that reaches it.")
    ] = None,
    sampling_rate: Rate = None,
    steps: Steps = None,
    records: Annotated[
        int | None, typer.Option("--records", help="With --batch and --epochs, instead of the two.")
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Expected records in a batch.")] = None,
    epochs: Annotated[float | None, typer.Option("--epochs", help="Expected passes over the records.")] = None,
    delta: Delta = 1e-5,
    neighbours: Annotated[Relation, typer.Option("--neighbours", help="Worlds compared.")] = Relation.ADD_REMOVE,
    secret_bits: Annotated[
        str | None, typer.Option("--secret-bits", help="Sizes of secrets in bits, comma-separated.")
    ] = None,
    secret: Annotated[str | None, typer.Option("--secret", help='Or in words: "16 digits", "1 of 5000".')] = None,
    copies: Annotated[int, typer.Option("--copies", help="Records that the secret stands in.", min=1)] = 1,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the bounds: .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """ε of DP-SGD by two accountants, how many bits of a secret can leak, what attacks may reach."""
    from reticent.cli.bound_sentences import dp_sgd_sentences
    from reticent.runs.bounds.document import dp_sgd_bound

    output = Output(as_json=as_json)
    rate, count = _schedule(sampling_rate, steps, records=records, batch=batch, epochs=epochs)
    bits = _secrets(secret_bits, secret)
    if plot is not None:
        _check_figure(plot)
    training = _training(noise_multiplier, target_epsilon, rate=rate, steps=count, delta=delta, relation=neighbours)
    document = dp_sgd_bound(training, bits, copies=copies)
    if plot is not None:
        from reticent.runs.bounds.figures import draw_dp_sgd

        draw_dp_sgd(training, bits, path=plot, copies=copies)
    output.document(document)
    output.show(*dp_sgd_sentences(document))


@bound.command("confidentiality")
def confidentiality(
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="ε of the private training for replacing one record.")
    ] = None,
    noise_multiplier: Noise = None,
    sampling_rate: Rate = None,
    steps: Steps = None,
    delta: Delta = 1e-5,
    miss_rate: Annotated[float, typer.Option("--miss-rate", help="Share of secrets the policy misses (γ).")] = 0.1,
    conservative_miss_rate: Annotated[
        float, typer.Option("--conservative-miss-rate", help="Share that the conservative policy misses too.")
    ] = 0.0,
    group: Annotated[int, typer.Option("--group", help="Secrets masked together.", min=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """Confidentiality of secrets under redacted training: on average, at worst, and for groups."""
    from reticent.cli.bound_sentences import confidentiality_sentences
    from reticent.runs.bounds.document import confidentiality_bound, missed_by_promise, missed_by_training

    output = Output(as_json=as_json)
    for name, value in (("--miss-rate", miss_rate), ("--conservative-miss-rate", conservative_miss_rate)):
        _require_chance(name, value, zero=True)
    if conservative_miss_rate > miss_rate:
        raise ConfigError("the conservative policy must not miss more than the policy")
    from_training = [value is not None for value in (noise_multiplier, sampling_rate, steps)]
    if (epsilon is not None) == any(from_training) or (any(from_training) and not all(from_training)):
        raise ConfigError(
            "give either --epsilon, or --noise-multiplier with --sampling-rate and --steps",
            hint="ε must be for replacing one record, not for adding or removing one",
        )
    _require_chance("--delta", delta, zero=True)
    if epsilon is not None:
        if not 0.0 <= epsilon < 1e6:
            raise ConfigError("--epsilon must be 0 or more", found=epsilon)
        missed = missed_by_promise(epsilon, delta)
    else:
        training = _training(
            noise_multiplier, None, rate=sampling_rate, steps=steps, delta=delta, relation=Relation.REPLACE
        )
        missed = missed_by_training(training)
    document = confidentiality_bound(
        missed, miss_rate=miss_rate, conservative_miss_rate=conservative_miss_rate, group=group
    )
    output.document(document)
    output.show(*confidentiality_sentences(document))


@bound.command("extraction")
def extraction(
    order: Annotated[float, typer.Option("--order", help="Rényi order of the guarantee.")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="Rényi ε at that order, for one part.")],
    candidates: Annotated[int, typer.Option("--candidates", help="Equally likely secrets.", min=1)],
    copies: Annotated[int, typer.Option("--copies", help="Parts that the secret stands in.", min=1)] = 1,
    delta: Delta = 1e-5,
    as_json: AsJson = False,
) -> None:
    """Chance to extract a secret under a Rényi guarantee, with owner-level and (ε, δ) conversions."""
    from reticent.cli.bound_sentences import extraction_sentences
    from reticent.runs.bounds.document import extraction_bound

    output = Output(as_json=as_json)
    ORDER.require("--order", order)
    if not 0.0 <= epsilon < 1e6:
        raise ConfigError("--epsilon must be 0 or more", found=epsilon)
    _require_chance("--delta", delta, zero=False)
    document = extraction_bound(order, epsilon, candidates=candidates, group=copies, delta=delta)
    output.document(document)
    output.show(*extraction_sentences(document))


def _training(
    noise: float | None,
    target: float | None,
    *,
    rate: float | None,
    steps: int | None,
    delta: float,
    relation: Relation,
) -> "Training":
    """The training that the flags describe; noise given, or found for a target."""
    from reticent.core.guarantee import Neighbours
    from reticent.runs.bounds.document import Training, calibrated

    if (noise is None) == (target is None):
        raise ConfigError(
            "give one of --noise-multiplier and --target-epsilon", found="both" if noise else "neither"
        )
    if rate is None or steps is None:
        raise ConfigError("--sampling-rate and --steps are both needed")
    _require_chance("--sampling-rate", rate, zero=False)
    _require_chance("--delta", delta, zero=False)
    STEPS.require("--steps", steps, hint="no training takes more")
    neighbours = Neighbours.ADD_REMOVE if relation is Relation.ADD_REMOVE else Neighbours.REPLACE
    if noise is None:
        assert target is not None
        EPSILON.require("--target-epsilon", target)
        return calibrated(target, delta=delta, sampling_rate=rate, steps=steps, neighbours=neighbours)
    NOISE_MULTIPLIER.require("--noise-multiplier", noise, hint="less is no protection")
    return Training(noise_multiplier=noise, sampling_rate=rate, steps=steps, delta=delta, neighbours=neighbours)


def _schedule(
    rate: float | None, steps: int | None, *, records: int | None, batch: int | None, epochs: float | None
) -> tuple[float, int]:
    """Sampling rate and steps, given as such or by records, batch and epochs."""
    direct, derived = (rate, steps), (records, batch, epochs)
    if all(v is not None for v in direct) and all(v is None for v in derived):
        assert rate is not None
        assert steps is not None
        return rate, steps
    if all(v is None for v in direct) and all(v is not None for v in derived):
        assert records is not None
        assert batch is not None
        assert epochs is not None
        if not 1 <= batch <= records:
            raise ConfigError("--batch must be between 1 and --records", found=batch)
        EPOCHS.require("--epochs", epochs)
        return batch / records, max(1, round(epochs * records / batch))
    raise ConfigError("give --sampling-rate and --steps, or --records, --batch and --epochs")


def _secrets(listed: str | None, described: str | None) -> list[float]:
    """Sizes of the secrets in bits."""
    from reticent.runs.bounds.secret_size import bits_of, parse_bits

    bits = parse_bits(listed) if listed is not None else []
    if described is not None:
        bits.append(bits_of(described))
    return bits or [20.0, 40.0, 60.0]


def _check_figure(path: Path) -> None:
    """Refuse what cannot be drawn before minutes are spent on computing it."""
    from reticent.core.extras import require

    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError("--plot draws .png, .svg or .pdf", found=repr(path.suffix))
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent}: no such directory", hint="make it first")
    require("matplotlib", purpose="--plot")


def _require_chance(name: str, value: float, *, zero: bool) -> None:
    if not (0.0 <= value <= 1.0 if zero else 0.0 < value <= 1.0):
        raise ConfigError(f"{name} is a chance", found=value, expected="0 to 1" if zero else "above 0, at most 1")
