"""The package of ``drainq metrics --follow``: counts logs that still grow, or still arrive.

| module | what it does |
| --- | --- |
| ``run`` | the entry point: follows until a signal |
| ``directory`` | finds the files of a directory that are finished and not yet counted |
| ``tail`` | finds the lines that were appended to a file, across its rotation |
| ``counted`` | the table of counted bytes, written in the same transaction as the metrics |
| ``rounds`` | one round: reads, aggregates and writes, in one transaction |
| ``file_stream`` | on Spark, the streaming query that loads finished files |
"""
