"""A callable that would never run is refused when it is passed, with its name, its value and the remedy."""

import asyncio
import functools
import inspect
import logging
import re
import threading
import unittest.mock
from collections import deque

import pytest

from drainq import BatchQueueConfig, PartitionSelector, ThreadPolicy
from drainq.callables import check_answer
from tests.batch.conftest import PATIENCE

PARAMETERS = {
    "consumer": ("batch",),
    "on_error": ("batch", "error"),
    "on_drop": ("reason", "count"),
    "dispatch_key": ("item",),
    "partition_selector": ("item", "count"),
    "len_of": ("item",),
    "balancer": ("throughput", "owners", "threads"),
}


@pytest.fixture
def said():
    """Make an event that is set when the logger ``drainq`` logs an error with this text."""
    logger, listeners = logging.getLogger("drainq"), []

    def listen(text):
        heard = threading.Event()
        listener = logging.Handler()
        listener.emit = lambda record: text in str(record.exc_info and record.exc_info[1]) and heard.set()
        logger.addHandler(listener)
        listeners.append(listener)
        return heard

    yield listen
    for listener in listeners:
        logger.removeHandler(listener)


def config(**settings):
    return BatchQueueConfig(threads=ThreadPolicy.fixed(1), **settings)


async def waits(*args):
    await asyncio.sleep(0)


def yields(*args):
    yield args


async def does_both(*args):
    yield args


class Waiting:
    async def __call__(self, *args):
        await asyncio.sleep(0)

    async def method(self, *args):
        await asyncio.sleep(0)

    @classmethod
    def yields(cls, *args):
        yield args


LAZY = {
    "async": (waits, "an async function", "asyncio.run"),
    "generator": (yields, "a generator function", "without yield"),
    "async-generator": (does_both, "an async generator function", "asyncio.run"),
    "partial": (functools.partial(functools.partial(waits), 1), "an async function", "asyncio.run"),
    "bound": (Waiting().method, "an async function", "asyncio.run"),
    "class-method": (Waiting.yields, "a generator function", "without yield"),
    "object": (Waiting(), "an async function", "asyncio.run"),
    "partial-of-object": (functools.partial(Waiting()), "an async function", "asyncio.run"),
}


def offers(parameter, value, make_queue):
    """Hands `value` over as this parameter: of the configuration, or of `add_handler`."""
    if parameter in PARAMETERS:
        return config(**{parameter: value})
    if parameter == "key":
        return PartitionSelector.by(value)
    return make_queue().add_handler(int, value)


@pytest.mark.parametrize("parameter", [*PARAMETERS, "handler", "key"])
@pytest.mark.parametrize("lazy", LAZY)
def test_what_a_call_would_not_run_is_refused(make_queue, parameter, lazy):
    value, what, remedy = LAZY[lazy]
    with pytest.raises(TypeError) as refusal:
        offers(parameter, value, make_queue)
    text = str(refusal.value)
    assert text.startswith(f"{parameter} must be a plain function that takes (")
    assert all(part in text for part in (repr(value), what, remedy, "runs nothing"))


@pytest.mark.parametrize("parameter", [*PARAMETERS, "handler", "key"])
def test_what_takes_other_arguments_is_refused(make_queue, parameter):
    names = PARAMETERS.get(parameter, ("item",) if parameter == "key" else ("batch",))
    commas = ", ".join(f"a{number}" for number in range(len(names)))
    one_more = eval(f"lambda {commas}, one_more: None")
    one_less = eval(f"lambda {commas.rpartition(', ')[0]}: None")
    by_keyword = eval(f"lambda {commas}, *, keyword: None")
    for value in (one_more, one_less, by_keyword, functools.partial(one_less, *names)):
        with pytest.raises(TypeError) as refusal:
            offers(parameter, value, make_queue)
        text = str(refusal.value)
        count = f"{len(names)} positional argument{'s' if len(names) > 1 else ''} ({', '.join(names)})"
        assert text.startswith(f"{parameter} is called with {count}, got {value!r}, which takes (")
    for value in (functools.partial(one_more, 1), lambda *args: None, eval(f"lambda {commas}, more=1: None")):
        offers(parameter, value, make_queue)


def test_an_answer_that_has_not_run_is_closed_and_shown_as_it_was():
    for answer in (waits(), yields(1)):
        shown = re.escape(repr(answer))
        with pytest.raises(TypeError, match=f"^the sink returned {shown}: nothing of it has run, and nothing will"):
            check_answer("the sink", answer)
        assert (inspect.getcoroutinestate if inspect.iscoroutine(answer) else inspect.getgeneratorstate)(
            answer
        ).endswith("_CLOSED")


def test_the_methods_of_a_handler_are_looked_at_too(make_queue):
    class Consumes:
        def consume(self, batch):
            pass

        async def on_idle(self):
            pass

    class Never(Consumes):
        consume = waits

    class Closes:
        def consume(self, batch):
            pass

        def on_close(self, one_more):
            pass

    for offer, name in ((make_queue().add_handler, "handler"), (lambda _, value: config(consumer=value), "consumer")):
        with pytest.raises(TypeError, match=rf"^{name}\.on_idle must be a plain function that takes \(\), got .*async"):
            offer(int, Consumes())
        with pytest.raises(TypeError, match=rf"^{name}\.consume must be a plain function that takes \(batch\), got"):
            offer(int, Never())
        with pytest.raises(
            TypeError, match=rf"^{name}\.on_close is called with 0 positional arguments \(\), got .*one_more"
        ):
            offer(int, Closes())


def test_a_balancers_method_is_looked_at():
    class Balancer:
        def assign(self, throughput):
            pass

    with pytest.raises(TypeError, match=r"^balancer\.assign is called with 3 positional arguments \(throughput, own"):
        config(balancer=Balancer())


@pytest.mark.parametrize(
    "value", [print, [].append, deque().extend, list, len, unittest.mock.Mock(), functools.lru_cache(len), max]
)
def test_builtins_and_what_does_not_say_what_it_takes_are_accepted(make_queue, value):
    make_queue().add_handler(int, value)
    config(consumer=value)


def test_a_decorator_is_judged_by_what_it_takes_itself(make_queue):
    def pairs(function):
        @functools.wraps(function)
        def call(batch):
            function(batch, len(batch))

        return call

    @functools.wraps(waits)
    def runs(batch):
        asyncio.run(waits(batch))
        done.extend(batch)

    done = []
    queue = make_queue()
    queue.add_handler(int, pairs(lambda batch, count: done.append(count)))
    queue.add_handler(str, runs)
    assert queue.produce_many([1, 2, "three"]) == 3
    assert queue.flush(PATIENCE)
    assert (sorted(map(str, done)), queue.stats().handled) == (["2", "three"], 3)


@pytest.mark.parametrize("lazy", [waits, yields, does_both])
@pytest.mark.parametrize("place", ["handler", "consumer"])
def test_a_handler_whose_call_ran_nothing_has_failed(make_queue, lazy, place):
    """Behind a lambda nobody sees that it is async; what it returns shows it."""
    failures = []
    settings = {"on_error": lambda batch, error: failures.append((batch, error))}
    if place == "consumer":
        queue = make_queue(consumer=lambda batch: lazy(batch), **settings)
    else:
        queue = make_queue(**settings)
        queue.add_handler(int, lambda batch: lazy(batch))
    assert queue.produce(1)
    assert queue.flush(PATIENCE)
    assert (queue.stats().handled, queue.stats().failed) == (0, 1)
    ((batch, error),) = failures
    assert batch == [1]
    assert isinstance(error, TypeError)
    kind = {waits: "coroutine", yields: "generator", does_both: "async_generator"}[lazy]
    assert f"the handler returned <{kind} object {lazy.__name__} at" in str(error)


@pytest.mark.parametrize("lazy", [waits, yields, does_both])
@pytest.mark.parametrize("place", ["on_error", "on_drop", "on_idle"])
def test_another_callable_whose_call_ran_nothing_is_said_to_have_failed(make_queue, said, lazy, place):
    def fails(batch):
        raise ValueError("the handler's own")

    class Idle:
        def consume(self, batch):
            fails(batch)

        def on_idle(self):
            return lazy([])

    settings = {} if place == "on_idle" else {place: lambda *arguments: lazy([])}
    queue = make_queue(consumer=Idle() if place == "on_idle" else fails, **settings)
    kind = {waits: "coroutine", yields: "generator", does_both: "async_generator"}[lazy]
    heard = said(f"returned <{kind} object {lazy.__name__} at")
    assert queue.produce(1)
    assert queue.flush(PATIENCE)
    if place == "on_drop":
        assert queue.shutdown(PATIENCE)
        assert not queue.produce(2), "refused, and on_drop is called for it"
    assert heard.wait(PATIENCE)


@pytest.mark.parametrize("answer", [None, 3, [1], iter([1]), NotImplemented])
def test_whatever_else_a_handler_returns_is_no_failure(make_queue, answer):
    queue = make_queue()
    queue.add_handler(int, lambda batch: answer)
    assert queue.produce(1)
    assert queue.flush(PATIENCE)
    assert queue.stats().handled == 1


def test_a_refused_handler_changes_nothing(make_queue):
    queue, got = make_queue(), []
    queue.add_handler(int, got.extend)
    with pytest.raises(TypeError):
        queue.add_handler(int, waits)
    assert queue.produce(1)
    assert queue.flush(PATIENCE)
    assert (got, queue.stats().handled) == ([1], 1)


@pytest.mark.parametrize("place", ["consumer", "handler"])
def test_of_an_object_that_is_both_consume_is_called(make_queue, place):
    class Both:
        def __init__(self):
            self.consumed = []

        def __call__(self, batch):
            raise AssertionError(batch)

        def consume(self, batch):
            self.consumed += batch

    both = Both()
    queue = make_queue(consumer=both) if place == "consumer" else make_queue()
    if place == "handler":
        queue.add_handler(int, both)
    assert queue.produce_many([1, 2]) == 2 and queue.flush(PATIENCE)
    assert (both.consumed, queue.stats().failed) == ([1, 2], 0)


def test_a_consume_that_is_no_method_does_not_make_a_handler_of_an_object(make_queue):
    class Named:
        consume = "a text"

    with pytest.raises(TypeError, match="consumer must be a callable that takes a list, or have a method consume"):
        make_queue(consumer=Named())
    Named.__call__ = lambda self, batch: got.extend(batch)
    got = []
    queue = make_queue(consumer=Named())
    assert queue.produce(1) and queue.flush(PATIENCE) and got == [1]
