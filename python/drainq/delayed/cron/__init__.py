"""Schedules: messages that a queue gets ahead of time, again and again.

| module | what it holds |
| --- | --- |
| ``service`` | :class:`CronService`: what ``queue.cron`` offers |
| ``schedule_handle`` | the loop of one installed schedule |
| ``cron_message`` | a payload and the tick that it belongs to |
| ``daily_schedule``, ``tick_times`` | when a schedule fires |
| ``tick_key``, ``config_hash`` | the names of a tick and of a configuration, as the source library writes them |
"""
