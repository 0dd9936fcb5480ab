# ruff: noqa: E501 -- a line of source is quoted as it stands
"""What the operator says, and how it goes on when something fails: its rules, each broken in one place."""

from tests.mutation.mutation import Mutation

TELLING = (
    Mutation("health", "answer well whatever is wrong", "controller/health.py", "unit/controller/test_health.py",
             "self._answer(200 if problem is None else 503,", "self._answer(200,"),
    Mutation("supervision", "let a task that failed stay dead", "controller/supervision.py", "unit/controller/test_supervision.py",
             '            except Exception as error:\n                self._failed(name, "a background task failed; it starts again", error, where)', '            except ValueError as error:\n                self._failed(name, "a background task failed; it starts again", error, where)'),
    Mutation("supervision", "end a task by a cancellation of something that it waited for", "controller/supervision.py", "unit/controller/test_supervision.py",
             "if task is None or task.cancelling():", "if True:"),
    Mutation("supervision", "let a task die in silence", "controller/supervision.py", "unit/controller/test_supervision.py",
             '            self._failed(name, "a background task failed", error, where)', "            pass"),
    Mutation("events", "post notes of any length", "kube/events.py", "unit/kube/test_events.py",
             '"note": _at_most(note, LONGEST_NOTE),', '"note": note,'),
    Mutation("events", "name an event by all of its object's name", "kube/events.py", "unit/kube/test_events.py",
             "about.name[:220].rstrip('-.')", "about.name"),
    Mutation("status", "call a group settled that is not ready", "controller/conditions.py", "unit/controller/test_status.py",
             "    if ready[1] is not ConditionStatus.TRUE:\n        return not_settled(ready)\n", ""),
    Mutation("status", "call a group ready in one word that is not", "controller/conditions.py", "unit/controller/test_status.py",
             "    if ready[1] is not ConditionStatus.TRUE:\n        return ShownState.NOT_READY\n", ""),
    Mutation("status", "give a condition a new time at every look", "controller/conditions.py", "unit/controller/test_status.py",
             "since.get((kind, status.value)) or to_text(now)", "to_text(now)"),
    Mutation("status", "leave a halted group Ready", "controller/status.py", "unit/controller/test_status.py",
             'rest = [one for one in before if one.get("type") not in (is_ready[0], unsettled[0])]\n', 'rest = [one for one in before if one.get("type") not in (is_ready[0],)]\n'),
    Mutation("status", "write the status of another group of the name", "kube/api.py", "unit/controller/test_status_writer.py",
             '            {"op": "test", "path": "/metadata/uid", "value": uid},\n', ""),
    Mutation("status", "give up a status that could not be written", "controller/status_writer.py", "unit/controller/test_status_writer.py",
             "            self._written = {}\n            self._pause", "            self._written = wanted\n            self._pause"),
)  # fmt: skip
