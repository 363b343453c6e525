"""What core and satellites both do: claim micro-steps and add their gradients to the sum that the trainer holds."""

import time
from collections import Counter
from typing import Any

from trainers import ledger
from trainers.cell.settings import CellSettings
from trainers.cell.training.trainer import Trainer
from trainers.cell.transfer.endpoint import Endpoint
from trainers.core.loss import LossMetrics
from trainers.core.payload import Payload, decode_payload
from trainers.ledger import Claim, Connection, OpenBatch

CHUNK_MICRO_STEPS = 1


class GradientWork:
    """`version` and `sha256` are those of the weights that the trainer holds; -1 before the first."""

    def __init__(self, settings: CellSettings, connection: Connection, trainer: Trainer, endpoint: Endpoint) -> None:
        self.settings = settings
        self.connection = connection
        self.trainer = trainer
        self.endpoint = endpoint
        self.version = -1
        self.sha256 = ""

    def claim_and_add(self, batch: OpenBatch) -> list[Claim]:
        """Claim one chunk and add its gradients; returns its claims, not yet counted. Empty: none was left."""
        claims = ledger.claim(self.connection, self.settings.cell, batch, CHUNK_MICRO_STEPS)
        if claims:
            started = time.monotonic()
            payloads = [decode_payload(claim.payload) for claim in claims]
            found = self.trainer.forward_backward(payloads)
            seconds = (time.monotonic() - started) / len(claims)
            for claim, payload, metrics in zip(claims, payloads, found, strict=True):
                values = micro_step_metrics(metrics, payload, self.version, seconds)
                ledger.record_metrics(self.connection, claim.id, values)
        return claims


def micro_step_metrics(metrics: LossMetrics, payload: Payload, version: int, seconds: float) -> dict[str, Any]:
    """Stored with the micro-step; sums, so that those of a batch add up. `staleness` counts targets per age."""
    ages = Counter((version - payload.versions[payload.target_mask]).tolist())
    staleness = {str(age): num for age, num in sorted(ages.items())}
    return {"loss": metrics.to_json(), "staleness": staleness, "seconds": round(seconds, 4)}
