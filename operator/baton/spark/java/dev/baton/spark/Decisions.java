package dev.baton.spark;

/**
 * What is decided for a group: which entries a batch has, and where they are read. The driver's Python implements it.
 *
 * <p>Arguments and answers are JSON, except names and ids. docs/development/spark-source.md has their fields. An answer
 * <code>{"error": "…"}</code> ends the query with that text. Where something is waited for, the answer is <code>{"again":
 * milliseconds}</code>: the same is asked again after that time.
 */
public interface Decisions {
  /** A stream begins. Options are those of load(), with lower-case names; the query is what RunningQuery says. Answers its name. */
  String open(String options, String query);

  /** Where a stream begins that has no checkpoint; may be waited for. */
  String initialOffset(String stream);

  /** How far the next batch goes; may be waited for. */
  String latestOffset(String stream, String start);

  /** The ranges of a batch, and where each is to be read; may be waited for. */
  String plan(String stream, String start, String end, String batchId);

  /** Spark will never ask again for what is up to here. */
  String commit(String stream, String end);

  /** Texts by name, for the progress of the query. */
  String metrics(String stream, String consumed);

  /** What is there now is all that this stream is to read. */
  String prepareAvailableNow(String stream);

  /** The stream has ended. */
  String stop(String stream);

  /** A plan for a batch read of all that is there. */
  String batch(String options);

  /** The JVM is asked to end. Answers when the fleet has. */
  String jvmEnds();
}
