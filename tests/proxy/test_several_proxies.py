"""Several proxies, an owner for each execution, and a proxy that dies in the middle of a stream."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.utils import timezone

from agents.executions import proxies
from agents.models import Execution, ProxyProcess
from gyreweb.supervisor.services import Ports, all_services
from tests.proxy.backstage import Backstage, delta, full_input, sampled
from tests.proxy.processes import ProxyProcess as Process
from tests.proxy.processes import proxy_process
from tests.support.waiting import wait_for

GO = [{"role": "user", "content": "go"}]
LONG = "read the file and write the word"


def _ask(base: str, messages: list[dict] | None = None, **options: Any) -> httpx.Response:
    return httpx.post(
        f"{base}/v1/chat/completions", json={"model": "m", "messages": messages or GO} | options, timeout=60
    )


def _said(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


def _owned(stage: Backstage, run: Any, owner: str) -> tuple[Execution, str]:
    """A running execution of this proxy, and the path of its key."""
    execution, base = stage.execution(run)
    Execution.objects.filter(pk=execution.pk).update(proxy=ProxyProcess.objects.get(name=owner))
    return execution, f"/x/{base.rsplit('/', 1)[1]}"


def _read_and_kill(url: str, body: dict[str, Any], proxy: Process) -> None:
    """Read a stream, whose proxy is killed after the first bytes."""
    with httpx.stream("POST", url, json=body, timeout=60) as response:
        pieces = response.iter_raw()
        next(pieces)
        proxy.kill()
        for _ in pieces:
            pass


def test_an_execution_belongs_to_one_proxy_and_any_other_forwards_its_requests(
    stage: Backstage, tmp_path: Path
) -> None:
    run = stage.run()
    engine = stage.engine(run, "read", "write", "done")
    with (
        proxy_process(stage.database_url, tmp_path, "a") as first,
        proxy_process(stage.database_url, tmp_path, "b") as second,
    ):
        execution, path = _owned(stage, run, "a")
        messages = list(GO)
        for proxy in (first, second, first):
            said = _said(_ask(proxy.url + path, messages))
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "on"}]
        streamed = _ask(second.url + path, messages, stream=True).text
        assert streamed.rstrip().endswith("data: [DONE]")
        assert _ask(second.url + path, [{"role": "user"}]).status_code in (200, 400)
        assert httpx.get(f"{second.url}{path}/v1/models").json()["data"]
        assert (first.health()["sessions"], second.health()["sessions"]) == (1, 0)
        wait_for(lambda: first.health()["proxies"] >= 2, "they know of each other")
    calls = stage.calls(execution)[:4]
    assert [(c.number, c.parent_number, c.false_fork) for c in calls] == [
        (0, None, False), (1, 0, False), (2, 1, False), (3, 2, False),
    ]  # fmt: skip
    assert [full_input(call) for call in calls] == [r["input_ids"] for r in engine.requests[:4]]


def test_kill_9_in_mid_stream_loses_no_acknowledged_call_and_a_retry_becomes_a_sibling(
    stage: Backstage, tmp_path: Path
) -> None:
    run = stage.run()
    engine = stage.engine(run, "read", "write", LONG, LONG, "done")
    with proxy_process(stage.database_url, tmp_path, "a") as first:
        execution, path = _owned(stage, run, "a")
        messages = list(GO)
        for _ in range(2):
            said = _said(_ask(first.url + path, messages))
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "on"}]
        engine.scripted.token_interval_s = 0.2
        body = {"model": "m", "messages": messages, "stream": True}
        with pytest.raises(httpx.TransportError):
            _read_and_kill(f"{first.url}{path}/v1/chat/completions", body, first)
        engine.scripted.token_interval_s = 0.0
        assert len(stage.calls(execution)) == 2
        with proxy_process(stage.database_url, tmp_path, "a", port=int(first.url.rsplit(":", 1)[1])) as again:
            assert again.url == first.url
            assert again.health()["epoch"] == 2
            retried = _ask(again.url + path, messages)
            assert _said(retried) == LONG
            messages += [{"role": "assistant", "content": LONG}, {"role": "user", "content": "on"}]
            assert _said(_ask(again.url + path, messages)) == "done"
    calls = stage.calls(execution)
    assert [(c.number, c.parent_number, c.state) for c in calls] == [
        (0, None, "complete"), (1, 0, "complete"), (2, 1, "complete"), (3, 2, "complete"),
    ]  # fmt: skip
    assert [delta(c).output_ids.tolist() for c in calls] == [sampled(t) for t in ("read", "write", LONG, "done")]
    assert engine.requests[2]["input_ids"] == engine.requests[3]["input_ids"] == full_input(calls[2])
    assert not any(c.false_fork for c in calls)


def test_a_process_whose_name_another_one_has_taken_records_nothing_more(stage: Backstage, tmp_path: Path) -> None:
    run = stage.run()
    stage.engine(run, "done")
    with proxy_process(stage.database_url, tmp_path, "a") as old:
        execution, path = _owned(stage, run, "a")
        assert _ask(old.url + path).status_code == 200
        with proxy_process(stage.database_url, tmp_path, "a") as new:
            assert _ask(old.url + path).status_code in (409, 503)
            wait_for(lambda: old.health()["status"] == "superseded", "the old one knows")
            assert _ask(old.url + path).status_code == 503
            assert _ask(new.url + path).status_code == 200
    assert len(stage.calls(execution)) == 2


def test_an_owner_unheard_of_for_long_is_replaced_by_the_proxy_that_is_asked(stage: Backstage, tmp_path: Path) -> None:
    run = stage.run()
    stage.engine(run, "done")
    with (
        proxy_process(stage.database_url, tmp_path, "a") as dead,
        proxy_process(stage.database_url, tmp_path, "b") as alive,
    ):
        execution, path = _owned(stage, run, "a")
        assert _ask(dead.url + path).status_code == 200
        dead.kill()
        answer = _ask(alive.url + path)
        assert (answer.status_code, 1 <= int(answer.headers["retry-after"]) <= 4) == (503, True)
        ProxyProcess.objects.filter(name="a").update(seen_at=timezone.now() - timedelta(minutes=1))
        assert _ask(alive.url + path).status_code == 200
    execution.refresh_from_db()
    assert execution.proxy.name == "b"
    assert len(stage.calls(execution)) == 2


def test_a_lease_goes_to_the_living_proxy_with_the_fewest_executions(stage: Backstage, tmp_path: Path) -> None:
    run = stage.run()
    with proxy_process(stage.database_url, tmp_path, "a") as first:
        with proxy_process(stage.database_url, tmp_path, "b"):
            for expected in ("a", "b", "a", "b"):
                chosen = proxies.choose()
                assert chosen.name == expected
                execution, _ = stage.execution(run)
                expiry = timezone.now() + timedelta(minutes=1)
                Execution.objects.filter(pk=execution.pk).update(proxy_id=chosen.id, lease_expires_at=expiry)
        assert proxies.choose().name == "a"
        first.kill()
        first.socket.unlink()
        assert proxies.choose().name == "b"


def test_the_supervisor_starts_proxies_with_names_ports_and_sockets_of_their_own(tmp_path: Path) -> None:
    services = [s for s in all_services(tmp_path, "127.0.0.1", Ports(1, (7, 8, 9))) if s.name.startswith("proxy")]
    assert [s.name for s in services] == ["proxy", "proxy-1", "proxy-2"]
    options = [dict(zip(s.command[3::2], s.command[4::2], strict=True)) for s in services]
    assert [t["--name"] for t in options] == ["proxy-0", "proxy-1", "proxy-2"]
    assert [t["--port"] for t in options] == ["7", "8", "9"]
    assert len({t["--socket"] for t in options}) == 3
