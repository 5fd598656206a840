"""The commands that look at a machine and at running programs: ``doctor``, ``top``, ``completion``.

They work without extra packages, except ``completion``. ``drainq[cli]`` gives ``top`` its colours. A command that only
looks creates nothing.
"""
