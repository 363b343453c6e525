"""The queries that docs/howto/stuck-run.md tells people to type at night run on the schema as it is."""

import re

import pytest
from django.db import connection

from gyreweb.env import REPO_ROOT

BLOCKS = re.findall(r"```sql\n(.*?)```", (REPO_ROOT / "docs" / "howto" / "stuck-run.md").read_text(), re.DOTALL)
QUERIES = [query.strip() for block in BLOCKS for query in block.split(";") if query.strip()]


@pytest.mark.django_db
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_page_runs(query: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(query)


def test_the_page_has_queries() -> None:
    assert len(QUERIES) >= 4
