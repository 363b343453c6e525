"""Exports through the real web process: streamed while they are made, for machines and for people."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from django.contrib.auth import get_user_model

from agents.actions.api_tokens import create_token
from gyreweb.api.auth import new_secret
from tests.support.processed_run import processed_run


def test_a_machine_downloads_a_table_in_pieces(database_url: str, site: str) -> None:
    made = processed_run()
    secret, digest = new_secret()
    user = get_user_model().objects.get(username="ann")
    made.run.project.members.add(user)
    create_token(
        project=made.run.project, user=user, name="ci", scopes=["read"], digest=digest, prefix=secret[:12],
        expires_at=None,
    )  # fmt: skip
    request = urllib.request.Request(
        f"{site}/api/v1/runs/{made.run.pk}/exports/calls.jsonl", headers={"Authorization": f"Bearer {secret}"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert reply.headers["Transfer-Encoding"] == "chunked"
        rows = [json.loads(line) for line in reply]
    assert len(rows) == 34
    assert all(len(row["output_ids"] or []) in (0, row["output_tokens"]) for row in rows)


def test_a_person_downloads_a_table_and_asks_for_another_verdict(page: Any) -> None:
    from agents.models import Execution, KeptWorkspace, Reassessment

    made = processed_run()
    page.goto(f"/runs/{made.run.pk}/executions/?kind=training")
    page.click("summary:has-text('Export')")
    with page.expect_download() as download:
        page.click(".export a[href*='executions.parquet']")
    assert download.value.suggested_filename == f"run-{made.run.pk}-executions.parquet"
    execution = Execution.objects.get(run=made.run, group__number=0, index=0)
    KeptWorkspace.objects.create(execution=execution, attempt=1, host="h", path="/kept", num_bytes=1)
    page.goto(f"/executions/{execution.pk}/")
    page.click("text=Draw again and compare")
    page.wait_for_selector("text=equal: 2 draws")
    page.click("text=Assess again…")
    page.fill("#reassess [name=reason]", "the verifier was wrong")
    page.click("#reassess button:has-text('Assess again')")
    page.wait_for_selector("text=Assessed again")
    assert Reassessment.objects.get(state="queued").reason == "the verifier was wrong"
