"""`reticent train`: a model from a corpus, plainly or with a guarantee; can be stopped and resumed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli.console import Output
from reticent.cli.options import AsJson, CorpusFormat, EngineChoice, RayAddress, Seed, Workers, engine_of
from reticent.runs.corpora import Relation, corpus_at
from reticent.runs.training.config import (
    DecayName,
    Method,
    OptimiserName,
    Precision,
    Protected,
    TrainConfig,
)
from reticent.runs.training.launch import is_follower

if TYPE_CHECKING:
    from reticent.engine.work import EngineSettings

_PRIVACY = "Privacy"
_POLICIES = "Policies (crt, selective)"
_ENSEMBLE = "Ensemble (submix)"
_MODEL = "Model"
_STEPS = "Optimisation"
_CORPUS = "Corpus"


def train(
    method: Annotated[Method | None, typer.Option("--method", help="How to train.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="Path or hub id to start from, 'embedded', or 'lstm:1x200'.", metavar="MODEL"),
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Corpus to train on.", metavar="FILE")] = None,
    holdout: Annotated[
        Path | None, typer.Option("--holdout", help="Corpus to measure the result on.", metavar="FILE")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Run directory to write.", metavar="DIR")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file of the run; flags override it.", metavar="FILE")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Go on with an interrupted run.", metavar="DIR")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the guarantee that would be given; touch nothing.")
    ] = False,
    target_epsilon: Annotated[
        float | None,
        typer.Option("--target-epsilon", help="Calibrate the noise to this ε.", rich_help_panel=_PRIVACY),
    ] = None,
    noise_multiplier: Annotated[
        float | None,
        typer.Option("--noise-multiplier", help="Noise, in units of the clip norm.", rich_help_panel=_PRIVACY),
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="δ, well below 1 / records.", rich_help_panel=_PRIVACY)
    ] = None,
    clip_norm: Annotated[
        float | None,
        typer.Option("--clip-norm", help="Most that one unit may move a sum (1).", rich_help_panel=_PRIVACY),
    ] = None,
    unit: Annotated[
        Protected | None, typer.Option("--unit", help="What one promise protects.", rich_help_panel=_PRIVACY)
    ] = None,
    neighbours: Annotated[
        Relation | None,
        typer.Option("--neighbours", help="How two corpora may differ.", rich_help_panel=_PRIVACY),
    ] = None,
    texts_per_owner: Annotated[
        int | None,
        typer.Option("--texts-per-owner", help="Most texts of an owner in a step (4).", rich_help_panel=_PRIVACY),
    ] = None,
    audit: Annotated[
        int | None,
        typer.Option(
            "--audit", help="Measure ε by N gradient canaries in the run.", metavar="N", rich_help_panel=_PRIVACY
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="What is redacted: patterns, dictionary:FILE, …", rich_help_panel=_POLICIES),
    ] = None,
    conservative_policy: Annotated[
        str | None,
        typer.Option(
            "--conservative-policy",
            help="What is trained with noise besides; without it, everything (crt).",
            rich_help_panel=_POLICIES,
        ),
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(
            "--labelled", help="Measure miss rates on these records.", metavar="FILE", rich_help_panel=_POLICIES
        ),
    ] = None,
    miss_rate: Annotated[
        float | None,
        typer.Option("--miss-rate", help="Share of secrets the policy misses (1).", rich_help_panel=_POLICIES),
    ] = None,
    conservative_miss_rate: Annotated[
        float | None,
        typer.Option("--conservative-miss-rate", help="Share that both miss.", rich_help_panel=_POLICIES),
    ] = None,
    fill_masks: Annotated[
        bool | None,
        typer.Option("--fill-masks", help="Train on made-up values for masks (crt).", rich_help_panel=_POLICIES),
    ] = None,
    state_norm: Annotated[
        float | None,
        typer.Option(
            "--state-norm", help="Most of a state that is read (1, selective).", rich_help_panel=_POLICIES
        ),
    ] = None,
    parts: Annotated[
        int | None, typer.Option("--parts", help="Parts the owners are split into (8).", rich_help_panel=_ENSEMBLE)
    ] = None,
    halves: Annotated[
        bool | None,
        typer.Option("--halves", help="Two models a part, as Algorithm 2 needs.", rich_help_panel=_ENSEMBLE),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option("--epochs", help="Times a unit takes part (1).", rich_help_panel=_STEPS)
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", help="Units a step, on average if private (32).", rich_help_panel=_STEPS),
    ] = None,
    public_batch: Annotated[
        int | None,
        typer.Option("--public-batch", help="Records of a public step (--batch, crt).", rich_help_panel=_STEPS),
    ] = None,
    optimiser: Annotated[
        OptimiserName | None, typer.Option("--optimiser", help="adamw unless given.", rich_help_panel=_STEPS)
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="0.001 unless given.", rich_help_panel=_STEPS)
    ] = None,
    decay: Annotated[
        DecayName | None, typer.Option("--decay", help="Of the learning rate.", rich_help_panel=_STEPS)
    ] = None,
    token_budget: Annotated[
        int | None,
        typer.Option("--token-budget", help="Padded tokens in memory at once.", rich_help_panel=_STEPS),
    ] = None,
    checkpoint_steps: Annotated[
        int | None,
        typer.Option("--checkpoint-steps", help="Also save every N steps.", rich_help_panel=_STEPS, metavar="N"),
    ] = None,
    lora_rank: Annotated[
        int | None, typer.Option("--lora-rank", help="Train LoRA layers of this rank.", rich_help_panel=_MODEL)
    ] = None,
    adapter_layers: Annotated[
        int | None,
        typer.Option(
            "--adapter-layers", help="LoRA in the top N blocks alone.", rich_help_panel=_MODEL, metavar="N"
        ),
    ] = None,
    merge: Annotated[
        bool | None, typer.Option("--merge", help="Merge LoRA layers into the model.", rich_help_panel=_MODEL)
    ] = None,
    freeze_embeddings: Annotated[
        bool | None, typer.Option("--freeze-embeddings", help="Leave embeddings alone.", rich_help_panel=_MODEL)
    ] = None,
    precision: Annotated[
        Precision | None,
        typer.Option("--precision", help="Of forward and backward; norms are float32.", rich_help_panel=_MODEL),
    ] = None,
    checkpoint_activations: Annotated[
        bool | None,
        typer.Option(
            "--checkpoint-activations",
            help="Compute activations again instead of keeping them: less memory, more time.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    shard_weights: Annotated[
        bool | None,
        typer.Option(
            "--shard-weights",
            help="Spread the weights over the processes that torchrun started (FSDP): less memory each.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="auto, cpu, cuda, mps.", rich_help_panel=_MODEL)
    ] = None,
    max_length: Annotated[
        int | None, typer.Option("--max-length", help="Tokens kept of a text.", rich_help_panel=_CORPUS)
    ] = None,
    corpus_ledger: Annotated[
        Path | None,
        typer.Option(
            "--corpus-ledger",
            help="Record this release with all others of the corpus, and print what they prove together.",
            metavar="FILE",
            rich_help_panel=_CORPUS,
        ),
    ] = None,
    text_field: Annotated[str | None, typer.Option("--text-field", rich_help_panel=_CORPUS)] = None,
    id_field: Annotated[str | None, typer.Option("--id-field", rich_help_panel=_CORPUS)] = None,
    owner_field: Annotated[str | None, typer.Option("--owner-field", rich_help_panel=_CORPUS)] = None,
    format: CorpusFormat = None,
    engine: EngineChoice = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    seed: Seed = None,
    as_json: AsJson = False,
) -> int:
    """Train a model on a corpus. Noise and sampling that protect come from the system, whatever the seed."""
    flags: dict[str, Any] = {
        "data": {
            "file": data if data is None else str(data),
            "holdout": holdout if holdout is None else str(holdout),
            "max_length": max_length,
            "corpus_ledger": corpus_ledger if corpus_ledger is None else str(corpus_ledger),
            "text_field": text_field,
            "id_field": id_field,
            "owner_field": owner_field,
            "format": format,
        },
        "model": {
            "source": model,
            "lora_rank": lora_rank,
            "adapter_layers": adapter_layers,
            "merge": merge,
            "freeze_embeddings": freeze_embeddings,
            "precision": precision,
            "checkpoint_activations": checkpoint_activations,
            "shard_weights": shard_weights,
            "device": device,
        },
        "training": {
            "method": method,
            "target_epsilon": target_epsilon,
            "noise_multiplier": noise_multiplier,
            "delta": delta,
            "clip_norm": clip_norm,
            "unit": unit,
            "neighbours": neighbours,
            "texts_per_owner": texts_per_owner,
            "policy": policy,
            "conservative_policy": conservative_policy,
            "labelled": labelled if labelled is None else str(labelled),
            "miss_rate": miss_rate,
            "conservative_miss_rate": conservative_miss_rate,
            "state_norm": state_norm,
            "parts": parts,
            "halves": halves,
            "epochs": epochs,
            "batch": batch,
            "public_batch": public_batch,
            "fill_masks": fill_masks,
            "audit": audit,
            "optimiser": optimiser,
            "learning_rate": learning_rate,
            "decay": decay,
            "token_budget": token_budget,
            "checkpoint_steps": checkpoint_steps,
        },
        "seed": seed,
    }
    output = Output(as_json=as_json, is_silent=is_follower())
    asked = engine_of(engine, workers, ray_address)
    if resume is not None:
        return _resume(resume, flags, out=out, config=config, output=output, engine=asked)
    return _start(_configuration(config, flags), out=out, dry_run=dry_run, engine=asked, output=output)


def _configuration(path: Path | None, flags: dict[str, Any]) -> TrainConfig:
    """The file with the flags in their places, checked."""
    from reticent.runs.config import override, read_toml, validate

    tables = read_toml(path) if path is not None else {}
    given = override(tables, flags)
    config = validate(TrainConfig, given, where="the command line" if path is None else str(path))
    config.check()
    return config


def _refuse_engine(engine: "EngineSettings | None") -> None:
    from reticent.core.errors import ConfigError

    if engine is not None:
        raise ConfigError(
            "one model is not trained in pieces", hint="--engine is for --method submix; for one model use torchrun"
        )


def _start(
    config: TrainConfig, *, out: Path | None, dry_run: bool, output: Output, engine: "EngineSettings | None"
) -> int:
    from reticent.core.errors import ConfigError

    is_ensemble = config.training.method is Method.SUBMIX
    if not is_ensemble:
        _refuse_engine(engine)
    if out is None and not dry_run:
        raise ConfigError("--out is missing", hint="name the run directory to write, or use --dry-run")
    _look_for(config, None if dry_run or is_follower() else out, dry_run=dry_run)
    if dry_run and is_ensemble:
        from reticent.cli import ensemble_sentences
        from reticent.runs.ensemble import run as ensemble_run

        return ensemble_sentences.show_preview(ensemble_run.preview(config), output)
    if dry_run:
        from reticent.cli.train_sentences import show_preview
        from reticent.runs.training.run import preview

        return show_preview(preview(config), output)
    assert out is not None
    if is_ensemble:
        from reticent.cli import ensemble_sentences
        from reticent.runs.ensemble import run as ensemble_run

        with _Watch(output) as watch:
            trained = ensemble_run.start(config, out, observe=watch.observe, engine=engine)
        return ensemble_sentences.show_result(trained, output)
    from reticent.cli.train_sentences import show_result
    from reticent.runs.training.run import start

    with _Watch(output) as watch:
        result = start(config, out, observe=watch.observe)
    return show_result(result, output)


def _look_for(config: TrainConfig, out: Path | None, *, dry_run: bool) -> None:
    """Everything that the run reads is there and its place is free: said before torch is loaded."""
    from reticent.models.huggingface.location import find_local, locate
    from reticent.runs.directory import RunDirectory

    data = config.data
    for path in (data.file, data.holdout, config.training.labelled):
        if path is not None:
            fields: dict[str, Any] = {"text": data.text_field, "id": data.id_field, "owner": data.owner_field}
            corpus_at(Path(path), **fields, format=data.format if path != config.training.labelled else None)
    if not config.model.source.startswith("lstm:"):
        _ = find_local(config.model.source) if dry_run else locate(config.model.source)
    if out is not None:
        RunDirectory.create(out)


def _resume(
    run: Path,
    flags: dict[str, Any],
    *,
    out: Path | None,
    config: Path | None,
    output: Output,
    engine: "EngineSettings | None",
) -> int:
    from reticent.core.errors import ConfigError

    tables = [value for value in flags.values() if isinstance(value, dict)]
    changed = [name for table in tables for name, value in table.items() if value is not None]
    if changed or flags["seed"] is not None or out is not None or config is not None:
        raise ConfigError(
            "--resume goes on with the run as it was planned; nothing about it can be changed",
            hint="give --resume RUN alone, or start another run",
        )
    from reticent.runs.directory import RunDirectory

    RunDirectory.open(run)  # said before torch is loaded
    from reticent.cli import ensemble_sentences
    from reticent.cli.train_sentences import show_result
    from reticent.runs.ensemble import run as ensemble_run
    from reticent.runs.training.run import resume

    if ensemble_run.is_ensemble(run):
        with _Watch(output) as watch:
            trained = ensemble_run.resume(run, observe=watch.observe, engine=engine)
        return ensemble_sentences.show_result(trained, output)
    _refuse_engine(engine)
    with _Watch(output) as watch:
        result = resume(run, observe=watch.observe)
    return show_result(result, output)


class _Watch:
    """A progress bar with loss, ε so far and speed, and Ctrl-C as a request to save and stop."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __enter__(self) -> "_Watch":
        from contextlib import ExitStack

        from reticent.cli.interruption import interruptible

        self._stack = ExitStack()
        self._bars = self._stack.enter_context(self._output.progress())
        self._is_asked = self._stack.enter_context(interruptible())
        self._task = self._bars.add_task("training", total=None, status="")
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def observe(self, progress: Any, epsilon: float | None) -> bool:
        """Show a step; False once the operator wants to stop."""
        parts = [] if progress.loss is None else [f"loss {progress.loss:.3f}"]
        parts += [] if epsilon is None else [f"ε {epsilon:.3f}"]
        parts += [f"{progress.tokens_per_second:,.0f} tokens/s"] if progress.tokens_per_second else []
        self._bars.update(self._task, completed=progress.step, total=progress.steps, status=" · ".join(parts))
        return not self._is_asked()
