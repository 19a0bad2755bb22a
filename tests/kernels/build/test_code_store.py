"""Compiled code is executed, so it is read only from where nobody else can have written it."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

pytest.importorskip("numba")

from retrograd.kernels.build import code_store, private_files

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
STRANGER = 54321
KEY, CODE = "0" * 32, b"machine code"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder for the cache, of which this process knows nothing yet."""
    monkeypatch.setattr(private_files, "_answers", {})
    monkeypatch.setattr(private_files, "_warned", [])
    folder = tmp_path / "above" / "cache"
    monkeypatch.setenv("RETROGRAD_CACHE", str(folder))
    tmp_path.chmod(0o755)
    folder.parent.mkdir(mode=0o755)
    return folder


def keep_and_read(key=KEY):
    code_store.write_region(key, CODE)
    return code_store.read_region(key)


def refused(match):
    """Code is not read and not kept, and only the first attempt warns."""
    before = set(Path(os.environ["RETROGRAD_CACHE"]).rglob("*.o"))
    with pytest.warns(RuntimeWarning, match=match):
        assert code_store.read_region(KEY) is None
        code_store.write_region("1" * 32, CODE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert keep_and_read() is None
    after = set(Path(os.environ["RETROGRAD_CACHE"]).rglob("*.o"))
    assert before == after
    return True


def test_there_is_no_second_process_where_nothing_can_be_kept(root):
    root.mkdir()
    root.chmod(0o777)
    with pytest.warns(RuntimeWarning), pytest.raises(OSError, match="no folder"):
        code_store.lock()


def forget():
    private_files._answers.clear()


def test_folders_are_made_for_this_user_alone_and_files_too(root):
    umask = os.umask(0)
    try:
        assert keep_and_read() == CODE
        code_store.lock().close()
    finally:
        os.umask(umask)
    modes = {path.relative_to(root).as_posix(): path.stat().st_mode & 0o777 for path in [root, *root.rglob("*")]}
    assert modes == {".": 0o700, "lock": 0o600, "regions": 0o700, f"regions/{KEY}.o": 0o600}


def test_every_missing_folder_above_is_made_for_this_user_alone(root, monkeypatch):
    monkeypatch.setenv("RETROGRAD_CACHE", str(root / "a" / "b"))
    assert keep_and_read() == CODE
    assert [path.stat().st_mode & 0o777 for path in (root, root / "a", root / "a" / "b")] == [0o700] * 3


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777, 0o720, 0o702])
@pytest.mark.parametrize("level", [".", "regions"])
def test_a_folder_to_which_others_may_write_is_refused(root, level, mode):
    assert keep_and_read() == CODE
    (root / level).chmod(mode)
    forget()
    assert refused(f"other users may write to .* \\(mode {mode:04o}\\)")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_folder_above_in_which_others_may_rename_is_refused(root, mode):
    assert keep_and_read() == CODE
    root.parent.chmod(mode)
    forget()
    assert refused("other users may write to .*above ")


def test_a_folder_above_like_that_of_temporary_files_is_fine(root):
    root.parent.chmod(0o1777)
    assert keep_and_read() == CODE


@as_root
@pytest.mark.parametrize("level", ["..", ".", "regions"])
def test_a_folder_of_another_user_is_refused(root, level):
    assert keep_and_read() == CODE
    os.chown(root / level, STRANGER, -1)
    forget()
    assert refused(f"belongs to another user \\(id {STRANGER}\\)")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_to_which_others_may_write_is_refused_and_replaced(root, mode):
    assert keep_and_read() == CODE
    path = root / "regions" / f"{KEY}.o"
    path.chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"{KEY}.o \\(mode {mode:04o}\\)"):
        assert code_store.read_region(KEY) is None
    assert keep_and_read() == CODE and path.stat().st_mode & 0o777 == 0o600


@as_root
def test_a_file_of_another_user_is_refused_and_replaced(root):
    assert keep_and_read() == CODE
    path = root / "regions" / f"{KEY}.o"
    os.chown(path, STRANGER, -1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert code_store.read_region(KEY) is None
    assert keep_and_read() == CODE and path.stat().st_uid == os.geteuid()


def test_a_file_that_is_a_link_is_not_followed(root, tmp_path):
    assert keep_and_read() == CODE
    path = root / "regions" / f"{KEY}.o"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert code_store.read_region(KEY) is None
    (root / "lock").symlink_to(tmp_path / "made by the lock")
    with pytest.raises(OSError):
        code_store.lock()
    assert not (tmp_path / "made by the lock").exists()


def test_a_pipe_in_place_of_a_file_does_not_block(root):
    assert keep_and_read() == CODE
    path = root / "regions" / f"{KEY}.o"
    path.unlink()
    os.mkfifo(path)
    assert code_store.read_region(KEY) is None


def test_links_on_the_way_are_followed_and_where_they_lead_is_checked(root, tmp_path):
    real = tmp_path / "disk" / "real"
    real.mkdir(parents=True, mode=0o700)
    root.symlink_to(Path("..") / "disk" / "real")
    assert keep_and_read() == CODE and list(real.rglob("*.o"))
    real.parent.chmod(0o777)
    forget()
    assert refused("other users may write to .*disk ")


def test_a_link_in_the_middle_of_a_chain_is_checked(root, tmp_path):
    real, middle = tmp_path / "real", tmp_path / "open" / "middle"
    real.mkdir(mode=0o700)
    middle.parent.mkdir()
    middle.symlink_to(real)
    root.symlink_to(middle)
    assert keep_and_read() == CODE
    middle.parent.chmod(0o777)
    forget()
    assert refused("other users may write to .*open ")


@as_root
def test_a_link_of_another_user_is_refused(root, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    root.parent.chmod(0o1777)
    root.symlink_to(tmp_path / "real")
    os.lchown(root, STRANGER, -1)
    assert refused("belongs to another user")


@pytest.mark.parametrize("name", ["relative", "./relative", "~/relative", "../relative"])
def test_a_relative_path_is_refused(root, monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETROGRAD_CACHE", name)
    assert refused("RETROGRAD_CACHE is .*relative', which is not an absolute path")


@pytest.mark.parametrize("home", ["rel", ".", "./rel"])
def test_a_relative_home_is_refused(root, monkeypatch, tmp_path, home):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RETROGRAD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "rel")
    monkeypatch.setenv("HOME", home)
    with pytest.warns(RuntimeWarning, match=f"HOME is '{home}', which is not an absolute path"):
        assert keep_and_read() is None
    assert not list(tmp_path.rglob("*.o"))


def test_a_relative_folder_for_caches_is_ignored_and_an_absolute_one_taken(root, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RETROGRAD_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "rel")
    assert code_store.folder() == tmp_path / "home" / ".cache" / "retrograd"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert code_store.folder() == tmp_path / "xdg" / "retrograd"


PROGRAM = """
import os, sys
import retrograd as rg
f = rg.compile(lambda x: (x * 2 + 1).exp().sum())
x = rg.linspace(0, 1, 40)
assert abs(float(f(x)) - float(f(x))) < 1e-3
assert abs(float(rg.nn.functional.softmax(rg.ones(40, 300), -1)[0, 0]) * 300 - 1) < 1e-5
print(sorted(name for name in os.listdir(".")))
"""


@pytest.mark.parametrize(
    "case", ["XDG_CACHE_HOME", "nobody", *(pytest.param(case, marks=pytest.mark.slow) for case in ("HOME", "shared"))]
)
def test_programs_run_without_a_cache_and_leave_nothing_in_the_current_folder(tmp_path, case):
    unset = "XDG_CACHE_HOME", "RETROGRAD_CACHE", "LOCALAPPDATA"
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    before = ""
    if case == "XDG_CACHE_HOME":
        environment |= {"XDG_CACHE_HOME": "rel", "HOME": "rel"}
    elif case == "HOME":
        environment["HOME"] = "rel"
    elif case == "nobody":
        environment.pop("HOME", None)
        before = "import pwd\ndef nobody(uid): raise KeyError(uid)\npwd.getpwuid = nobody\n"
    else:
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared").chmod(0o777)
        environment["RETROGRAD_CACHE"] = str(tmp_path / "shared")
    made = subprocess.run(
        [sys.executable, "-c", before + PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert made.stderr.count("compiled code is neither read from disk nor kept there") == 1
    assert made.stdout.strip() == ("['shared']" if case == "shared" else "[]")
    assert not list(tmp_path.rglob("*.*o*"))
