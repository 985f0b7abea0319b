"""A few of the faults of bench/faults.py: a family of each kind is killed, and verbs that write fail."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent.parent / "bench" / "faults.py"


def test_after_each_fault_the_work_is_done_equal_to_the_bit():
    done = subprocess.run(
        [sys.executable, str(BENCH), "--small", "--kills", "2", "--seed", "3"], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    result = json.loads(done.stdout)
    assert result["failed"] == []
    assert result["skipped"] == []
    assert sum(result["tried"].values()) > 40
