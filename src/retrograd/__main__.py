"""Run the command `retrograd` with `python -m retrograd`."""

from retrograd.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
