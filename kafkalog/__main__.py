"""``python -m kafkalog``: the command line, where no script was installed for it."""

from __future__ import annotations

import sys

from kafkalog.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
