"""The console: groups in a browser, live. It reads groups with the same functions as the commands."""
