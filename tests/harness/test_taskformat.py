"""Parsing Harbor tasks: legacy forms, unknown keys, and refusals with file, line and reason (docs/tasks.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.harness.taskformat import BadTask, load_task
from agents.harness.taskformat.config import Artifact, Network, TaskConfig
from agents.harness.taskformat.directory import digest, strip_canary, uploads
from agents.harness.taskformat.dockerfile import Copy, read_dockerfile
from agents.harness.taskformat.local import plan
from agents.harness.taskformat.parse import parse_config
from tests.harness.rows import write_task


def parsed(text: str) -> TaskConfig:
    return parse_config(text)[0]


def refusal(text: str) -> str:
    with pytest.raises(BadTask) as caught:
        parse_config(text)
    return str(caught.value)


def planned(folder: Path, settings: str = "", dockerfile: str = "FROM debian\nWORKDIR /app\n") -> str:
    """What the local backend says to a task with these settings."""
    task = write_task(folder) / "one"
    (task / "task.toml").write_text(settings)
    (task / "environment" / "Dockerfile").write_text(dockerfile)
    with pytest.raises(BadTask) as caught:
        plan(load_task(task))
    return str(caught.value)


def test_an_empty_file_has_the_formats_defaults() -> None:
    config = parsed("")
    assert config == TaskConfig()
    assert (config.schema_version, config.verifier.timeout_s, config.agent.timeout_s) == ("1.4", 600.0, None)
    assert config.environment.network == Network("public")


def test_every_known_key_is_read_without_a_warning() -> None:
    config, warnings = parse_config(
        """
        schema_version = "1.3"
        source = "here"
        artifacts = ["/app/out", {source = "/app/in", destination = "x", exclude = ["*.pyc"], service = "main"}]
        multi_step_reward_strategy = "final"
        [metadata]
        anything = {goes = 1}
        [task]
        name = "lab/one"
        version = "1"
        description = "d"
        authors = [{name = "a", email = "e"}]
        keywords = ["k"]
        [agent]
        timeout_sec = 5
        user = "alice"
        network_mode = "no-network"
        [verifier]
        timeout_sec = 7.5
        env = {A = "b"}
        user = 1001
        environment_mode = "separate"
        [verifier.environment]
        cpus = 1
        [[verifier.collect]]
        command = "true"
        service = "main"
        timeout_sec = 3
        user = "root"
        [environment]
        build_timeout_sec = 1
        os = "linux"
        cpus = 2
        memory_mb = 100
        storage_mb = 200
        gpus = 0
        gpu_types = ["H100"]
        network_mode = "allowlist"
        allowed_hosts = ["example.org"]
        env = {B = "c"}
        workdir = "/work"
        skills_dir = "s"
        mcp_servers = [{name = "m"}]
        [environment.healthcheck]
        command = "true"
        interval_sec = 1
        timeout_sec = 2
        start_period_sec = 3
        start_interval_sec = 4
        retries = 5
        [solution]
        env = {C = "d"}
        [[steps]]
        name = "first"
        min_reward = 0.5
        artifacts = ["/a"]
        [steps.agent]
        timeout_sec = 1
        [steps.verifier]
        timeout_sec = 2
        """
    )
    assert warnings == []
    assert config.artifacts == (Artifact("/app/out"), Artifact("/app/in", "x", ("*.pyc",)))
    assert config.environment.healthcheck is not None
    assert config.environment.healthcheck.retries == 5
    assert (config.verifier.user, config.verifier.environment_mode) == ("1001", "separate")
    assert config.steps[0].min_reward == {"reward": 0.5}
    assert config.as_json()["environment"]["memory_mb"] == 100


def test_legacy_forms_are_still_read() -> None:
    config, warnings = parse_config(
        'version = "1.0"\n[environment]\nmemory = "4G"\nstorage = "512M"\nallow_internet = false\n'
    )
    assert (config.schema_version, warnings) == ("1.0", [])
    assert (config.environment.memory_mb, config.environment.storage_mb) == (4096, 512)
    assert config.environment.network == Network("no-network")
    both = parsed('[environment]\nmemory = "2048K"\nallow_internet = true\nnetwork_mode = "no-network"\n')
    assert (both.environment.memory_mb, both.environment.network.mode) == (2, "no-network")


def test_unknown_keys_are_kept_and_named_by_line() -> None:
    config, warnings = parse_config("[environment]\nfoo = 1\n[bar]\nx = 2\n")
    assert (config.environment.extra, config.extra) == ({"foo": 1}, {"bar": {"x": 2}})
    assert warnings == [
        "task.toml:2: environment.foo: unknown key, kept and not used",
        "task.toml:3: bar: unknown key, kept and not used",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = \n", "task.toml:1: not TOML"),
        ("\n[agent]\ntimeout_sec = 'soon'\n", "task.toml:3: agent.timeout_sec: must be a number above 0, not 'soon'"),
        ("[agent]\ntimeout_sec = nan\n", "task.toml:2: agent.timeout_sec: must be a number above 0, not nan"),
        ("[environment]\nnetwork_mode = 'some'\n", "one of public, no-network, allowlist"),
        ("[environment]\nallowed_hosts = ['a']\n", "task.toml:2: environment.allowed_hosts: only goes with"),
        ("[environment]\nmemory = 'lots'\n", "task.toml:2: environment.memory: must be a size"),
        ("[environment]\nworkdir = 'app'\n", "task.toml:2: environment.workdir: must be an absolute path"),
        ("[environment.healthcheck]\nretries = 1\n", "task.toml:1: environment.healthcheck.command: is required"),
        ("[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]\n", "task.toml:2: verifier.environment_mode"),
        ("artifacts = ['../x']\n", "task.toml:1: artifacts.0.source: must not contain '..'"),
        ("[task]\nname = 'one'\n", "task.toml:2: task.name: must be org/name"),
        ("[task]\n", "task.toml:1: task.name: is required"),
        ("[[steps]]\nname='a'\n[[steps]]\nname='A'\n", "task.toml:4: steps.1.name: 'A' is used twice"),
        ("[[steps]]\nname='a/b'\n", "task.toml:2: steps.0.name: must be a portable file name"),
        ("environment = 1\n", "task.toml:1: environment: must be a table"),
    ],
)
def test_a_malformed_setting_is_refused_with_file_line_and_reason(text: str, message: str) -> None:
    assert message in refusal(text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            "[environment]\ndocker_image = 'x'\n",
            "one/task.toml:2: environment.docker_image: an image needs a container",
        ),
        ("[environment]\nos = 'windows'\n", "one/task.toml:2: environment.os: 'windows' is not supported"),
        ("[environment]\ngpus = 1\n", "one/task.toml:2: environment.gpus"),
        ("[environment]\ntpu = {type = 'v5'}\n", "one/task.toml:2: environment.tpu"),
        ("[environment]\nskills_dir = 's'\n", "one/task.toml:2: environment.skills_dir"),
        ("[[environment.mcp_servers]]\nname = 'm'\n", "environment.mcp_servers"),
        (
            "[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['a']\n",
            "one/task.toml:2: environment.network_mode",
        ),
        (
            "[agent]\nnetwork_mode = 'allowlist'\n",
            "one/task.toml:2: agent.network_mode: an allowlist needs a container",
        ),
        ("[environment]\nworkdir = '/usr/x'\n", "one/task.toml:2: environment.workdir: /usr/x cannot be"),
        ("[environment]\nenv = {A = '${HOME}'}\n", "one/task.toml:2: environment.env.A: ${HOME} is not set"),
        ("[verifier.env]\nKEY = '${API_KEY}'\n", "one/task.toml:2: verifier.env.KEY"),
        ("[[verifier.collect]]\ncommand = 'x'\nservice = 'db'\n", "verifier.collect.0: service 'db' needs a container"),
        ("[[artifacts]]\nsource = '/a'\nservice = 'db'\n", "artifacts.0: service 'db' needs a container"),
        ("[agent]\nuser = 'a b'\n", "one/task.toml:2: agent.user: 'a b' is no user name"),
        ("[verifier.environment]\ndocker_image = 'x'\n", "one/task.toml:2: verifier.environment.docker_image"),
    ],
)
def test_what_the_local_sandbox_cannot_honour_is_refused_by_name(tmp_path: Path, settings: str, message: str) -> None:
    assert message in planned(tmp_path, settings)


@pytest.mark.parametrize(
    ("dockerfile", "message"),
    [
        ("FROM debian\n\nRUN apt-get update\n", "one/environment/Dockerfile:3: RUN needs a container backend"),
        ("FROM debian\nADD https://x/y /y\n", "one/environment/Dockerfile:2: ADD needs a container backend"),
        ("FROM a AS b\n", "one/environment/Dockerfile:1: a build of several stages"),
        ("FROM a\nCOPY --from=b /x /y\n", "one/environment/Dockerfile:2: COPY --from needs a container backend"),
        ("FROM a\nCOPY nothing /app/\n", "one/environment/Dockerfile:2: COPY nothing: no such file"),
        ("FROM a\nCOPY ../x /app/\n", "one/environment/Dockerfile:2: COPY must stay inside the task"),
        ("FROM a\nCOPY Dockerfile /usr/x\n", "one/environment/Dockerfile:2: COPY to /usr/x: read-only here"),
        ("FROM a\nARG X\n", "one/environment/Dockerfile:2: ARG X has no default"),
        ("FROM a\nRUN a \\\n  b\n", "one/environment/Dockerfile:2: RUN"),
    ],
)
def test_a_dockerfile_that_builds_is_refused_by_line(tmp_path: Path, dockerfile: str, message: str) -> None:
    assert message in planned(tmp_path, dockerfile=dockerfile)


def test_the_honoured_part_of_a_dockerfile() -> None:
    image = read_dockerfile(
        "# a comment\nFROM debian\nARG base=/srv\nENV A=1 B=\"two words\"\nENV C three $A\nWORKDIR $base\nWORKDIR sub\n"
        "COPY --chmod=755 a b \\\n   bin/\nCOPY c /c\nUSER alice:staff\nCMD [\"x\"]\n",
        "Dockerfile",
    )  # fmt: skip
    assert (image.workdir, image.user) == ("/srv/sub", "alice")
    assert image.env == {"A": "1", "B": "two words", "C": "three 1"}
    assert image.copies == [
        Copy(("a", "b"), "/srv/sub/bin/", True, 0o755, 8),
        Copy(("c",), "/c", False, None, 10),
    ]
    assert image.warnings == [
        "Dockerfile:2: FROM debian: the host system stands in for the image",
        "Dockerfile:12: CMD has no effect in the local sandbox",
    ]


def test_a_public_network_is_warned_about(tmp_path: Path) -> None:
    task = write_task(tmp_path) / "one"
    (task / "task.toml").write_text("")
    assert "one/task.toml: network_mode public: runs without a network here" in plan(load_task(task)).warnings


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<!-- canary GUID 1 -->\n# harbor-canary x\n\n\nDo it.\n", "Do it.\n"),
        ("# Title\nDo it.", "# Title\nDo it."),
        ("\nDo it. canary\n", "\nDo it. canary\n"),
    ],
)
def test_leading_canary_comments_are_dropped(text: str, left: str) -> None:
    assert strip_canary(text) == left


def test_directories_that_are_no_tasks_are_refused(tmp_path: Path) -> None:
    def missing(what: str) -> str:
        task = write_task(tmp_path / what.replace("/", "-")) / "one"
        (task / what).unlink()
        with pytest.raises(BadTask) as caught:
            load_task(task)
        return str(caught.value)

    for what in ("task.toml", "instruction.md", "tests/test.sh"):
        assert f"one/{what}: is missing" in missing(what)
    assert "one/environment: needs a Dockerfile" in missing("environment/Dockerfile")


def test_a_verifier_script_needs_a_shebang(tmp_path: Path) -> None:
    with pytest.raises(BadTask, match=r"one/tests/test.sh:1: needs a shebang"):
        load_task(write_task(tmp_path, test="echo 1") / "one")


def test_links_must_stay_inside_the_task(tmp_path: Path) -> None:
    task = write_task(tmp_path) / "one"
    (task / "tests" / "inside").symlink_to("test.sh")
    load_task(task)
    (task / "tests" / "outside").symlink_to("/etc/passwd")
    with pytest.raises(BadTask, match="one/tests/outside: is a link that leaves the task"):
        load_task(task)


def test_harborignore_filters_uploads(tmp_path: Path) -> None:
    tests = write_task(tmp_path) / "one" / "tests"
    (tests / "notes.md").write_text("x")
    (tests / "keep.md").write_text("x")
    (tests / ".harborignore").write_text("*.md\n!keep.md\n")
    assert [path.name for path in uploads(tests)] == ["keep.md", "test.sh"]


def test_the_digest_depends_on_names_contents_and_executable_bits_alone(tmp_path: Path) -> None:
    first, second = write_task(tmp_path / "a") / "one", write_task(tmp_path / "b") / "one"
    assert digest(first) == digest(second)
    (second / "tests" / "test.sh").chmod(0o755)
    changed = digest(second)
    assert changed != digest(first)
    (second / "tests" / "test.sh").rename(second / "tests" / "test2.sh")
    assert digest(second) != changed
