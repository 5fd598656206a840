"""Programs in which Ctrl-C comes first and what a blocked call waits for comes second, for certain.

A thread keeps the GIL from the signal to the item that it puts: ``_thread.interrupt_main`` marks the
signal as pending without giving the GIL up, and no other thread can ask for the GIL in time. So the
main thread, asleep in the call, finds both when it wakes up.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import _thread, os, signal, sys, threading

ROUNDS = 5

def blocked(queue):
    stats = queue.stats()
    return stats.blocked_getters + stats.blocked_putters

def until_blocked(queue, count):
    while blocked(queue) != count:
        os.sched_yield()

class Caller(threading.Thread):
    '''Makes one call; ``result`` is what it returned.'''

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call = call
        self.result = 'still blocked'
        self.start()

    def run(self):
        self.result = self.call()

def interrupt_and_then(queue, act, before=None):
    if before is not None:
        before()
    until_blocked(queue, 1 if before is None else 2)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    _thread.interrupt_main()
    act()
    sys.setswitchinterval(interval)

def interrupted(queue, call, act, before=None):
    '''Make ``call``; once it is blocked Ctrl-C comes, and then ``act`` is called.'''
    returned = []
    disturber = threading.Thread(target=interrupt_and_then, args=(queue, act, before))
    try:
        disturber.start()
        returned.append(call())
    except KeyboardInterrupt:
        pass
    else:
        sys.exit('not interrupted')
    disturber.join()
    assert returned == [], f'interrupted after the call had returned {returned}'
"""


def runs(program: str) -> None:
    """Run the program after the words above; it ends well and says nothing."""
    done = subprocess.run([sys.executable, "-c", PROGRAM + program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
