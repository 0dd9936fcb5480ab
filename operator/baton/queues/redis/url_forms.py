"""The forms of a Redis URL: for whoever reads one, and for the rule by which the API server checks one."""

MOST_HOSTS = 16
"""Sentinels, or nodes of a cluster, that one names."""

_HOST_FORM = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_HOSTS = f"{_HOST_FORM}(,{_HOST_FORM}){{0,{MOST_HOSTS - 1}}}"
_DATABASE = "(/[0-9]{0,9})?"

FORMS = {
    "": f"{_HOST_FORM}{_DATABASE}",
    "+sentinel": f"{_HOSTS}/[A-Za-z0-9._-]{{1,100}}{_DATABASE}",
    "+cluster": f"{_HOSTS}(/0?)?",
}
"""By what stands behind redis or rediss (TLS): what may follow the ://, up to a ? with options, as a regular expression. A
cluster has one database."""

SCHEMES = tuple(tls + kind for kind in FORMS for tls in ("redis", "rediss"))
SOCKET = "unix"
"""A scheme for whoever is on the server's own machine: a process whose own the URL is."""
EXAMPLES = {
    "": "redis://redis.shop:6379/0, or rediss:// for TLS",
    "+sentinel": "redis+sentinel://host1:26379,host2:26379/name-of-the-primary/0",
    "+cluster": "redis+cluster://host1:6379,host2:6379",
}
