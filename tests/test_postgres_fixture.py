"""The PostgreSQL that the other tests stand on."""

from __future__ import annotations

import os

import pytest


def test_the_url_leads_to_a_server_that_answers(postgres_url):
    import psycopg

    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_server_of_our_own_comes_back_after_a_crash_and_leaves_nothing_behind(own_postgres):
    import psycopg

    home = own_postgres._home
    with psycopg.connect(own_postgres.url) as connection:
        connection.execute("CREATE TABLE kept (n int)")
    own_postgres.stop("immediate")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(own_postgres.url)
    own_postgres.start()
    with psycopg.connect(own_postgres.url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    own_postgres.close()
    assert not os.path.exists(home)
