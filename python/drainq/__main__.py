"""``python -m drainq``: the ``drainq`` command."""

import sys

from drainq.cli import main

if __name__ == "__main__":
    sys.exit(main())
