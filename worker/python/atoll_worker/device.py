"""Where a worker with PyTorch trains: what [worker] device means here.

"mps" is Apple's GPU through Metal. PyTorch for macOS alone has it. It is one device: it knows no
fp64, and exchanges nothing with other processes. A worker keeps fp64 on the CPU, where it sums.

Each function is given the module `torch`, so that a script decides when it is imported.
"""

import warnings
from typing import Any, Sequence

from atoll_worker.failure import WorkerFailure

MPS = "mps"
# Read by PyTorch when it is imported: what Metal has no kernel for is computed on the CPU.
FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"


def device_of(torch: Any, named: str) -> str:
    """The device's name in PyTorch, for model.to(). "auto": the first GPU, else Apple's, else the
    CPU. WorkerFailure: this machine or this PyTorch does not have the device."""
    if named == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "cpu" if _without_mps(torch) else MPS
    if named.startswith("cuda") and not torch.cuda.is_available():
        raise WorkerFailure(f"[worker] device '{named}': this PyTorch ({torch.__version__}) sees "
                            "no GPU")
    if named == MPS and _without_mps(torch):
        raise WorkerFailure(f"[worker] device '{MPS}': this PyTorch ({torch.__version__}) "
                            f"{_without_mps(torch)}; 'auto' and 'cpu' train without")
    return named


def _without_mps(torch: Any) -> str:
    """Why it has no such device; "": it has one."""
    backend = getattr(torch.backends, MPS, None)  # since PyTorch 1.12
    if backend is None or not backend.is_built():
        return "is built without Metal, which only PyTorch for macOS has"
    return "" if backend.is_available() else "finds no GPU of Apple's that its Metal can use"


def check_devices(named: str, devices: Sequence[str], count: int) -> None:
    """WorkerFailure: `count` processes are to train on these devices, and cannot."""
    if MPS in devices and count > 1:
        raise WorkerFailure(f"[worker] device '{named}' is '{MPS}' here, and {count} processes are "
                            "to train together: PyTorch's exchanges know no tensors of Metal's. "
                            f"One process trains on '{MPS}'; several take 'cpu'")


def check_precision(torch: Any, device: str, precision: str) -> None:
    """WorkerFailure: autocast would leave the products in fp32 without another word."""
    if device != MPS or precision != "bf16":
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch 2.5, and newer ones before macOS 14, warn
            with torch.autocast(MPS, torch.bfloat16):
                able = torch.is_autocast_enabled(MPS)
    except (RuntimeError, TypeError):  # PyTorch before 2.5 knows no autocast there
        able = False
    if not able:
        raise WorkerFailure(f"[inner] precision is bf16, and PyTorch {torch.__version__} has no "
                            f"bf16 on '{MPS}' here: it takes PyTorch 2.6 and macOS 14 or newer; "
                            "[worker] device = \"cpu\" has bf16 anywhere")


def memory_note(torch: Any, device: str) -> str:
    """What the log says of the device's memory; "": nothing is known."""
    if device != MPS or not hasattr(torch.mps, "recommended_max_memory"):  # since PyTorch 2.5
        return ""
    torch.mps.synchronize()  # kernels that still run hold memory that is free afterwards
    used, most = torch.mps.current_allocated_memory(), torch.mps.recommended_max_memory()
    return (f"{MPS}: tensors take {used / 1e9:.2f} GB before the first step, and Metal recommends "
            f"{most / 1e9:.2f} GB at most, of the memory that the whole machine shares")
