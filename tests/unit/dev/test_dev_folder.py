"""The folder of `baton dev` is its own, and nobody else's files are touched."""

from pathlib import Path

import pytest

from baton.dev.folder import DevError, DevFolder


def test_a_folder_with_files_of_others_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    accounts = tmp_path / "ledger" / "accounts"
    accounts.write_text("money")
    tmp_path.chmod(0o755)
    with pytest.raises(DevError, match="has other files, which are left alone"), DevFolder(tmp_path).held():
        pass
    assert accounts.read_text() == "money"
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


def test_its_own_is_taken_again_and_so_is_an_empty_one(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "new" / "one"):
        for _ in range(2):
            with DevFolder(path).held():
                (path / "ledger" / "group").write_text("{}")
            assert path.stat().st_mode & 0o777 == 0o700
