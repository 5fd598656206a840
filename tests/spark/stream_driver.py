"""A driver that is killed: a stream from queue ``in`` to queue ``out``, whose Java process dies where ``fault`` says.

usage: stream_driver.py URL CHECKPOINT FAULT
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from drainq.datasource import DrainqDataSource
from drainq.datasource.stream_reader import StreamReader
from drainq.datasource.writer import StreamWriter


def kill_the_driver():
    """Kill the Java process that this Python process works for, and end at once as it does."""
    import psutil

    java = next(parent for parent in psutil.Process().parents() if "java" in parent.name())
    java.kill()
    java.wait()
    os._exit(1)


class Writer(StreamWriter):
    fault = ""

    def write(self, iterator):
        message = super().write(iterator)
        if self.fault == "in a task":
            kill_the_driver()
        return message

    def commit(self, messages, batchId):
        if self.fault == "before the commit":
            kill_the_driver()
        super().commit(messages, batchId)
        if self.fault == "after the commit":
            kill_the_driver()


class Reader(StreamReader):
    fault = ""

    def latestOffset(self, start=None, limit=None):
        offset = super().latestOffset(start, limit)
        if self.fault == "after the claim" and offset != start:
            kill_the_driver()
        return offset


class Source(DrainqDataSource):
    def streamWriter(self, schema, overwrite):
        return self.with_fault(super().streamWriter(schema, overwrite), Writer)

    def streamReader(self, schema):
        return self.with_fault(super().streamReader(schema), Reader)

    def with_fault(self, made, kind):
        made.__class__, made.fault = kind, self.options["fault"]
        return made


def main(url, checkpoint, fault):
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.dataSource.register(Source)
    options = {"url": url, "fault": fault}
    reader = spark.readStream.format("drainq").options(**options, queue="in", consumer="c", maxRows="300").load()
    writer = reader.writeStream.format("drainq").options(**options, queue="out", checkpointLocation=checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
