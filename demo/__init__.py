"""The whole story on a real cluster, judged by an auditor that trusts no component: run as `python -m demo`."""
