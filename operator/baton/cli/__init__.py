"""The command `baton`: a module for each subcommand (`main` lists them), and what they share.

- `options`: what subcommands take (names, the cluster, the form of the answer); `printing`: all that they print
- `cluster`: the API server that is meant; `group`: a group as it was read at one moment; `group_words`: the same in sentences
- `rehearsal`: what a plan would do with a group, for `plan`, `explain` and the console; `own_assignors`: of installed packages
- `redaction`: what never gets into a bundle
"""
