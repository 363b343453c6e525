"""The container files are linted and parsed, and run the same processes as the supervisor. No image is built here."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gyreweb.env import REPO_ROOT
from gyreweb.supervisor.services import Ports, all_services

DOCKER = REPO_ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("*.Dockerfile"))


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_a_dockerfile_passes_the_linter(dockerfile: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, "--no-color", "--config", DOCKER / "hadolint.yaml", dockerfile],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_a_dockerfile_copies_only_what_exists_and_drops_root(dockerfile: Path) -> None:
    lines = dockerfile.read_text().splitlines()
    for line in lines:
        if line.startswith("COPY") and not line.endswith(". ."):
            assert (REPO_ROOT / line.split()[1]).exists()
    assert "USER 10001:10001" in lines


def test_compose_runs_the_processes_of_the_supervisor(services: dict[str, dict[str, Any]]) -> None:
    supervised = {service.name: service for service in all_services(Path("/gyre"), "127.0.0.1", Ports(8700, (8701,)))}
    assert set(services) == set(supervised) | {"postgres", "valkey", "migrate"}
    for name, service in supervised.items():
        if name != "web":  # its command is the image's own
            assert [word for word in services[name]["command"] if word in ("agents.proxy", "trainers.launch.host")] == [
                word for word in service.command if word in ("agents.proxy", "trainers.launch.host")
            ]
            queues = [word for word in services[name]["command"] if "," in word or word == "executions"]
            assert set(queues) <= set(service.command)


def test_compose_builds_from_files_that_exist_and_takes_secrets_from_outside(
    services: dict[str, dict[str, Any]],
) -> None:
    built = {service["build"]["dockerfile"] for service in services.values() if "build" in service}
    assert built == {f"docker/{path.name}" for path in DOCKERFILES}
    text = (DOCKER / "compose.yaml").read_text()
    for secret in ("POSTGRES_PASSWORD", "VALKEY_PASSWORD", "GYRE_SECRET_KEY"):
        assert f"${{{secret}:?" in text
        assert f"{secret}=\n" in (DOCKER / "example.env").read_text()
