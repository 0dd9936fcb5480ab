"""What pods take from the machine."""

from pathlib import Path

import pytest

from cluster import ClusterError, images


def test_a_cache_that_pods_cannot_read_is_told_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_CACHE", str(tmp_path))
    tmp_path.chmod(0o755)
    volumes, _ = images.host_volumes()
    assert str(tmp_path) in [volume["hostPath"]["path"] for volume in volumes]
    tmp_path.chmod(0o700)
    with pytest.raises(ClusterError, match=f"chmod o.rx {tmp_path}"):
        images.host_volumes()
