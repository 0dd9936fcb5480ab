# ruff: noqa: E501 -- a line of source is quoted as it stands
"""What a pod reads of a topic of Kafka, and where that fails: its rules, each broken in one place."""

from tests.mutation.mutation import Mutation

_KAFKA = "queues/kafka/"
_LETTERS = "unit/queues/kafka/test_dead_letters.py"
_BACKGROUND = "unit/queues/kafka/test_background_commits.py"
_PROBES = "unit/consumer/test_probes.py"
_ADDRESS = "unit/queues/kafka/test_address.py"
_FETCHER = "unit/queues/kafka/test_fetcher.py"
_AHEAD = "unit/queues/kafka/test_fetched.py"
_PARTITION = "unit/queues/kafka/test_fetched.py"

KAFKA_READING = (
    Mutation("dead letters", "wait for a topic that takes none with each of them", _KAFKA + "dead_letters.py", _LETTERS, "            if last is not None and time.monotonic() < last.until:", "            if False:"),
    Mutation("dead letters", "try a topic that takes none every half second", _KAFKA + "dead_letters.py", _LETTERS, "2 * last.pause if last else _FIRST_PAUSE", "_FIRST_PAUSE"),
    Mutation("dead letters", "try without end though each try takes long", _KAFKA + "dead_letters.py", _LETTERS, ", _A_PART * (now - begun))", ", 0.0)"),
    Mutation("dead letters", "refuse others for one that is too large", _KAFKA + "dead_letters.py", _LETTERS, "            if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:", "            if True:"),
    Mutation("fetching", "count no keys", _KAFKA + "messages.py", _PARTITION, " + sum(map(len, filter(None, keys)))", ""),
    Mutation("fetching", "count no headers", _KAFKA + "messages.py", _PARTITION, "            content += len(name) + len(value or b\"\")", "            pass"),
    Mutation("fetching", "count nothing for many small headers", _KAFKA + "messages.py", _PARTITION, "        in_memory += _OF_A_HEADER * len(headers)", "        pass"),
    Mutation("fetching", "count nothing for many small messages", _KAFKA + "messages.py", _PARTITION, "_OF_A_MESSAGE * len(messages)", "0"),
    Mutation("fetching", "hand out less because of what Python needs for it", _KAFKA + "fetched.py", _PARTITION, "while taken and ((content > most_bytes", "while taken and ((size > most_bytes"),
    Mutation("fetching", "take much of each of many partitions in a poll", _KAFKA + "fetched.py", _AHEAD, "    if of_all.size < _BYTES_OF_ALL:\n        return _AT_ONCE\n    share", "    if True:\n        return _AT_ONCE\n    share"),
    Mutation("fetching", "take next to nothing in a poll of many partitions", _KAFKA + "fetched.py", _AHEAD, "max(_BYTES_OF_ALL / of_all.partitions, _LEAST_AT_ONCE)", "_BYTES_OF_ALL / of_all.partitions"),
    Mutation("fetching", "fetch never again what has failed once", _KAFKA + "fetcher.py", _FETCHER, "                self._changed.add(partition)  # it may be over", "                if fetched.corrupt: self._changed.add(partition)  # it may be over"),
    Mutation("commits", "end with a turn that failed", _KAFKA + "background_commits.py", _BACKGROUND, "                except Exception as problem:\n", "                except KeyboardInterrupt as problem:\n"),
    Mutation("commits", "forget what was due in a turn that failed", _KAFKA + "background_commits.py", _BACKGROUND, "                        self._due |= due", "                        pass"),
    Mutation("probes", "wait for ever for a check that cannot begin", "consumer/probes.py", _PROBES, "                asked.set_result(f\"the check cannot begin: {error}\")", "                pass"),
    Mutation("probes", "wait for ever for a check that failed", "consumer/probes.py", _PROBES, "        except Exception as error:\n            wrong", "        except KeyboardInterrupt as error:\n            wrong"),
    Mutation("address", "trust by the system where an address names a CA and no TLS", _KAFKA + "address.py", _ADDRESS, "        if name in options and not tls:", "        if False:"),
    Mutation("address", "show nothing where an address names a mechanism and no user", _KAFKA + "address.py", _ADDRESS, "    if \"mechanism\" in options and not user:", "    if False:"),
    Mutation("address", "take an empty group for none", _KAFKA + "address.py", _ADDRESS, "        if options.get(name) == \"\":", "        if False:"),
)  # fmt: skip
