"""An application inside the library: access logs to service metrics, on Spark, into SQL. It is ``drainq metrics``.

No room of the library imports it; it uses them as any program would. An item's way through it:

| module | what it does |
| --- | --- |
| ``cli`` | reads the command line |
| ``job`` | one run, from the logs to the report; ``outcome`` is what it did |
| ``log_files`` | finds the logs, and knows them by their content |
| ``session``, ``spark_job`` | start Spark; read the lines with it and merge what the tasks made of them |
| ``line_reader``, ``line``, ``columns`` | a task's way from lines to typed metrics (``types``) |
| ``aggregate``, ``partial_rows`` | merge them by key within the task (L1); the rows that leave it |
| ``load``, ``tables`` | merged rows into the database (L2) |
| ``sketch`` | percentiles |
| ``report``, ``summary``, ``text``, ``progress`` | what a person sees |
"""
