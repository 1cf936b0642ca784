"""Which device a model computes on, and in which precision.

"auto" takes CUDA, else Apple's MPS, else the CPU. Half-precision weights are computed in float32 on a CPU, which
has no fast half arithmetic and whose half log-softmax would be too coarse; on an accelerator they stay as stored.
"""

from typing import Final

import torch

from reticent.core.errors import ModelError

DTYPES: Final[dict[str, torch.dtype]] = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_HALF = (torch.float16, torch.bfloat16)


def choose_device(wish: str = "auto") -> torch.device:
    """The device named by `wish`, checked to be there; "auto" is the fastest one that is."""
    if wish == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(wish)
    except RuntimeError:
        raise ModelError("unknown device", found=repr(wish), expected="auto, cpu, cuda, cuda:N or mps") from None
    here = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not here.get(device.type, False):
        raise ModelError(
            f"the device '{wish}' is not available here", hint="use 'auto' to take the best one there is"
        )
    return device


def seed_torch(seed: int) -> None:
    """`torch.manual_seed` without its price where nothing but the CPU is there.

    It also notes the whole stack for every kind of processor that might come to be used, which takes longer than a
    step of a small model.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def choose_dtype(wish: str, stored: torch.dtype, device: torch.device) -> torch.dtype:
    """The precision to compute in, from what is wished ("auto" or a name) and how the weights are stored."""
    if wish == "auto":
        return torch.float32 if device.type == "cpu" and stored in _HALF else stored
    if wish not in DTYPES:
        raise ModelError("unknown precision", found=repr(wish), expected="auto, " + ", ".join(DTYPES))
    if device.type == "mps" and wish == "float64":
        raise ModelError("the device 'mps' has no float64", hint="use dtype 'float32', or device 'cpu'")
    return DTYPES[wish]
