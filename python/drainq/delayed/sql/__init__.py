"""Every SQL statement of the delayed queue: one file per back end, each statement named and described.

A statement is a template: ``{table}``, ``{dead}``, ``{cron}`` and the like are filled in with quoted names by
:class:`drainq.delayed.sql.names.Names`; values are always bound.
"""
