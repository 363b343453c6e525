"""Launching: everything is checked before anything exists."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from agents.actions.launch_run import default_project, launch_run
from agents.config import BadConfig
from agents.models import Run, RunEvent
from agents.proxy.rendering import BUNDLED_POLICY
from agents.proxy.traffic.fitting import fit
from tests.harness.rows import write_task
from tests.proxy import policies

pytestmark = pytest.mark.django_db


def launch(**settings: object) -> Run:
    return launch_run(project=default_project(), user=None, preset="quickstart", settings=settings)


def test_a_launched_run_is_queued_with_its_whole_configuration() -> None:
    run = launch(steps=4)
    assert (run.state, run.config["steps"], run.config["j_max"], run.seed) == ("queued", 4, 5, 1)
    assert list(RunEvent.objects.filter(run=run).values_list("kind", flat=True)) == ["run_created"]


@pytest.mark.parametrize(
    ("settings", "field", "why"),
    [
        ({"steps": 0}, "steps", "greater than or equal to 1"),
        ({"task_set": "nowhere"}, "task_set", "nowhere"),
        ({"eval_tasks": 65}, "eval_tasks", "holds out 64"),
        ({"policy_path": "/nowhere"}, "policy_path", "not a folder"),
    ],
)
def test_a_run_that_cannot_work_is_refused_and_leaves_nothing(settings: dict, field: str, why: str) -> None:
    with pytest.raises(BadConfig) as refused:
        launch(**settings)
    assert why in refused.value.problems[field]
    assert not Run.objects.exists()


def test_a_set_with_fewer_held_out_tasks_than_the_preset_evaluates_is_evaluated_on_those(tmp_path: Path) -> None:
    write_task(tmp_path / "set")
    assert launch(task_set=str(tmp_path / "set")).config["eval_tasks"] == 0
    assert launch().config["eval_tasks"] == 64
    with pytest.raises(BadConfig, match="holds out 0"):
        launch(task_set=str(tmp_path / "set"), eval_tasks=1)


def test_a_policy_folder_must_hold_all_that_is_loaded_from_it(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((Path(BUNDLED_POLICY) / name).read_bytes())
    with pytest.raises(BadConfig, match=r"lacks model\.safetensors"):
        launch(policy_path=str(tmp_path))
    assert launch(policy_path=str(BUNDLED_POLICY)).state == "queued"


def test_a_harness_that_the_policy_cannot_understand_is_refused_with_what_the_template_said(tmp_path: Path) -> None:
    folder = policies.write_unfit(tmp_path)
    with pytest.raises(BadConfig) as refused:
        launch(policy_path=str(folder))
    found = fit("reference", folder)
    assert found is not None
    assert refused.value.problems["harness"] == found.problem != ""
    with pytest.raises(CommandError, match="only three messages fit"):
        call_command("launch", "--set", f"policy_path={folder}")
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("config.json", '{"model_type": "unheard_of"}', "no renderer for model_type 'unheard_of' and no chat template"),
        ("config.json", "[]", "no policy folder"),
        ("config.json", '"\u0000"', "no policy folder"),
        ("chat_template.jinja", "\udcff", "chat_template.jinja cannot be read"),
        ("tokenizer.json", "{", "tokenizer.json cannot be read"),
        ("tokenizer_config.json", "nothing", "tokenizer_config.json cannot be read"),
        ("chat_template.jinja", "{% if %}", "its chat template cannot say one message"),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused_with_what_is_wrong(
    tmp_path: Path, name: str, content: str, why: str
) -> None:
    folder = policies.write_unfit(tmp_path)
    if name == "config.json":
        (folder / "tokenizer_config.json").write_text("{}")
    (folder / name).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(BadConfig) as refused:
        launch(policy_path=str(folder))
    assert why in refused.value.problems["policy_path"]


def test_the_same_idempotency_key_gives_the_same_run() -> None:
    first, second = (
        launch_run(project=default_project(), user=None, preset="quickstart", idempotency_key="k") for _ in range(2)
    )
    assert first.pk == second.pk
    assert Run.objects.count() == 1
