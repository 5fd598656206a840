"""An application inside the library: access logs to service metrics, on Spark, into SQL. It is ``drainq metrics``.

No room of the library imports it; it uses them as any program would. An item's way through it:

| module | what it does |
| --- | --- |
| ``cli`` | reads the command line |
| ``job`` | one run, from the logs to the report; ``outcome`` is what it did |
| ``log_files``, ``blocks`` | finds the logs, and knows them by their content; cuts them into tasks |
| ``steps`` | the steps that a run and a round of following share |
| ``follow`` | a room of its own: ``--follow`` |
| ``engine`` | runs the tasks, on Spark or in threads |
| ``spark_session``, ``daemon``, ``make_archive`` | start Spark, quickly |
| ``reader`` | a task's way from lines to typed metrics (``metric_types``) |
| ``handlers``, ``names``, ``arrays`` | add them up by key within the task (L1); the files that leave it |
| ``partials``, ``load``, ``tables`` | merge what the tasks left; into the database (L2) |
| ``report``, ``summary``, ``progress`` | what a person sees |
"""
