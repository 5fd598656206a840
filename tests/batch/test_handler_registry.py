"""The handlers of a queue by type: what is left of a handler that was removed."""

from drainq import PartitionPolicy
from tests.batch.conftest import PATIENCE


def test_the_lack_of_a_handler_is_logged_once_and_again_after_a_handler_was_removed(make_queue, caplog):
    queue = make_queue()
    for times in (1, 2):
        for number in range(3):
            queue.produce(number)
            assert queue.flush(PATIENCE)
        lacks = [record for record in caplog.records if "has no handler for" in record.message]
        assert len(lacks) == times
        queue.add_handler(int, len)
        assert queue.remove_handler(int)


def test_the_weight_of_a_removed_handler_does_not_count(make_queue):
    def partitions(removed):
        queue = make_queue(partitions=PartitionPolicy.adaptive(3))
        for number in range(removed):
            kind = type(f"Removed{number}", (), {})
            queue.add_handler(kind, len)
            assert queue.remove_handler(kind)
        for number in range(20):
            queue.add_handler(type(f"Kept{number}", (), {}), len)
        return queue.partition_count

    assert partitions(removed=20) == partitions(removed=0) > 3
