"""`manage.py run_scheduler`: the decision loop. Several may run; one leads, the others stand by."""

import signal
import threading
from types import FrameType

from django.core.management.base import BaseCommand

from scheduler.loop import run_forever


class Command(BaseCommand):
    help = "Run the scheduler: observe, decide, enact. One process leads by a database lock, others stand by."

    def handle(self, *args: object, **options: object) -> None:
        stop = threading.Event()

        def asked_to_stop(number: int, frame: FrameType | None) -> None:
            stop.set()

        signal.signal(signal.SIGTERM, asked_to_stop)
        signal.signal(signal.SIGINT, asked_to_stop)
        run_forever(stop.is_set, stop.wait)
