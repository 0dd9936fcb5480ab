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

/** Finds the query that a stream is part of. Spark gives a source only the options of load(), not the query. */
final class RunningQuery {
  private RunningQuery() {}

  /** Returns the query whose thread this is, or null. */
  static StreamExecution ofThisThread() {
    String id = BatonStream.local("sql.streaming.queryId");
    return id.isEmpty() ? null : SparkSession.active().sharedState().activeStreamingQueries().get(UUID.fromString(id));
  }

  /**
   * Returns the query's id, whether it uses asynchronous progress tracking or the trigger once, and its number of sources. For a
   * file sink also the last batch that the query has begun, and the last batch in the sink's folder, up to which the sink skips
   * batches; -1 for none. Call it on the query's thread.
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

  /** Reads a private field of the sink. */
  static Object field(FileStreamSink sink, String name) {
    try {
      Field found = FileStreamSink.class.getDeclaredField(name);
      found.setAccessible(true);
      return found.get(sink);
    } catch (ReflectiveOperationException another) {
      throw new IllegalStateException("Baton was built for another version of Spark", another);
    }
  }
}
