"""`python -m regard`, the same as `regard`."""

import sys

from regard.cli import main


def run() -> None:
    sys.exit(main())


if __name__ == "__main__":
    run()
