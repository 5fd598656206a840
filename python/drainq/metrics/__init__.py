"""The application ``drainq metrics``: turns access logs into service metrics in a database, on Spark or in threads.

It uses the library as any program would, and only the command ``drainq`` imports it. A log line passes:

| module | what it does |
| --- | --- |
| ``cli`` | reads the command line |
| ``job`` | one run, from the logs to the report; ``outcome`` has its counts |
| ``log_files``, ``blocks`` | finds the logs and their digests; cuts them into tasks |
| ``steps`` | the steps that a run and a round of following share |
| ``follow`` | the package of ``--follow`` |
| ``engine`` | runs the tasks, on Spark or in threads |
| ``spark_session``, ``daemon``, ``make_archive`` | start Spark, quickly |
| ``reader`` | turns lines into typed metrics (``metric_types``) |
| ``handlers``, ``storable_text``, ``arrays`` | aggregate by key within the task (L1), and write files |
| ``partials``, ``load``, ``tables`` | merge the tasks' files, and load the groups into the database (L2) |
| ``report``, ``summary``, ``progress`` | the page, the printed summary, the progress line |
"""
