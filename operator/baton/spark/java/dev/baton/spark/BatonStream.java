package dev.baton.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.UUID;
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
import org.apache.spark.sql.streaming.StreamingQueryManager;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A query's stream. It passes each question of Spark's on to the decisions, and decides nothing. */
final class BatonStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final Logger LOG = LoggerFactory.getLogger(BatonStream.class);

  private final Group group;
  final String name;
  final StructType columns;
  private final StreamExecution query;
  private final Plans plans = new Plans();

  /** @param query null where it is none's */
  BatonStream(Group group, String name, StructType columns, StreamExecution query) {
    this.group = group;
    this.name = name;
    this.columns = columns;
    this.query = query;
    new DoneBatches(group, name, toString()).hear(query);
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

  /** The options' limits are the decisions' concern: Spark has none of its own. */
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
    return new TaskReader.Factory(columns, Receipts.of(name));
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

  /** Ends the stream even if no one listens any more: the query ends in any case. */
  @Override
  public void stop() {
    try {
      group.ask(decisions -> decisions.stop(name));
    } catch (RuntimeException failed) {
      LOG.info("Stream {} ended: {}", name, failed.getMessage());
    } finally {
      Receipts.end(name);
      WarmUp.end(name);
    }
  }

  @Override
  public String toString() {
    return "baton[" + name + "]";
  }

  /** A property that Spark gives the stream's thread; "" where it has none. */
  static String local(String property) {
    String value = SparkContext.getOrCreate().getLocalProperty(property);
    return value == null ? "" : value;
  }

  /** A position in all partitions, as the decisions wrote it. Two are equal if their texts are. */
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
   * Hears from Spark which batches of a stream are done, and tells the group's decisions: earlier than Spark tells the source itself,
   * which is a batch later. A progress comes after the commit log. (A listener in Python would fetch each of its fields by a call of
   * py4j.) Each session of an application has listeners of its own, so the stream adds it where its query is.
   */
  private static final class DoneBatches extends StreamingQueryListener {
    private final Group group;
    private final String stream;
    private final String description;
    private StreamingQueryManager heard;
    private UUID run;

    /** @param description of the stream, as a progress has it */
    DoneBatches(Group group, String stream, String description) {
      this.group = group;
      this.stream = stream;
      this.description = description;
    }

    /** From now on until the query ends, where the query is; null: nowhere. */
    void hear(StreamExecution query) {
      if (query == null) return;
      run = query.runId();
      heard = query.sparkSession().streams();
      heard.addListener(this);
    }

    @Override
    public void onQueryProgress(QueryProgressEvent event) {
      for (SourceProgress source : event.progress().sources()) {
        String end = source.endOffset();
        if (!description.equals(source.description()) || end == null || !end.startsWith("{")) continue;
        try {
          group.ask(decisions -> decisions.commit(stream, end));
        } catch (RuntimeException failed) {
          LOG.info("A batch of {} was not told to be done, and is a batch later: {}", stream, failed.getMessage());
        }
      }
    }

    @Override
    public void onQueryStarted(QueryStartedEvent event) {}

    /** Also of a query that failed before it had all of its sources: Spark closes none of them. */
    @Override
    public void onQueryTerminated(QueryTerminatedEvent event) {
      if (event.runId().equals(run)) heard.removeListener(this);
    }
  }
}
