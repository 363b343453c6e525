"""The test process really talks to the embedded servers."""

import os

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


@pytest.mark.django_db
def test_django_uses_the_database_named_in_the_environment() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        assert cursor.fetchone()[0] == os.environ["DATABASE_URL"].rsplit("/", 1)[1]


def test_a_child_process_would_see_the_migrated_schema(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM agents_run").fetchone() == (0,)


def test_valkey_answers_with_its_password_only() -> None:
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        assert client.ping()
        port = client.connection_pool.connection_kwargs["port"]
    with redis.Redis(port=port, retry=Retry(NoBackoff(), 0)) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
