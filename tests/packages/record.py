"""Write ``expected.json``: what the programs print on PyTorch. Run it where PyTorch and the packages are installed.

Names of programs as arguments record these alone.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FILE = HERE / "expected.json"

# torchvision's library may be compiled for another build of PyTorch. Its Python then needs the schemas that it extends.
DEFINE = """
import runpy, sys, torch
library = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
sys.path.insert(0, sys.argv[1])
runpy.run_path(f"{sys.argv[1]}/{sys.argv[2]}.py", run_name="__main__")
"""


def main() -> None:
    """Record the programs that are named on the command line, or all of them."""
    expected = json.loads(FILE.read_text()) if FILE.exists() else {}
    for path in sorted((HERE / "programs").glob("*.py")):
        if path.stem == "common" or sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        command = [sys.executable, "-W", "ignore", "-c", DEFINE, str(path.parent), path.stem]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            print(f"{path.stem}: {result.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        expected[path.stem] = result.stdout.splitlines()
        print(path.stem, len(expected[path.stem]), "lines")
        FILE.write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
