"""The operator's running parts: what is watched, the loop per group, and what users see of both."""
