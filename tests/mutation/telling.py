"""What the operator says, and how it goes on when something fails: its rules, each broken in one place."""

from tests.mutation.mutation import Mutation

TELLING = (
    Mutation("events", "post notes of any length", "kube/events.py", "unit/kube/test_events.py",
             '"note": _at_most(note, LONGEST_NOTE),', '"note": note,'),
    Mutation("events", "name an event by all of its object's name", "kube/events.py", "unit/kube/test_events.py",
             "about.name[:220].rstrip('-.')", "about.name"),
)  # fmt: skip
