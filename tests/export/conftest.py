import pytest


@pytest.fixture
def gathered():
    pytest.importorskip("grpc")
    from .gatherer import Gatherer

    return Gatherer()


@pytest.fixture
def server(gathered):
    from drainq.export import RemoteServer

    from .gatherer import LOCAL

    with RemoteServer(address=LOCAL, handler=gathered) as server:
        yield server


@pytest.fixture
def three():
    """Yield three servers, each with its handler."""
    pytest.importorskip("grpc")
    from drainq.export import RemoteServer

    from .gatherer import LOCAL, Gatherer

    gatherers = [Gatherer() for _ in range(3)]
    servers = [RemoteServer(address=LOCAL, handler=gatherer) for gatherer in gatherers]
    yield list(zip(servers, gatherers))
    for server in servers:
        server.close(5)
