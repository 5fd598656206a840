"""Registration of the data source ``drainq`` with a Spark session."""

from __future__ import annotations

from typing import Any

from drainq.errors import DrainqError


def register(spark: Any) -> None:
    """Let ``format("drainq")`` read and write delayed queues: ``read``, ``write``, ``readStream`` and ``writeStream``.

    Args:
        spark: a ``SparkSession``, classic or Connect, of PySpark 4.0 or newer.
    Raises:
        DrainqError: PySpark is older.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> df.write.format("drainq").mode("append").options(url=url, queue="mail").save()  # doctest: +SKIP

    Source: the interface is ``pyspark.sql.datasource``.
    """
    import pyspark

    try:
        import pyspark.sql.datasource
    except ImportError:
        raise DrainqError(f"the data source needs PySpark 4.0 or newer, this is {pyspark.__version__}") from None
    from drainq.datasource import DrainqDataSource

    spark.dataSource.register(DrainqDataSource)
