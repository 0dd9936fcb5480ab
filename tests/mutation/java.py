# ruff: noqa: E501 -- a line of source is quoted as it stands
"""How tasks of Spark read: the rules of the Java part, each broken in one place. Each is built and run in a Spark of its own."""

from tests.mutation.mutation import Mutation

_JAVA = "spark/java/dev/baton/spark/"
_TROUBLES = "integration/spark/test_source_troubles.py::"

JAVA = (
    Mutation("reader", "read on whatever the queue's check says", _JAVA + "Check.java", _TROUBLES + "test_a_batch_that_is_done_is_not_read_again",
             "if (!code.equals(\"OK\")) throw", "if (code.isEmpty()) throw"),
    Mutation("reader", "give rows of a page that was checked long ago", _JAVA + "RedisPages.java", _TROUBLES + "test_a_task_that_was_held_up_gets_nothing_more_of_the_pages_that_it_has",
             "    if (check.old()) patience.until(this::attemptCheck, this::again);\n", ""),
    Mutation("reader", "end a range early where entries are missing", _JAVA + "RedisPages.java", _TROUBLES + "test_entries_that_somebody_deletes_are_missed",
             "throw gone();", "return page;"),
    Mutation("reader", "number all attempts alike", _JAVA + "Reader.java", _TROUBLES + "test_what_a_killed_executor_was_reading_is_lent_on",
             "        task.taskAttemptId(),", "        1L,"),
    Mutation("reader", "read as the owner wherever the task runs", _JAVA + "Reader.java", _TROUBLES + "test_what_a_killed_executor_was_reading_is_lent_on",
             "executor.equals(range.executor())", "!range.executor().isEmpty()"),
    Mutation("reader", "report nothing of what was read", _JAVA + "RangeReader.java", "integration/spark/test_source_rows.py::test_every_range_is_read_on_its_owner_and_reported",
             "    receipts.add(Group.text(report));\n", ""),
    Mutation("reader", "take for the batch's own failure that it could not be read", _JAVA + "RangeReader.java", "integration/spark/test_parts_of_a_task.py",
             "      refused = \"ERROR\";\n", ""),
    Mutation("reader", "report that Spark has killed a task as a failure", _JAVA + "RangeReader.java", "integration/spark/test_parts_of_a_task.py",
             "    } catch (TaskKilledException why) {\n      throw why; // Spark wants no more of it\n", ""),
    Mutation("reader", "fail where what is noted of the largest entry is no size", _JAVA + "RedisPages.java", _TROUBLES + "test_the_size_of_the_largest_entry_that_is_none_holds_up_nobody",
             "catch (NumberFormatException none)", "catch (ArithmeticException none)"),
    Mutation("reader", "fail for a server that will serve in a moment", _JAVA + "RedisConnections.java", _TROUBLES + "test_a_server_that_takes_no_writes_for_now_is_waited_for",
             "if (failed.getMessage().startsWith(word)) return true;", "if (failed.getMessage().equals(word)) return true;"),
    Mutation("decisions", "call Python from each query's own thread", _JAVA + "Group.java", "integration/spark/test_source.py::test_queries_that_come_and_go_leave_no_threads_in_the_driver",
             "PythonCalls.run(() -> question.apply(decisions))", "question.apply(decisions)"),
    Mutation("decisions", "take what a query is from the thread that calls Python", _JAVA + "BatonScan.java", "integration/spark/test_source.py::test_a_second_query_on_the_group_is_refused_while_one_reads",
             "decisions.open(Group.text(given), facts)", "decisions.open(Group.text(given), Group.text(RunningQuery.facts(query)))"),
)  # fmt: skip
