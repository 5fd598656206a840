"""The delayed queue as a data source of Spark, for PySpark 4.0 and newer.

| module | what it alone does |
| --- | --- |
| ``source`` | the class that Spark knows as ``drainq`` |
| ``options`` | reads and checks the options |
| ``payload_form`` | says what a payload is in a column, and in the queue |
| ``columns`` | turns record batches and rows into messages, and messages into record batches |
| ``tables`` | the data source's own tables, beside the queue's |
| ``transactions`` | runs a piece of work in one transaction, again while the database is away |
| ``stage`` | keeps what tasks write until the driver publishes it, once |
| ``claims`` | moves due messages to one consumer, and keeps them until Spark is done with them |
| ``writer``, ``peek_reader``, ``stream_reader`` | what Spark calls |

:func:`drainq.spark.register` is the way to it.
"""

from drainq.datasource.source import DrainqDataSource

__all__ = ["DrainqDataSource"]
