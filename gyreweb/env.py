"""Environment variables, read loudly: a value that does not parse stops the process with the variable's name.

What several modules read is read by one function here, which knows its default.
"""

import os
import re
from pathlib import Path

MAX_PORT = 65535
MAX_PROXIES = 64
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
REPO_ROOT = Path(__file__).resolve().parent.parent


class BadEnvironment(SystemExit):
    """An environment variable has a value that Gyre cannot use; the message names it and the allowed form."""


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "") or default


def integer(name: str, default: int, lowest: int | None = None, highest: int | None = None) -> int:
    raw = os.environ.get(name, "")
    if not raw:
        return default
    if not re.fullmatch(r"-?[0-9]{1,18}", raw):
        raise BadEnvironment(f"{name}={raw!r} is not a whole number")
    value = int(raw)
    if (lowest is not None and value < lowest) or (highest is not None and value > highest):
        bounds = f"between {lowest} and {highest}" if highest is not None else f"at least {lowest}"
        raise BadEnvironment(f"{name}={raw} must be {bounds}")
    return value


def port(name: str, default: int) -> int:
    return integer(name, default, lowest=1, highest=MAX_PORT)


def seconds(name: str, default: float) -> float:
    raw = os.environ.get(name, "")
    if not raw:
        return default
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", raw) or not float(raw):
        raise BadEnvironment(f"{name}={raw!r} is not a number of seconds above 0")
    return float(raw)


def log_level() -> str:
    level = text("GYRE_LOG_LEVEL", "INFO").upper()
    if level not in LOG_LEVELS:
        raise BadEnvironment(f"GYRE_LOG_LEVEL={level!r} is not one of {', '.join(LOG_LEVELS)}")
    return level


def flag(name: str, default: bool = False) -> bool:
    raw = os.environ.get(name, "").lower()
    if raw in ("", "0", "false", "no", "off"):
        return default if raw == "" else False
    if raw in ("1", "true", "yes", "on"):
        return True
    raise BadEnvironment(f"{name}={raw!r} is not one of 0, 1, true, false, yes, no, on, off")


def web_port() -> int:
    return port("GYRE_WEB_PORT", 8700)


def proxy_port() -> int:
    """Of the first proxy; further ones have the ports after it."""
    return port("GYRE_PROXY_PORT", 8701)


def num_proxies() -> int:
    return integer("GYRE_PROXIES", 1, lowest=1, highest=MAX_PROXIES)


def db_pool_size() -> int:
    """0: no pool."""
    return integer("GYRE_DB_POOL_SIZE", 0, lowest=0)


def https() -> bool:
    return flag("GYRE_HTTPS", default=True)


def behind_proxy() -> bool:
    return flag("GYRE_BEHIND_PROXY")


def debug() -> bool:
    return flag("GYRE_DEBUG")


def home() -> Path:
    """Directory of everything that a running Gyre writes: `GYRE_HOME`, or `var/` in the repository."""
    raw = os.environ.get("GYRE_HOME", "")
    return Path(raw).expanduser().resolve() if raw else REPO_ROOT / "var"
