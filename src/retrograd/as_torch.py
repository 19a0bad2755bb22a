"""``python -m retrograd.as_torch script.py [args]`` is ``retrograd run script.py [args]``."""

from retrograd.compat.as_torch import main

if __name__ == "__main__":
    raise SystemExit(main())
