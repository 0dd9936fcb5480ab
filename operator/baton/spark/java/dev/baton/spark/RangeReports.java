package dev.baton.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.spark.SparkContext;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;

/** Accumulates the reports of a stream's tasks, including failed ones: a JSON object for each range. */
public final class RangeReports extends AccumulatorV2<String, List<String>> {
  private static final long serialVersionUID = 1;
  private static final Map<String, RangeReports> BY_STREAM = new ConcurrentHashMap<>();

  /** A task adds reports while a heartbeat of its executor sends them. */
  private final Queue<String> reports = new ConcurrentLinkedQueue<>();

  /** Returns the reports of a stream. The accumulator has no name, because Spark's UI would show the reports of a named one. */
  static RangeReports of(String stream) {
    return BY_STREAM.computeIfAbsent(
        stream,
        name -> {
          RangeReports made = new RangeReports();
          made.register(SparkContext.getOrCreate(), Option.empty(), true);
          return made;
        });
  }

  /** Forgets the stream's reports. Those of finished batches have already been drained. */
  static void end(String stream) {
    BY_STREAM.remove(stream);
  }

  /** Returns the reports of a stream since the last call, as a JSON list. */
  public static String drain(String stream) {
    RangeReports found = BY_STREAM.get(stream);
    List<String> all = new ArrayList<>();
    if (found != null) {
      for (String one = found.reports.poll(); one != null; one = found.reports.poll()) all.add(one);
    }
    return "[" + String.join(",", all) + "]";
  }

  @Override
  public boolean isZero() {
    return reports.isEmpty();
  }

  @Override
  public AccumulatorV2<String, List<String>> copy() {
    RangeReports other = new RangeReports();
    other.reports.addAll(reports);
    return other;
  }

  @Override
  public void reset() {
    reports.clear();
  }

  @Override
  public void add(String report) {
    reports.add(report);
  }

  @Override
  public void merge(AccumulatorV2<String, List<String>> other) {
    reports.addAll(other.value());
  }

  @Override
  public List<String> value() {
    return new ArrayList<>(reports);
  }
}
