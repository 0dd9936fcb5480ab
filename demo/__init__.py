"""The whole story on a real cluster, judged by an auditor who trusts nobody: run as `python -m demo`."""
