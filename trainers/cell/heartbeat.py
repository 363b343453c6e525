"""The cell's heartbeat, in a thread of its own, so that a long forward-backward is not taken for a lost cell."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import requests

from trainers.cell import cell_row
from trainers.cell.engine.client import EngineClient
from trainers.ledger import CellEpoch

log = logging.getLogger("gyre.heartbeat")

INTERVAL_S = 1.0
FENCED_STATUS = 3
ENGINE_LOST_STATUS = 4


class Heartbeat(threading.Thread):
    """Reports load every second. Ends the whole process when the epoch is over or the engine has died."""

    def __init__(self, database_url: str, cell: CellEpoch) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._database_url = database_url
        self._cell = cell
        self._engine: EngineClient | None = None
        self._engine_alive: Callable[[], bool] = lambda: True
        self._stopping = threading.Event()

    def watch(self, url: str, key: str, alive: Callable[[], bool]) -> None:
        """Report the load of this engine from now on. It gets a client of its own: sessions are not for two threads."""
        self._engine_alive = alive
        self._engine = EngineClient(url, key)

    def stop(self) -> None:
        self._stopping.set()
        self.join(timeout=INTERVAL_S * 5)

    def run(self) -> None:
        connection: cell_row.Connection | None = None
        while not self._stopping.wait(INTERVAL_S if connection else 0.0):
            if not self._engine_alive():
                self._end(connection, ENGINE_LOST_STATUS, "the engine ended; its log says why")
            try:
                if connection is None:
                    connection = psycopg.connect(self._database_url, autocommit=True)
                if not cell_row.beat(connection, self._cell, **self._load()):
                    self._end(None, FENCED_STATUS, f"epoch {self._cell.epoch} is over")
            except psycopg.Error as error:
                log.warning("no heartbeat: %s", error)
                connection = None
                self._stopping.wait(INTERVAL_S)

    def _load(self) -> dict[str, Any]:
        idle = {"num_calls": 0, "num_kv_tokens": 0, "tokens_per_s": 0.0}
        if self._engine is None:
            return idle
        try:
            return {**idle, **self._engine.loads()}
        except requests.RequestException as error:
            log.warning("the engine did not report its load: %s", error)
            return idle

    def _end(self, connection: cell_row.Connection | None, status: int, why: str) -> None:
        log.error("ending: %s", why)
        if connection is not None:
            cell_row.report(connection, self._cell, notify=True, role="lost", phase="", error=why)
        os._exit(status)
