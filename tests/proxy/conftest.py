"""The stage of a proxy test: a proxy, engines and rows."""

from collections.abc import Iterator

import pytest

from tests.proxy.backstage import Backstage, backstage


@pytest.fixture
def stage(database_url: str) -> Iterator[Backstage]:
    with backstage(database_url) as found:
        yield found
