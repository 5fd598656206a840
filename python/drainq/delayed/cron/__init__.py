"""Schedules: offer recurring messages to a queue ahead of time.

| module | what it holds |
| --- | --- |
| ``service`` | :class:`CronService`, the class of ``queue.cron`` |
| ``schedule_handle`` | the loop of one installed schedule |
| ``cron_message`` | a payload and the tick that it belongs to |
| ``daily_schedule``, ``tick_times`` | compute when a schedule fires |
| ``tick_key``, ``config_hash`` | compute the names of a tick and of a configuration, like the source library |
"""
