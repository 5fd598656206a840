"""The PostgreSQL that the other tests stand on."""

from __future__ import annotations

import os
import signal

import pytest

from tests.time_limit import at_most, outside_the_limit

pytestmark = pytest.mark.system


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


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs the timer of POSIX")
def test_the_start_of_a_server_takes_nothing_of_a_tests_time():
    with at_most(1_000):
        with outside_the_limit():
            assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        left, again = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left <= 1_000 and again > 0
