"""`python -m retrograd.as_torch script.py [args]` runs a PyTorch program with Retrograd for `torch`, as `retrograd run`."""

from retrograd.compat.as_torch import main

if __name__ == "__main__":
    raise SystemExit(main())
