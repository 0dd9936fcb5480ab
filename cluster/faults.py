"""The exception for errors that the user can fix."""


class ClusterError(Exception):
    """The cluster cannot do what was requested. The message names what is missing, with a cure."""
