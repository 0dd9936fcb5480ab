"""`make bench-scale`: an operator of a thousand groups, as the API server and /proc see it."""
