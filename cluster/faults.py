"""The one exception whose message is for the person at the keyboard."""


class ClusterError(Exception):
    """The cluster cannot do what was asked. The message says what is missing and the cure."""
