package dev.baton.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;

/** What the tasks of a stream report of their ranges, also those that fail: JSON, one text for each range. */
public final class Receipts extends AccumulatorV2<String, List<String>> {
  private static final long serialVersionUID = 1;
  private static final Map<String, Receipts> BY_STREAM = new ConcurrentHashMap<>();

  private final List<String> reports = new ArrayList<>();

  /** Those of a stream. Without a name: Spark's pages would show all of them. */
  static Receipts of(String stream) {
    return BY_STREAM.computeIfAbsent(
        stream,
        name -> {
          Receipts made = new Receipts();
          made.register(SparkContext.getOrCreate(), Option.empty(), true);
          return made;
        });
  }

  /** The stream has ended. What was reported of batches that are done has been asked for; the rest is not. */
  static void end(String stream) {
    BY_STREAM.remove(stream);
  }

  /** The reports of a stream since the last time, as a JSON list. */
  public static String drain(String stream) {
    Receipts found = BY_STREAM.get(stream);
    if (found == null) return "[]";
    return found.drain();
  }

  private synchronized String drain() {
    String all = "[" + String.join(",", reports) + "]";
    reports.clear();
    return all;
  }

  @Override
  public synchronized boolean isZero() {
    return reports.isEmpty();
  }

  @Override
  public synchronized AccumulatorV2<String, List<String>> copy() {
    Receipts other = new Receipts();
    other.reports.addAll(reports);
    return other;
  }

  @Override
  public synchronized void reset() {
    reports.clear();
  }

  @Override
  public synchronized void add(String report) {
    reports.add(report);
  }

  @Override
  public void merge(AccumulatorV2<String, List<String>> other) {
    List<String> theirs = other.value();
    synchronized (this) {
      reports.addAll(theirs);
    }
  }

  @Override
  public synchronized List<String> value() {
    return new ArrayList<>(reports);
  }

  private synchronized void writeObject(java.io.ObjectOutputStream out) throws java.io.IOException {
    out.defaultWriteObject();
  }
}
