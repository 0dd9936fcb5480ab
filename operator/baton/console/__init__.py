"""The console: groups in a browser, as they are and as they become. It stands on the same readings as the commands."""
