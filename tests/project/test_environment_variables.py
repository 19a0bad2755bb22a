"""Any value of an environment variable that Retrograd reads either works or gives one error that names the variable."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import retrograd as rg

READ = {
    "tensors": "RETROGRAD_BACKEND RETROGRAD_KERNELS RETROGRAD_KEEP_MEMORY OMP_NUM_THREADS",
    "compiled": "RETROGRAD_COMPILE",
    "folders": "RETROGRAD_DATA XDG_CACHE_HOME HOME TORCH_HOME",
    "launcher": """LOCAL_RANK RANK WORLD_SIZE PMI_RANK PMI_SIZE OMPI_COMM_WORLD_LOCAL_RANK PMIX_RANK SLURM_PROCID
        SLURM_LOCALID MPI_LOCALRANKID MPI_LOCALNRANKS""",
}
OTHERS = "RETROGRAD_HUB_TOKEN TORCH_LOGS VIRTUAL_ENV NO_COLOR TERM COLUMNS LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT"
VALUES = {
    "empty": b"", "negative": b"-1", "huge": b"9" * 5000, "not UTF-8": b"\xff\xfe", "relative": b"a/b",
    "digit that is no number": "²".encode(),
}  # fmt: skip

# Each use in a child of a process that has imported the package with all variables set; errors are printed.
PROGRAM = """
import os, sys
import retrograd as rg
read, value = eval(sys.argv[1]), os.environb[b"VALUE"]
for name in " ".join(read.values()).split():
    os.environ.pop(name, None)

def tensors():
    x = rg.ones(300, 300, requires_grad=True)
    rg.nn.functional.gelu(x).sum().backward()
    assert 1 <= rg.get_num_threads() <= 1024

def compiled():
    f = rg.compile(lambda x: x.exp() + 1)
    assert [f(rg.zeros(2)).tolist() for _ in range(3)] == [[2.0, 2.0]] * 3

def folders():
    from retrograd.data.download import DataUnavailable, data_folders
    import retrograd.hub
    try:
        data_folders()
    except DataUnavailable:
        pass
    retrograd.hub.get_dir()

def launcher():
    from retrograd.distributed.launcher import launched, local_rank, local_size
    from retrograd.distributed.launch import _expected
    os.environ.setdefault("PMI_SIZE", "1")
    launched(), local_rank(), local_size(), _expected(-1, "RANK"), _expected(-1, "WORLD_SIZE")

for kind, names in read.items():
    use = globals()[kind]
    for name in names.split():
        child = os.fork()
        if not child:
            os.environb[name.encode()] = value
            try:
                use()
            except BaseException as error:
                print(name, use.__name__, type(error).__name__, ascii(error)[:100], flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            print(name, use.__name__, "crashed", "", flush=True)
"""


@pytest.mark.every(6)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="tries each use in a forked process")
@pytest.mark.slow
@pytest.mark.parametrize("kind", VALUES)
def test_each_value_of_a_variable_works_or_gives_an_error_that_names_the_variable(kind, tmp_path):
    names = " ".join([*READ.values(), OTHERS]).split()
    environment = {name.encode(): VALUES[kind] for name in names} | {b"VALUE": VALUES[kind], b"PATH": b"/usr/bin:/bin"}
    source = os.path.dirname(os.path.dirname(rg.__file__)).encode()
    environment |= {b"PYTHONPATH": source, b"OPENBLAS_NUM_THREADS": b"1"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, repr(READ)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        timeout=120,
    )
    assert run.returncode == 0 and not run.stderr.strip(), run.stderr[-600:]
    for line in run.stdout.decode().splitlines():
        name, use, error, text = line.split(" ", 3)
        assert error in ("RuntimeError", "DataUnavailable") and name in text, line
