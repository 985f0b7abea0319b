"""`python -m regard`, the same as `regard`."""

from regard.machine.torchrun import end_process


def run() -> None:
    try:
        from regard.cli import main

        code = main()
    except KeyboardInterrupt:  # while Python itself starts or ends
        code = 130
    end_process(code)


if __name__ == "__main__":
    run()
