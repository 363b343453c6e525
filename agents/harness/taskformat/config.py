"""task.toml with its defaults applied (docs/tasks.md). `extra` keeps the keys that nobody knows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

NetworkMode = Literal["public", "no-network", "allowlist"]
NETWORK_MODES: tuple[NetworkMode, ...] = ("public", "no-network", "allowlist")
DEFAULT_SCHEMA_VERSION = "1.4"
#: Larger ones are not the same number in every reader of JSON.
_LARGEST_WHOLE = 1 << 63


@dataclass(frozen=True)
class Network:
    """Of an environment, or narrowed for the agent's or the verifier's phase (None: as the environment)."""

    mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class AgentConfig:
    timeout_s: float | None = None
    user: str | None = None
    network: Network = Network()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Healthcheck:
    command: str
    interval_s: float = 5.0
    timeout_s: float = 30.0
    start_period_s: float = 0.0
    start_interval_s: float = 5.0
    retries: int = 3


@dataclass(frozen=True)
class EnvironmentConfig:
    build_timeout_s: float = 600.0
    docker_image: str | None = None
    os: str = "linux"
    cpus: int | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    gpu_types: tuple[str, ...] = ()
    tpu: Any = None
    network: Network = Network("public")
    env: dict[str, str] = field(default_factory=dict)
    workdir: str | None = None
    skills_dir: str | None = None
    mcp_servers: tuple[dict[str, Any], ...] = ()
    healthcheck: Healthcheck | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CollectHook:
    command: str
    service: str = "main"
    timeout_s: float = 60.0
    user: str | None = None


@dataclass(frozen=True)
class VerifierConfig:
    timeout_s: float = 600.0
    env: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    network: Network = Network()
    environment_mode: Literal["shared", "separate"] = "shared"
    environment: EnvironmentConfig | None = None
    collect: tuple[CollectHook, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifact:
    source: str
    destination: str | None = None
    exclude: tuple[str, ...] = ()
    service: str = "main"


@dataclass(frozen=True)
class StepConfig:
    name: str
    agent: AgentConfig = AgentConfig()
    verifier: VerifierConfig = VerifierConfig()
    min_reward: dict[str, float] = field(default_factory=dict)
    healthcheck: Healthcheck | None = None
    artifacts: tuple[Artifact, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskInfo:
    name: str
    version: str | None = None
    description: str = ""
    authors: tuple[dict[str, Any], ...] = ()
    keywords: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskConfig:
    schema_version: str = DEFAULT_SCHEMA_VERSION
    source: str | None = None
    task: TaskInfo | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    agent: AgentConfig = AgentConfig()
    verifier: VerifierConfig = VerifierConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    solution_env: dict[str, str] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    multi_step_reward_strategy: Literal["mean", "final"] = "mean"
    steps: tuple[StepConfig, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Of values that JSON has: dates, and numbers that are not finite, become text."""
        return {key: _plain(value) for key, value in asdict(self).items()}


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case float() if not math.isfinite(value):
            return str(value)
        case int() if abs(value) > _LARGEST_WHOLE:
            return str(value)
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)
