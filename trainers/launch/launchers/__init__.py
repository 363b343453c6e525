"""Registry of launcher backends, by the run's setting `launcher`. Imports neither torch nor Django."""

from collections.abc import Callable
from pathlib import Path

from trainers.launch.launchers.base import Launch, Launcher, LauncherError
from trainers.launch.launchers.local import LocalLauncher

LAUNCHERS: dict[str, Callable[[Path], Launcher]] = {"local": LocalLauncher}

__all__ = ["LAUNCHERS", "Launch", "Launcher", "LauncherError", "launcher"]


def launcher(name: str, home: Path) -> Launcher:
    """Raises LauncherError for an unknown name."""
    if name not in LAUNCHERS:
        raise LauncherError(f"launcher {name!r} is unknown; known: {', '.join(sorted(LAUNCHERS))}")
    return LAUNCHERS[name](home)
