"""Following: ``drainq metrics --follow``, for logs that are still being written or still arrive.

| module | what it does |
| --- | --- |
| ``run`` | follows until the end; the door |
| ``directory`` | which files of a directory are finished and not yet counted |
| ``tail`` | what was appended to a file, across its rotation |
| ``counted`` | how much of each file is counted: rows beside the metrics, in the same transaction |
| ``rounds`` | one round: read, add up, write, in one transaction |
| ``file_stream`` | on Spark: the streaming query that loads what is found finished |
"""
