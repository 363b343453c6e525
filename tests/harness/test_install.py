"""Installing harnesses with the real npm and pip, from packages on this disk: whole or not there at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agents.harness.drivers import DRIVERS, HARNESSES
from agents.harness.install import InstallError, Recipe, find, install, place_of
from tests.support.waiting import wait_for

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
REPO = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A tarball of a small package for npm, which says how often it was installed."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps({"name": "tiny", "version": "1.2.3", "bin": {"tiny": "tiny.sh"}}))
    (folder / "tiny.sh").write_text("#!/bin/sh\necho tiny\n")
    subprocess.run(["npm", "pack", "--silent"], cwd=folder, check=True, capture_output=True)
    return folder / "tiny-1.2.3.tgz"


def recipe(package: Path, **changes: object) -> Recipe:
    values = {"harness": "tiny", "version": "1.2.3", "client": "npm", "packages": {"tiny": f"file:{package}"}}
    return Recipe(**({**values, "program": "node_modules/.bin/tiny"} | changes))


@needs_npm
def test_a_harness_is_installed_once_with_its_checksum(package: Path, tmp_path: Path) -> None:
    wanted = recipe(package)
    assert find(wanted, tmp_path) is None
    made = install(wanted, tmp_path)
    assert (made.place / made.program).read_text().endswith("echo tiny\n")
    assert made.integrity["tiny@1.2.3"].startswith("sha512-")
    assert made.record() == {"name": "tiny", "version": "1.2.3", "integrity": dict(made.integrity)}
    written = (made.place / "gyre-installed.json").stat().st_mtime_ns
    assert install(wanted, tmp_path) == made == find(wanted, tmp_path)
    assert (made.place / "gyre-installed.json").stat().st_mtime_ns == written
    assert sorted(p.name for p in made.place.parent.iterdir()) == [wanted.key, f"{wanted.key}.lock"]


@needs_npm
def test_another_checksum_is_thrown_away(package: Path, tmp_path: Path) -> None:
    wanted = recipe(package, integrity={"tiny@1.2.3": "sha512-other"})
    with pytest.raises(InstallError, match="not sha512-other"):
        install(wanted, tmp_path)
    assert find(wanted, tmp_path) is None
    assert not list(place_of(wanted, tmp_path).parent.glob("*.part"))


@needs_npm
def test_a_missing_program_is_an_error(package: Path, tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"has no node_modules/.bin/other"):
        install(recipe(package, program="node_modules/.bin/other"), tmp_path)


@needs_npm
def test_what_npm_says_is_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"(?s)npm could not install tiny 1.2.3 .*ENOENT"):
        install(recipe(tmp_path / "nowhere.tgz"), tmp_path)


def test_without_npm_the_error_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallError, match="apt-get install -y nodejs npm"):
        install(recipe(tmp_path / "x.tgz"), tmp_path)


@needs_npm
def test_two_installers_at_once_make_one_installation(package: Path, tmp_path: Path) -> None:
    wanted, made = recipe(package), []
    threads = [threading.Thread(target=lambda: made.append(install(wanted, tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3
    assert made[0] == made[1] == made[2]


@needs_npm
def test_an_installer_that_is_killed_leaves_nothing_that_counts_and_the_next_goes_on(
    package: Path, tmp_path: Path
) -> None:
    wanted = recipe(package)
    code = (
        "import sys; from pathlib import Path; from agents.harness.install import Recipe, install\n"
        f"install(Recipe('tiny', '1.2.3', 'npm', {{'tiny': 'file:{package}'}}, 'node_modules/.bin/tiny'), "
        f"Path({str(tmp_path)!r}))"
    )
    part = place_of(wanted, tmp_path).with_name(f"{wanted.key}.part")
    process = subprocess.Popen([sys.executable, "-c", code], cwd=REPO, start_new_session=True)
    wait_for(part.exists, "the installation has begun")
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    if find(wanted, tmp_path) is None:
        assert part.exists()
    assert (install(wanted, tmp_path).place / "node_modules" / "tiny" / "tiny.sh").is_file()
    assert not part.exists()


def test_pip_installs_beside_the_environment(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "tiny_harness").mkdir(parents=True)
    (source / "tiny_harness" / "__init__.py").write_text("SAID = 'tiny'\n")
    (source / "pyproject.toml").write_text(
        '[project]\nname = "tiny-harness"\nversion = "1.2.3"\n'
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    )
    wheels = tmp_path / "wheels"
    build = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet", "-w", str(wheels)]
    subprocess.run([*build, str(source)], check=True, capture_output=True)
    os.environ["PIP_NO_INDEX"], os.environ["PIP_FIND_LINKS"] = "1", str(wheels)
    try:
        made = install(
            Recipe("tiny", "1.2.3", "pip", {"tiny-harness": "1.2.3"}, "packages/tiny_harness/__init__.py"), tmp_path
        )
    finally:
        del os.environ["PIP_NO_INDEX"], os.environ["PIP_FIND_LINKS"]
    assert made.integrity["tiny-harness@1.2.3"].startswith("sha256:")


@pytest.mark.parametrize("name", HARNESSES)
def test_every_harness_names_an_exact_version_with_checksums(name: str) -> None:
    driver = DRIVERS[name]
    wanted = driver.recipe(driver.version)
    if wanted is not None:
        assert all(version[0].isdigit() for version in wanted.packages.values())
        assert any(key.endswith((driver.version, f"{driver.version}-linux-x64")) for key in wanted.integrity)
