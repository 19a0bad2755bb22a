"""Run `retrograd run script.py [args]` with ``python -m retrograd.as_torch script.py [args]``."""

from retrograd.compat.as_torch import main

if __name__ == "__main__":
    raise SystemExit(main())
