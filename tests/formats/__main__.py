"""Write the files: `python -m tests.formats` (all of them), or with pytest's options (`-k redis`)."""

import os
import sys
from pathlib import Path

import pytest

from tests.formats import WRITE

os.environ[WRITE] = "1"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *map(str, Path("tests").rglob("test_formats.py")), *sys.argv[1:]]))
