"""The agent of one cell: brings the cell's role to the one that the scheduler desires (docs/algorithms.md §10).

It decides nothing. It starts the engine and the trainer (both stay resident), obeys `desired_role`, measures the phases
of every switch, and reports. Every write carries the cell's epoch, so an agent that was replaced can change nothing.
"""

import contextlib
import faulthandler
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from trainers.cell import cell_row, heartbeat, settings
from trainers.cell.engine.process import EngineProcess
from trainers.cell.training import model, trainer
from trainers.cell.training.core_work import Core
from trainers.cell.training.satellite_work import Satellite
from trainers.cell.transfer.endpoint import Endpoint
from trainers.ledger import CellEpoch

log = logging.getLogger("gyre.agent")

POLL_S = 0.1
#: The proxy re-reads the cell table at least this often; afterwards it routes nothing new here.
ROUTING_SETTLES_S = 0.25
DRAIN_POLL_S = 0.05

ROLLOUT, TRAINING, SWITCHING = "rollout", "training", "switching"


class Withdrawn(RuntimeError):
    """The desired role changed while the switch was still under way."""


class Phases:
    """Names and seconds of the steps of one switch; the present one is shown in the cell's row."""

    def __init__(self, connection: cell_row.Connection, cell: CellEpoch) -> None:
        self.done: list[tuple[str, float]] = []
        self._connection = connection
        self._cell = cell

    @contextmanager
    def phase(self, name: str, **report: object) -> Iterator[None]:
        started = time.monotonic()
        cell_row.report(self._connection, self._cell, notify=True, phase=name, **report)
        try:
            yield
        finally:
            self.done.append((name, round(time.monotonic() - started, 4)))


class CellAgent:
    def __init__(self, connection: cell_row.Connection, cell: CellEpoch, beat: heartbeat.Heartbeat) -> None:
        self.connection = connection
        self.cell = cell
        self.heartbeat = beat
        self.settings = settings.of_run(cell, cell_row.run_facts(connection, cell))
        self.role = "starting"
        self.engine_version = -1
        self.engine_hash = ""

    # start

    def start(self) -> None:
        """Engine and trainer up, first weights verified in the engine, role `rollout`."""
        phases = Phases(self.connection, self.cell)
        config = self.settings.config
        hf_config = model.read_hf_config(self.settings.policy_folder)
        with phases.phase("engine", role="starting", pid=os.getpid(), error="", engine_url="", transfer_slots={}):
            self.engine = EngineProcess(
                self.settings.home,
                self.settings.policy_folder,
                self.settings.engine_seed,
                settings.engine_context(config, hf_config),
                config.max_calls_per_cell,
                settings.kv_tokens(config, hf_config),
            )
        with phases.phase("trainer"):
            update = self.settings.trainer_settings()
            trainer.init_process(update.layout)
            built = trainer.Trainer(hf_config, update, with_optimizer=self.settings.is_core)
            built.load_hf(trainer.read_weights(self.settings.policy_folder))
            endpoint = Endpoint()
            work_class = Core if self.settings.is_core else Satellite
            self.work: Core | Satellite = work_class(self.settings, self.connection, built, endpoint)
        with phases.phase("weights", transfer_address=endpoint.peer):
            self.work.start()
        with phases.phase("engine_ready"):
            self.engine.wait_ready()
            self.heartbeat.watch(self.engine.url, self.engine.key, self.engine.alive)
        with phases.phase("load"):
            self._load_engine()
        self._enter(ROLLOUT, engine_url=self.engine.url, engine_key=self.engine.key)
        log.info("ready: %s", phases.done)

    # reconcile

    def run(self) -> None:
        """Until the epoch is over or the desired role is `stopped`."""
        while (desired := self._desired()) is not None and desired.desired_role != "stopped":
            if not self.reconcile(desired):
                time.sleep(POLL_S)

    def _desired(self) -> cell_row.DesiredState | None:
        return cell_row.desired_state(self.connection, self.cell)

    def reconcile(self, desired: cell_row.DesiredState) -> bool:
        """One step towards the desired state. False: nothing to do now."""
        if isinstance(self.work, Core):
            self.work.accept_offers()
        if self.role == ROLLOUT and desired.desired_role == TRAINING:
            self._switch(TRAINING)
            return True
        if self.role == TRAINING and desired.desired_role == ROLLOUT:
            self._switch(ROLLOUT)
            return True
        if self.role == TRAINING:
            return self.work.train_once()
        if desired.evaluation is None and desired.newest_version > self.engine_version:
            return self._refresh()
        return False

    # switch

    def _switch(self, to_role: str) -> None:
        phases = Phases(self.connection, self.cell)
        error = ""
        try:
            if to_role == TRAINING:
                self._to_training(phases)
            else:
                self._to_rollout(phases)
        except Withdrawn as withdrawn:
            error = str(withdrawn)
            self._enter(ROLLOUT)
        cell_row.finish_role_change(self.connection, self.cell, phases.done, to_role=to_role, error=error)
        log.info("%s: %s %s", to_role, phases.done, error)

    def _to_training(self, phases: Phases) -> None:
        self.role = SWITCHING
        with phases.phase("drain", role=SWITCHING):
            self._drain()
        if isinstance(self.work, Satellite):
            with phases.phase("pull"):
                while not self.work.pull():
                    self._check_still_desired(TRAINING)
                    time.sleep(POLL_S)
        self._enter(TRAINING)

    def _drain(self) -> None:
        """Wait until the proxy routes nothing here and every running call has ended. Aborts none."""
        settled_at = time.monotonic() + ROUTING_SETTLES_S
        while time.monotonic() < settled_at or self.engine.client.loads()["num_calls"]:
            self._check_still_desired(TRAINING)
            time.sleep(DRAIN_POLL_S)

    def _check_still_desired(self, role: str) -> None:
        desired = self._desired()
        if desired is None or desired.desired_role != role:
            raise Withdrawn(f"{role} is no longer the desired role")

    def _to_rollout(self, phases: Phases) -> None:
        self.role = SWITCHING
        if isinstance(self.work, Satellite):
            with phases.phase("hand_in", role=SWITCHING):
                self.work.leave()
            with phases.phase("pull"):
                self.work.pull()
        with phases.phase("load", role=SWITCHING):
            self._load_engine()
        self._enter(ROLLOUT)

    def _enter(self, role: str, **columns: object) -> None:
        self.role = role
        cell_row.report(
            self.connection,
            self.cell,
            notify=True,
            role=role,
            phase="",
            weight_version=self.engine_version,
            weight_hash=self.engine_hash,
            **columns,
        )

    # weights

    def _refresh(self) -> bool:
        """In rollout: take newly published weights, one cell of the run at a time. Calls go on under the new key."""
        run_id = self.cell.run_id
        if not cell_row.try_lock_update(self.connection, run_id):
            return False
        try:
            if isinstance(self.work, Satellite) and not self.work.pull():
                return False
            started = time.monotonic()
            cell_row.report(self.connection, self.cell, notify=True, phase=cell_row.TAKES_WEIGHTS)
            self._load_engine()
            log.info("version %s in %.3f s", self.engine_version, time.monotonic() - started)
        finally:
            cell_row.unlock_update(self.connection, run_id)
        return True

    def _load_engine(self) -> None:
        """The trainer's weights into the empty engine, verified; calls are routed to it again when its row says so."""
        version, sha256 = self.work.version, self.work.sha256
        weights = self.work.trainer.export_hf()
        with self.engine.client.emptied():
            self.engine.client.flush()
            self.engine.client.load_weights(weights, version)
        self.engine_version, self.engine_hash = version, sha256
        cell_row.report(
            self.connection,
            self.cell,
            notify=True,
            phase="",
            weight_version=self.engine_version,
            weight_hash=self.engine_hash,
        )


def _leave(*_: object) -> None:
    """The first SIGTERM ends the agent in order; further ones would disturb that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def main(run_id: int, cell_index: int, epoch: int) -> int:
    """Body of the agent's process; returns its exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True)
    logging.getLogger("megatron").setLevel(logging.WARNING)
    faulthandler.register(signal.SIGUSR1)
    cell = CellEpoch(run_id, cell_index, epoch)
    database_url = os.environ["DATABASE_URL"]
    signal.signal(signal.SIGTERM, _leave)
    with psycopg.connect(database_url, autocommit=True) as connection:
        beat = heartbeat.Heartbeat(database_url, cell)
        beat.start()
        try:
            agent = CellAgent(connection, cell, beat)
            agent.start()
            agent.run()
        except SystemExit:
            pass
        except Exception as error:
            log.exception("the agent failed")
            beat.stop()
            message = f"{type(error).__name__}: {error}"
            with contextlib.suppress(psycopg.Error):
                cell_row.report(connection, cell, notify=True, role="lost", phase="", error=message)
            return 1
        beat.stop()
        cell_row.report(connection, cell, notify=True, role="stopped", phase="")
    return 0
