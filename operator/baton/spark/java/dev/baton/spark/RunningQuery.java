package dev.baton.spark;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.OneTimeTrigger$;
import org.apache.spark.sql.execution.streaming.checkpointing.HDFSMetadataLog;
import org.apache.spark.sql.execution.streaming.runtime.AsyncProgressTrackingMicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink;
import scala.collection.Iterator;

/** The query that a stream is part of. A source is given the options of load() only; Spark's list of running queries has the rest. */
final class RunningQuery {
  private RunningQuery() {}

  /** The query whose thread this is; null where it is none's. */
  static StreamExecution ofThisThread() {
    String id = BatonStream.local("sql.streaming.queryId");
    return id.isEmpty() ? null : SparkSession.active().sharedState().activeStreamingQueries().get(UUID.fromString(id));
  }

  /**
   * Its id, whether it writes its logs late, whether it has one batch only, and how many sources it has. Of one that writes files also
   * the last batch that it has begun, and the last one that is there: those Spark's sink skips. -1: none. For the query's thread.
   */
  static Map<String, Object> facts(StreamExecution query) {
    Map<String, Object> found = new HashMap<>();
    found.put("id", BatonStream.local("sql.streaming.queryId"));
    found.put("asyncProgress", query instanceof AsyncProgressTrackingMicroBatchExecution);
    found.put("once", query != null && query.trigger() == OneTimeTrigger$.MODULE$);
    found.put("sources", query == null ? 1 : sources(query.analyzedPlan()));
    if (query != null && query.sink() instanceof FileStreamSink files) {
      found.put("batch", latest(query.offsetLog()));
      found.put("batchOfFiles", latest((HDFSMetadataLog<?>) field(files, "fileLog")));
    }
    return found;
  }

  private static long latest(HDFSMetadataLog<?> log) {
    return log.getLatestBatchId().isEmpty() ? -1 : ((Number) log.getLatestBatchId().get()).longValue();
  }

  private static int sources(LogicalPlan plan) {
    int count = 0;
    for (Iterator<LogicalPlan> leaves = plan.collectLeaves().iterator(); leaves.hasNext(); ) {
      if (leaves.next().isStreaming()) count++;
    }
    return count;
  }

  /** What belongs to the sink, which Spark does not show. */
  static Object field(FileStreamSink sink, String name) {
    try {
      Field found = FileStreamSink.class.getDeclaredField(name);
      found.setAccessible(true);
      return found.get(sink);
    } catch (ReflectiveOperationException another) {
      throw new IllegalStateException("This is another Spark than Baton was built for", another);
    }
  }
}
