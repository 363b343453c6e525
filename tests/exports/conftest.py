"""A run that holds everything that an export has to carry."""

from __future__ import annotations

import pytest

from tests.processor.records import Made
from tests.support.processed_run import processed_run


@pytest.fixture
def made(db: None) -> Made:
    return processed_run()
