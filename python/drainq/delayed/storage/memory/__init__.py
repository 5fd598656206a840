"""The memory of this process as the back end of a delayed queue; the databases are compared with it in tests.

| module | what it holds |
| --- | --- |
| ``storage`` | the class that joins the others |
| ``queue`` | the rows and the order in which they become due |
| ``ticks`` | the messages of schedules |
"""
