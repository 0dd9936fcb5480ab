package dev.baton.spark;

import java.util.UUID;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Hears from Spark which batches of a stream are done, and tells the group's decisions: earlier than Spark tells the source itself,
 * which is a batch later. A progress comes after the commit log. (A listener in Python would fetch each of its fields by a call of
 * py4j.) Each session of an application has listeners of its own, so the stream adds it where its query is.
 */
final class DoneBatches extends StreamingQueryListener {
  private static final Logger LOG = LoggerFactory.getLogger(DoneBatches.class);

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
