"""The commands that inspect a machine and running programs: ``doctor``, ``top``, ``completion``.

They work without extra packages, except ``completion``. ``drainq[cli]`` gives ``top`` its colours. They create nothing.
"""
