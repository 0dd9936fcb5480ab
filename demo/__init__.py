"""The demo: a story on a real cluster, audited from independent records. Run it with `python -m demo`."""
