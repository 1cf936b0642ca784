"""What a private token costs: eight parts against one model's token, forward, mixing and ledger included.

    python bench/submix.py [--rounds N] [--model DIR]

One model: the transformers library, its own cache, one token a step, which is what a server without any protection
pays. Ours: all rows of the ensemble in one forward with one cache. In all: look-up, mixing, durable charge (SQLite,
synced) and draw, by the predictor itself. Rivals: as many models one after the other, and peft's mixed batch, both
without mixing or ledger. Model: stories15m of the folder `shared` beside the checkout (or RETICENT_SHARED), else
the embedded model; LoRA of rank 8 in every linear map. All run as a server does, with freed memory kept
(`models.ensemble.allocator`), the single model too. Contenders take turns; ratios are taken within a round, medians
over rounds, of processor time, which busy neighbours lengthen less, and of wall time, which holds the wait for the
disk. Ends with code 1 where the ratio of processor time is above its limit.
"""

import argparse
import copy
import math
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from peft import PeftModel  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from reticent.ledger.durable import SqliteLedger  # noqa: E402
from reticent.models.embedded import embedded_model_path  # noqa: E402
from reticent.models.ensemble.adapters import AdapterEnsemble, EnsembleMember  # noqa: E402
from reticent.models.ensemble.allocator import keep_freed_memory  # noqa: E402
from reticent.models.ensemble.decoder import BatchedDecoder  # noqa: E402
from reticent.models.ensemble.streams import AdapterStreams  # noqa: E402
from reticent.models.ensemble.weights import read_decoder  # noqa: E402
from reticent.models.huggingface.loading import load_model  # noqa: E402
from reticent.prediction.budgets import MechanismName, PredictionTarget, set_up_mechanism  # noqa: E402
from reticent.prediction.mechanisms.mechanism import Layout  # noqa: E402
from reticent.prediction.predictor import TokenPredictor  # noqa: E402
from reticent.training.starting_model import ModelStart, load_for_training  # noqa: E402

PARTS, MANY = 8, 64
RANK = 8
PROMPT = 64  # tokens read before the first step
STEPS = 5  # a round
TARGET = PredictionTarget(epsilon=8.0, delta=1e-5, queries=1024)
Step = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Result:
    """Milliseconds a token and the ratio to one model's, of processor and wall time; `limit` is the target."""

    contender: str
    rows: int
    milliseconds: tuple[float, float]
    ratio: tuple[float, float]
    limit: float | None


def save_adapters(source: str, folder: Path, count: int, *, layers: int, rank: int = RANK) -> list[Path]:
    """Adapters of random weights, as training would write them."""
    model = load_for_training(ModelStart(source=source, lora_rank=rank, lora_layers=layers, device="cpu"), seed=0)
    paths = [folder / f"{layers}-{rank}-{index}" for index in range(count)]
    for path in paths:
        for name, parameter in model.module.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter.data, std=0.05)
        model.module.save_pretrained(path)
    return paths


def new_ensemble(source: str, paths: Sequence[Path], *, halves: bool) -> AdapterEnsemble:
    """The adapters as parts, one or two each."""
    members = [EnsembleMember(index // 2 if halves else index, path) for index, path in enumerate(paths)]
    parts = [f"part-{index}" for index in range(members[-1].part + 1)]
    return AdapterEnsemble(load_model(source, device="cpu", dtype="float32"), members, parts=parts)


def one_model(module: Any, prompt: Sequence[int], *, rows: int = 1, names: Sequence[str] | None = None) -> Step:
    """One token a call with the model's own cache, `rows` copies of the text; with names, peft's mixed batch."""
    extra = {} if names is None else {"adapter_names": list(names)}
    token = torch.full((rows, 1), 5)
    with torch.inference_mode():
        cache = module(torch.tensor([list(prompt)] * rows), use_cache=True, **extra).past_key_values

    def step() -> None:
        with torch.inference_mode():
            module(token, past_key_values=cache, use_cache=True, **extra)

    return step


def looked_up(streams: Any, prompt: Sequence[int]) -> Step:
    """One look-up of all rows a call, log-softmax included."""
    handle = streams.open(list(prompt[1:]))

    def step() -> None:
        streams.look_up([handle])
        streams.append(handle, 5)

    step()
    return step


def answered(ensemble: AdapterEnsemble, kind: MechanismName, ledger: Path, prompt: Sequence[int]) -> Step:
    """One released token a call: look-up, mixing, durable charge, draw."""
    setup = set_up_mechanism(kind, TARGET, Layout(ensemble.rows))
    assert setup.budget is not None
    opened = SqliteLedger.create(ledger, setup.budget, accounts=ensemble.parts)
    predictor = TokenPredictor(ensemble, setup.mechanism, ledger=opened, queries=TARGET.queries)
    handle = predictor.open(list(prompt[1:]))
    predictor.step([handle])
    return lambda: predictor.step([handle])


def mixed_batch(source: Path, paths: Sequence[Path]) -> Any:
    """peft's model with all adapters loaded, which it applies one after the other within a batch."""
    base = load_model(source, device="cpu", dtype="float32").module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PeftModel.from_pretrained(base, paths[0], adapter_name="a0")
        for index, path in enumerate(paths[1:], start=1):
            model.load_adapter(path, adapter_name=f"a{index}")
    return model.eval()


def contenders(source: Path, folder: Path) -> dict[tuple[str, int, float | None], Step]:
    """Every contender, its rows and the limit it is held to."""
    name = str(source)
    model = load_model(source, device="cpu", dtype="float32")
    depth = int(model.module.config.num_hidden_layers)
    top = math.ceil(depth / 4)
    prompt = [model.start_token, *(5 + (7 * place) % 200 for place in range(PROMPT - 1))]
    whole, upper = (save_adapters(name, folder, 2 * PARTS, layers=layers) for layers in (0, top))
    halves, single = new_ensemble(name, whole, halves=True), new_ensemble(name, whole[:PARTS], halves=False)
    top_halves, top_single = new_ensemble(name, upper, halves=True), new_ensemble(name, upper[:PARTS], halves=False)
    many = new_ensemble(name, save_adapters(name, folder, MANY, layers=1, rank=1), halves=False)
    alone = load_model(source, device="cpu", dtype="float32")
    weights = read_decoder(alone.module)
    row = AdapterStreams(BatchedDecoder(weights, [None] * depth), alone, remembered=0)
    separate = [one_model(copy.deepcopy(model.module), prompt) for _ in range(2 * PARTS + 1)]
    peft = mixed_batch(source, whole)
    names = ["__base__", *(f"a{index}" for index in range(2 * PARTS))]
    rows = 2 * PARTS + 1
    return {
        ("one model (transformers)", 1, None): one_model(model.module, prompt),
        ("one row of this forward", 1, None): looked_up(row, prompt),
        (f"{rows} separate models", rows, None): lambda: [step() for step in separate],
        ("peft's mixed batch", rows, None): one_model(peft, prompt, rows=rows, names=names),
        ("SubMix, look-up", rows, None): looked_up(halves.streams(), prompt),
        ("SubMix, in all", rows, 2.2): answered(halves, MechanismName.SUBMIX, folder / "a.db", prompt),
        ("SubMix-F, look-up", PARTS + 1, None): looked_up(single.streams(), prompt),
        ("SubMix-F, in all", PARTS + 1, 1.5): answered(single, MechanismName.SUBMIX_F, folder / "b.db", prompt),
        (f"SubMix, top {top} of {depth}, look-up", rows, None): looked_up(top_halves.streams(), prompt),
        (f"SubMix-F, top {top} of {depth}, look-up", PARTS + 1, None): looked_up(top_single.streams(), prompt),
        (f"SubMix-F, top {top} of {depth}, in all", PARTS + 1, 1.2): answered(
            top_single, MechanismName.SUBMIX_F, folder / "c.db", prompt
        ),
        (f"SubMix-F, {MANY} parts of rank 1 in one layer, look-up", MANY + 1, None): looked_up(
            many.streams(), prompt
        ),
        (f"SubMix-F, {MANY} parts of rank 1 in one layer, in all", MANY + 1, None): answered(
            many, MechanismName.SUBMIX_F, folder / "d.db", prompt
        ),
    }


def run(source: Path, *, rounds: int) -> list[Result]:
    """Measure every contender in turns."""
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        steps = contenders(source, Path(name))
        seconds: dict[tuple[str, int, float | None], list[tuple[float, float]]] = {key: [] for key in steps}
        for _ in range(rounds):
            for key, step in steps.items():
                seconds[key].append(timed(step))
    one = next(iter(seconds.values()))
    return [
        Result(
            contender,
            rows,
            _both(lambda clock, times=times: 1e3 * statistics.median(each[clock] for each in times)),
            _both(
                lambda clock, times=times: statistics.median(
                    own[clock] / other[clock] for own, other in zip(times, one, strict=True)
                )
            ),
            limit,
        )
        for (contender, rows, limit), times in seconds.items()
    ]


def timed(step: Step) -> tuple[float, float]:
    """Median seconds of a step, of the processor and of the clock on the wall."""
    times = []
    for _ in range(STEPS):
        processor, wall = time.process_time(), time.perf_counter()
        step()
        times.append((time.process_time() - processor, time.perf_counter() - wall))
    return _both(lambda clock: statistics.median(each[clock] for each in times))


def _both(of: Callable[[int], float]) -> tuple[float, float]:
    return of(0), of(1)


def default_model() -> Path:
    """stories15m where the shared data is, else the embedded model."""
    shared = Path(os.environ.get("RETICENT_SHARED", ROOT.parent / "shared")) / "models" / "stories15m"
    return shared if shared.is_dir() else Path(embedded_model_path())


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--model", type=Path, default=default_model())
    asked = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    table = Table(title=f"{asked.model.name}, k = {PARTS}, one thread, medians of {asked.rounds} rounds")
    columns = ("contender", "rows", "ms a token", "of one model's", "limit", "wall ms", "of one model's, wall")
    for column in columns:
        table.add_column(column, justify="left" if column == "contender" else "right")
    keep_freed_memory()
    results = run(asked.model, rounds=asked.rounds)
    passed = [each.contender for each in results if each.limit is not None and each.ratio[0] > each.limit]
    for result in results:
        limit = "–" if result.limit is None else f"{result.limit:g}"
        (spent, wall), (ratio, wall_ratio) = result.milliseconds, result.ratio
        cells = (f"{spent:.1f}", f"{ratio:.2f} ×", limit, f"{wall:.1f}", f"{wall_ratio:.2f} ×")
        table.add_row(result.contender, str(result.rows), *cells)
    console = Console(width=110)
    console.print(table)
    if passed:
        console.print(f"above the limit: {'; '.join(passed)}")
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
