package dev.baton.spark;

/**
 * The decisions for a group: which entries a batch has, and which executors read them. Implemented in Python, in the driver.
 *
 * <p>Arguments and answers are JSON, except names and ids; docs/development/spark-source.md lists their fields. An answer
 * <code>{"error": "…"}</code> ends the query with that text. <code>{"again": milliseconds}</code> means that there is no answer
 * yet: the caller asks again after that time.
 */
public interface Decisions {
  /** Opens a stream, and answers its name. Takes the options of load(), with lower-case names, and the facts of RunningQuery. */
  String open(String options, String query);

  /** Answers where a stream without a checkpoint begins, or "again". */
  String initialOffset(String stream);

  /** Answers the end of the next batch, or "again". */
  String latestOffset(String stream, String start);

  /** Answers the ranges of a batch with the executor of each, or "again". */
  String plan(String stream, String start, String end, String batchId);

  /** Reports that Spark is done with everything up to this offset. */
  String commit(String stream, String end);

  /** Answers metrics for the query's progress, as strings by name. */
  String metrics(String stream, String consumed);

  /** Makes the stream end after the entries that exist now. */
  String prepareAvailableNow(String stream);

  /** Reports that the stream has ended. */
  String stop(String stream);

  /** Answers a plan for a batch read. */
  String batch(String options);

  /** Reports that the JVM shuts down. Answers when the fleet has stopped. */
  String jvmEnds();
}
