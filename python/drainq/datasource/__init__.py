"""The data source ``drainq`` of Spark: reads and writes delayed queues, with PySpark 4.0 and newer.

| module | what it does |
| --- | --- |
| ``source`` | the class that Spark registers as ``drainq`` |
| ``options`` | reads and checks the options |
| ``payload_form`` | converts payloads between a column and the queue |
| ``columns`` | converts record batches and rows to messages, and back |
| ``tables`` | the data source's own tables, next to the queue's |
| ``transactions`` | runs a function in one transaction, and again while the database is away |
| ``stage`` | keeps rows that tasks write until the driver publishes them, once |
| ``claims`` | moves due messages to one consumer, and keeps them until Spark is done with them |
| ``writer``, ``stream_reader`` | the classes that Spark calls |

:func:`drainq.spark.register` registers it.
"""

from drainq.datasource.source import DrainqDataSource

__all__ = ["DrainqDataSource"]
