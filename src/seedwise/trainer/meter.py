"""What a step took of the machine beside time: memory and energy of this process's device."""

from __future__ import annotations

import importlib.util
import resource
import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from seedwise.trainer.records import Value

NO_GPU = "the device is a CPU, whose energy is not read"


class Meter:
    """Peak memory and energy, read between steps.

    device: ``cuda``, or anything else for a CPU.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._gpu, self._why = _counter() if device == "cuda" else (None, NO_GPU)
        self._before: float | None = None

    def begin(self) -> None:
        """Note where the counter of energy stands."""
        self._before = self._joules()

    def read(self) -> dict[str, Value]:
        """``peak_memory_bytes``: most that was allocated on the GPU so far, on a CPU the process's largest resident
        size; ``energy_joules``: of the whole GPU since ``begin``, null with the reason where it cannot be read."""
        after = self._joules()
        used = None if after is None or self._before is None else after - self._before
        return {
            "peak_memory_bytes": (float(self._peak()), None),
            "energy_joules": (used, None if used is not None else self._why),
        }

    def _peak(self) -> int:
        if self.device == "cuda":
            return torch.cuda.max_memory_allocated()
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest if sys.platform == "darwin" else largest * 1024  # kB on Linux, bytes on macOS

    def _joules(self) -> float | None:
        return None if self._gpu is None else self._gpu() / 1000


def _counter() -> tuple[Any, str | None]:
    """A function that gives the present GPU's energy since the driver was loaded, mJ; None and why there is none."""
    if importlib.util.find_spec("pynvml") is None:
        return None, "pynvml (package nvidia-ml-py) is not installed"
    import pynvml

    try:
        pynvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except pynvml.NVMLError as error:
        return None, f"NVML does not tell this GPU's energy: {error}"
    return lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), None
