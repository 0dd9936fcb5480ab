package dev.baton.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A query's stream. Passes each of Spark's questions on to the decisions. */
final class BatonStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final Logger LOG = LoggerFactory.getLogger(BatonStream.class);

  private final Group group;
  final String name;
  final StructType columns;
  private final StreamExecution query;
  private final Plans plans = new Plans();

  /** @param query the query of the stream; null if it has none */
  BatonStream(Group group, String name, StructType columns, StreamExecution query) {
    this.group = group;
    this.name = name;
    this.columns = columns;
    this.query = query;
    if (query != null) query.sparkSession().streams().addListener(new DoneBatches());
  }

  @Override
  public Offset initialOffset() {
    return new JsonOffset(group.await(decisions -> decisions.initialOffset(name)).toString());
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new JsonOffset(json);
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with a limit");
  }

  /** Ignores Spark's limit: the decisions read the limits from the options. */
  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return new JsonOffset(group.await(decisions -> decisions.latestOffset(name, start.json())).toString());
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    group.await(decisions -> decisions.prepareAvailableNow(name));
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    String batch = local("streaming.sql.batchId");
    InputPartition[] planned =
        plans.ranges(group.await(decisions -> decisions.plan(name, start.json(), end.json(), batch)));
    if (query != null) WarmUp.remember(name, query, planned);
    return planned;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new TaskReader.Factory(columns, RangeReports.of(name));
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    Map<String, String> found = new TreeMap<>();
    String json = consumed.map(Offset::json).orElse("{}");
    for (Map.Entry<String, JsonNode> one : group.ask(decisions -> decisions.metrics(name, json)).properties()) {
      found.put(one.getKey(), one.getValue().asText());
    }
    return found;
  }

  @Override
  public void commit(Offset end) {
    group.ask(decisions -> decisions.commit(name, end.json()));
  }

  /** Never throws, because the query ends even if the fleet does not answer any more. */
  @Override
  public void stop() {
    try {
      group.ask(decisions -> decisions.stop(name));
    } catch (RuntimeException failed) {
      LOG.info("Stream {} ended: {}", name, failed.getMessage());
    } finally {
      RangeReports.end(name);
      WarmUp.end(name);
    }
  }

  @Override
  public String toString() {
    return "baton[" + name + "]";
  }

  /** Returns a local property of this thread, set by Spark; "" if it is not set. */
  static String local(String property) {
    String value = SparkContext.getOrCreate().getLocalProperty(property);
    return value == null ? "" : value;
  }

  /** The decisions' JSON of an offset. Offsets are equal if their JSON is. */
  private static final class JsonOffset extends Offset {
    private final String json;

    JsonOffset(String json) {
      this.json = json;
    }

    @Override
    public String json() {
      return json;
    }
  }

  /**
   * Listens for finished batches of a stream, and reports them to the decisions one batch earlier than Spark's call of commit().
   * Spark sends a progress after it has written the commit log. (A listener in Python would need a py4j call for each field.) Each
   * session has its own listeners, so this one belongs to the query's session.
   */
  private final class DoneBatches extends StreamingQueryListener {
    @Override
    public void onQueryProgress(QueryProgressEvent event) {
      for (SourceProgress source : event.progress().sources()) {
        String end = source.endOffset();
        if (!BatonStream.this.toString().equals(source.description()) || end == null || !end.startsWith("{")) continue;
        try {
          group.ask(decisions -> decisions.commit(name, end));
        } catch (RuntimeException failed) {
          LOG.info("A finished batch of {} was not reported; the next batch will report it: {}", name, failed.getMessage());
        }
      }
    }

    @Override
    public void onQueryStarted(QueryStartedEvent event) {}

    /** Spark also sends this if a query fails before it has all its sources, and then does not stop them. */
    @Override
    public void onQueryTerminated(QueryTerminatedEvent event) {
      if (event.runId().equals(query.runId())) query.sparkSession().streams().removeListener(this);
    }
  }
}
