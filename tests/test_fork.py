"""The registry of objects that a forked child renews."""

from __future__ import annotations

from drainq.fork import renew_in_child
from tests.forked import in_child, needs_fork

pytestmark = needs_fork


class Renewed:
    def __init__(self, error=None):
        self.error, self.renewals = error, 0
        renew_in_child(self)

    def _renew_in_child(self):
        self.renewals += 1
        if self.error is not None:
            raise self.error


def test_an_object_that_cannot_be_renewed_keeps_no_other_from_it(caplog):
    before, broken, after = Renewed(), Renewed(OSError("no thread")), Renewed()

    def check():
        assert [thing.renewals for thing in (before, broken, after)] == [1, 1, 1]
        assert "Renewed could not be renewed" in caplog.text

    assert in_child(check) == 0
    assert [thing.renewals for thing in (before, broken, after)] == [0, 0, 0]


def test_an_object_that_is_gone_is_not_renewed():
    renewed = []

    class Gone(Renewed):
        def _renew_in_child(self):
            renewed.append(self)

    thing = Gone()
    del thing
    assert in_child(lambda: [].index(0) if renewed else None) == 0
