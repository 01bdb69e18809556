"""Find and run the program kvreplay."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any


class Error(RuntimeError):
    """kvreplay ended with an error. The text is its message."""


def program() -> str:
    """Return the path of kvreplay: the value of KVREPLAY, the program of a wheel, or one on PATH."""
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    scripts = [Path(sysconfig.get_path("scripts", scheme)) for scheme in schemes]  # pip installs a wheel's program there
    installed = [str(path) for folder in scripts if (path := folder / f"kvreplay{'.exe' if os.name == 'nt' else ''}").is_file()]
    found = os.environ.get("KVREPLAY") or next(iter(installed), None) or shutil.which("kvreplay")
    if not found:
        raise Error("kvreplay is not on PATH: install it, or set KVREPLAY to its path")
    return found


def flags(options: dict[str, Any]) -> list[str]:
    """Return keyword arguments as flags of a command. A list repeats its flag."""
    words: list[str] = []
    for key, value in options.items():
        flag = "--" + key.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            for item in value if isinstance(value, (list, tuple)) else [value]:
                words.append(f"{flag}={item}")
    return words


def run(*arguments: str | os.PathLike[str], fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command. An exit code above 0 is an Error. fails accepts the exit code 1."""
    packages = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]  # policies in Python find this package
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, packages)))
    command = [program(), *(os.fspath(a) for a in arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", env=environment)
    if done.returncode > (1 if fails else 0) or done.returncode < 0:
        raise Error(done.stderr.strip() or f"kvreplay ended with exit code {done.returncode}")
    return done
