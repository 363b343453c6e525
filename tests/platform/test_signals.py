"""Which signals ask Gyre to stop."""

import os
import signal
from pathlib import Path

import pytest

from gyreweb import embedded
from gyreweb.embedded.errors import require_disk
from gyreweb.supervisor.errors import StopRequested
from gyreweb.supervisor.signals import Signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_for_a_stop(number: signal.Signals) -> None:
    def receive() -> None:
        with Signals():
            os.kill(os.getpid(), number)
            signal.pause()

    with pytest.raises(StopRequested, match=number.name):
        receive()


def test_a_hangup_does_nothing_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not signals.hurry()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_threshold_of_the_disk_that_is_no_number_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GYRE_MIN_FREE_MB", "xx")
    with pytest.raises(
        embedded.EmbeddedError, match="GYRE_MIN_FREE_MB='xx' is not a whole number of megabytes above 0"
    ):
        require_disk(tmp_path)
