"""What a harness needs to be installed, and what is known of it afterwards."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

#: What an exact version looks like. No range, tag, path or address: those would not be pinned.
VERSION_PATTERN = r"^([0-9][0-9A-Za-z.+-]*)?$"
#: This machine's processor, as npm's packages name it.
NPM_CPU = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class InstallError(RuntimeError):
    """A harness could not be installed; the message says what to do."""


@dataclass(frozen=True)
class Recipe:
    """`packages` maps each package to its exact version; what they depend on, the client finds.

    `program`: path below the installation that must be there afterwards. `integrity` maps package@version to the
    checksum that it must have (npm: sha512 in its own notation); those of other packages are recorded only.
    """

    harness: str
    version: str
    client: Literal["npm", "pip"]
    packages: Mapping[str, str]
    program: str
    size_mb: int = 0
    integrity: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the installation; each set of packages has its own."""
        listed = "\n".join(f"{name}@{version}" for name, version in sorted(self.packages.items()))
        return f"{self.harness}-{self.version}-{hashlib.sha256(listed.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Installed:
    """An installation that is complete. `integrity` maps package@version to the checksum that its client checked."""

    harness: str
    version: str
    place: Path
    program: str
    integrity: Mapping[str, str]

    def record(self) -> dict[str, object]:
        """What is kept with an execution."""
        return {"name": self.harness, "version": self.version, "integrity": dict(self.integrity)}
