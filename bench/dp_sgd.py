"""What privacy costs per training step: plain training, reticent and its rivals, interleaved in one run.

    python -m bench.dp_sgd [--repeats N] [--settings gpt2 llama-lora ...] [--rivals none] [--threads N]
                           [--no-memory]

Time: every round runs one step of every way, one after another, so that a slow moment hits all alike; printed is
the median over rounds of a way's time divided by the plain step's of the same round. With one thread, as by
default, it is processor time, which other programs disturb least; else wall time. Memory: each way runs three steps
in a process of its own; printed is the growth of its peak resident set since before the model was made, divided by
the plain one's. Noise is drawn once a step however many micro-batches it has, so it is timed by itself, beside
torch.randn, and then added for a step of one micro-batch and for one of 256 records. Limits, noise included: 1.15 ×
in time for a step of one micro-batch and 1.10 × for one of 256 records; LoRA 1.03 × for both; memory 1.10 ×; noise
1.5 × torch.randn and its sum. Exit code 1 where reticent passes one. While reticent's engine is attached,
freed memory stays with the process; all ways run in one process, so the plain step gains by it as well.

Rivals are Opacus (per-sample gradients by hooks, and ghost clipping), Opake and fastDP, as far as they can be
imported. A rival is left out, with the reason, where it refuses the model, and where the clipped gradients of its
first step are not ours to a thousandth: the time of a wrong gradient is not worth printing.
"""

import argparse
import copy
import gc
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from bench.dp_sgd_steps import CLIP_NORM, STEPS, Step  # noqa: E402
from reticent.core.randomness import Randomness  # noqa: E402
from reticent.training.gradients.clipping import add_noise  # noqa: E402
from reticent.training.gradients.record_loss import TokenBatch  # noqa: E402

MEMORY_LIMIT = 1.10
NOISE_ROUNDS = 101  # an adapter's noise takes a tenth of a millisecond, and its first rounds several times that
NOISE_LIMIT = 1.5  # of torch.randn and its sum
WRONG = 1e-3  # relative distance of a rival's gradient from ours above which it is not timed
LOGICAL_BATCH = 256  # records of a usual private step, made of micro-batches of the size that is timed


@dataclass(frozen=True, slots=True)
class Setting:
    """A model and a batch shape; limits for ours, a micro-batch and 256 records a step."""

    build: Callable[[], nn.Module]
    records: int
    length: int
    time_limits: tuple[float, float] = (1.15, 1.10)


def shared_folder() -> Path:
    """Where the real models are: RETICENT_SHARED, or `shared` beside the checkout."""
    return Path(os.environ.get("RETICENT_SHARED", ROOT.parent / "shared"))


def gpt2(*, tied: bool) -> nn.Module:
    """4 layers of 256, 5,000 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=5000, n_positions=512, n_embd=256, n_layer=4, n_head=4, tie_word_embeddings=tied,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def llama() -> nn.Module:
    """stories15m: 6 layers of 288, 32,000 tokens, tied."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(shared_folder() / "models" / "stories15m", dtype=torch.float32)


def lora(base: nn.Module, targets: list[str]) -> nn.Module:
    """Rank 8 on these maps."""
    from peft import LoraConfig, get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on a head that shares its weights: nothing merges them here
        return get_peft_model(base, LoraConfig(r=8, target_modules=targets, task_type="CAUSAL_LM"))


LORA = (1.03, 1.03)
# What `train --lora-rank` adapts: every linear map, the output layer too.
GPT2_MAPS = ("c_attn", "c_proj", "c_fc")
LLAMA_MAPS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
OURS = ("plain", "reticent")
SETTINGS: dict[str, Setting] = {
    "gpt2": Setting(lambda: gpt2(tied=True), 16, 128),
    "gpt2-untied": Setting(lambda: gpt2(tied=False), 16, 128),
    "gpt2-long": Setting(lambda: gpt2(tied=True), 4, 512),
    "gpt2-lora": Setting(lambda: lora(gpt2(tied=True), ["c_attn"]), 16, 128, LORA),
    "llama": Setting(llama, 16, 128),
    "llama-lora": Setting(lambda: lora(llama(), ["q_proj", "v_proj"]), 16, 128, LORA),
    "gpt2-lora-all": Setting(lambda: lora(gpt2(tied=True), [*GPT2_MAPS, "lm_head"]), 16, 128, LORA),
    "llama-lora-all": Setting(lambda: lora(llama(), [*LLAMA_MAPS, "lm_head"]), 16, 128, LORA),
}


def available(name: str) -> bool:
    """Whether the setting's model is here."""
    return not name.startswith("llama") or (shared_folder() / "models" / "stories15m").is_dir()


def random_batch(setting: Setting, vocabulary: int, seed: int) -> TokenBatch:
    """Full rows: padding would only help."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, vocabulary, (setting.records, setting.length), generator=generator)
    return TokenBatch.of(tokens.tolist(), 1)


def time_setting(
    setting: Setting, ways: Sequence[str], repeats: int
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds of every step of every way, round by round; and why ways were left out."""
    model = setting.build().train()
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    steps, left_out = warmed_up(model, ways, random_batch(setting, vocabulary, 0))
    seconds: dict[str, list[float]] = {way: [] for way in steps}
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for turn in range(1, repeats + 1):
        batch = random_batch(setting, vocabulary, turn)
        for way, step in steps.items():
            start = clock()
            step(batch)
            seconds[way].append(clock() - start)
        gc.collect()
    return seconds, left_out


def warmed_up(model: nn.Module, ways: Sequence[str], batch: TokenBatch) -> tuple[dict[str, Step], dict[str, str]]:
    """Steps after their first one, which all take from the same weights; and why ways were left out."""
    steps: dict[str, Step] = {}
    left_out: dict[str, str] = {}
    ours: Tensor | None = None
    for way in ways:
        module = copy.deepcopy(model)
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        try:
            step = STEPS[way](module)
            step(batch)
        except ImportError:
            left_out[way] = "not installed"
            continue
        except NotImplementedError as refusal:
            left_out[way] = str(refusal)
            continue
        found = torch.cat([_or_zero(parameter).flatten() for parameter in trained])
        if way == "reticent":
            ours = found
        elif way != "plain" and ours is not None:
            off = float((found - ours).norm() / ours.norm())
            if off > WRONG:
                left_out[way] = f"its clipped gradients differ by {off:.1%} from ours"
                continue
        steps[way] = step
    return steps, left_out


def _or_zero(parameter: nn.Parameter) -> Tensor:
    """The gradient; zeros for a weight that got none."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def memory_bytes(field: str) -> int:
    """VmRSS (now) or VmHWM (peak) of this process. `getrusage` would count the peak of the process it came from."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("peak memory is measured on Linux only: use --no-memory")


def peak_growth(name: str, way: str) -> int:
    """Bytes by which three steps raise the peak; run in a process of its own."""
    setting = SETTINGS[name]
    torch.ones(64, 64) @ torch.ones(64, 64)  # libraries load their parts before the base is taken
    before = memory_bytes("VmRSS")
    model = setting.build().train()
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    step = STEPS[way](model)
    for turn in range(3):
        step(random_batch(setting, vocabulary, turn))
    return memory_bytes("VmHWM") - before


def measure_memory(name: str, way: str, threads: int) -> int:
    """`peak_growth` in a fresh process."""
    command = [sys.executable, str(Path(__file__).resolve()), "--memory-of", name, way, "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.strip().splitlines()[-1])


def noise_seconds(model: nn.Module, rounds: int) -> tuple[float, float, float]:
    """Median seconds to add noise to every trainable parameter: ours, by torch.randn, and of randn by itself."""
    zeros = {name: torch.zeros_like(p) for name, p in model.named_parameters() if p.requires_grad}
    Randomness.system().normal(1 << 24)  # after so many the loop is compiled
    ways: tuple[Callable[[], object], ...] = (
        lambda: add_noise(zeros, CLIP_NORM, Randomness.system()),
        lambda: [gradient + torch.randn_like(gradient) for gradient in zeros.values()],
        lambda: [torch.randn_like(gradient) for gradient in zeros.values()],
    )
    seconds: tuple[list[float], ...] = ([], [], [])
    for _ in range(rounds):
        for way, found in zip(ways, seconds, strict=True):
            start = time.process_time()
            way()
            found.append(time.process_time() - start)
    ours, added, drawn = (statistics.median(found) for found in seconds)
    return ours, added, drawn


def report(name: str, ways: Sequence[str], repeats: int, threads: int, *, with_memory: bool) -> bool:
    """Print one setting's table; whether reticent keeps its limits."""
    setting = SETTINGS[name]
    seconds, left_out = time_setting(setting, ways, repeats)
    memory = {way: measure_memory(name, way, threads) for way in seconds} if with_memory else {}
    print(f"\n{name}: {setting.records} records of {setting.length} tokens, {repeats} rounds, {threads} thread(s)")
    print(f"  {'way':<14}{'median s':>10}{'min s':>9}{'× plain':>9}{'peak MB':>9}{'× plain':>9}")
    for way in seconds:
        pairs = zip(seconds[way], seconds["plain"], strict=True)
        ratio = statistics.median(own / plain for own, plain in pairs)
        row = f"  {way:<14}{statistics.median(seconds[way]):>10.3f}{min(seconds[way]):>9.3f}{ratio:>9.2f}"
        row += f"{memory[way] / 1e6:>9.0f}{memory[way] / memory['plain']:>9.2f}" if memory else ""
        print(row, flush=True)
    for way, reason in left_out.items():
        print(f"  {way:<14}left out: {reason}")
    share = memory["reticent"] / memory["plain"] if memory else 0.0
    kept = share <= MEMORY_LIMIT
    if not kept:
        print(f"  memory is over its limit, {MEMORY_LIMIT:.2f} × plain")
    system, added, drawn = noise_seconds(setting.build(), NOISE_ROUNDS)
    print(
        f"  noise, once a step: {system:.4f} s ours, {added:.4f} s torch.randn and sum ({drawn:.4f} s drawn): "
        f"{system / added:.2f} ×{_verdict(system / added, NOISE_LIMIT)}"
    )
    kept &= system / added <= NOISE_LIMIT
    plain, ours = statistics.median(seconds["plain"]), statistics.median(seconds["reticent"])
    for batches, limit in zip((1, LOGICAL_BATCH // setting.records), setting.time_limits, strict=True):
        ratio = (batches * ours + system) / (batches * plain)
        records = batches * setting.records
        print(f"  with noise, {records:>3} records a step: {ratio:.3f} × plain{_verdict(ratio, limit)}", flush=True)
        kept &= ratio <= limit
    return kept


def _verdict(ratio: float, limit: float) -> str:
    return f", {'within' if ratio <= limit else 'over'} the limit of {limit:.2f}"


def main(arguments: Sequence[str] = ()) -> int:
    """Run the chosen settings and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--rivals", choices=["all", "none"], default="all", help="whether to run rivals as well")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--memory-of", nargs=2, metavar=("SETTING", "WAY"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(list(arguments))
    torch.set_num_threads(chosen.threads)
    if chosen.memory_of:
        print(peak_growth(*chosen.memory_of))
        return 0
    kept = True
    for name in chosen.settings:
        if not available(name):
            print(f"\n{name}: skipped, its model is not here")
            continue
        ways = OURS if chosen.rivals == "none" else tuple(STEPS)
        kept &= report(name, ways, chosen.repeats, chosen.threads, with_memory=not chosen.no_memory)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
