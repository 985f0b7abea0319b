"""`python -m regard`, the same as `regard`."""

import sys


def run() -> None:
    try:
        from regard.cli import main

        code = main()
    except KeyboardInterrupt:  # while Python itself starts or ends
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    run()
