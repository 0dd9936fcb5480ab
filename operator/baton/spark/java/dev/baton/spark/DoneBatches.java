package dev.baton.spark;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Hears from Spark which batches are done, and tells the group's decisions: earlier than Spark tells the source itself, which is a
 * batch later. A progress comes after the commit log. (A listener in Python would fetch each of its fields by a call of py4j.)
 */
public final class DoneBatches extends StreamingQueryListener {
  private static final Logger LOG = LoggerFactory.getLogger(DoneBatches.class);
  private static final Pattern OURS = Pattern.compile("baton\\[(.+)]");

  private final Group group;

  /** Of a group whose decisions are registered. To be added to a session, and removed from it with the fleet. */
  public DoneBatches(String group) {
    this.group = new Group(group);
  }

  @Override
  public void onQueryProgress(QueryProgressEvent event) {
    for (SourceProgress source : event.progress().sources()) {
      Matcher ours = OURS.matcher(source.description()); // BatonStream.toString
      String end = source.endOffset();
      if (!ours.matches() || end == null || !end.startsWith("{")) continue;
      try {
        group.ask(decisions -> decisions.commit(ours.group(1), end)); // streams of other groups are passed over
      } catch (RuntimeException failed) {
        LOG.info("A batch of {} was not told to be done, and is a batch later: {}", ours.group(1), failed.getMessage());
      }
    }
  }

  @Override
  public void onQueryStarted(QueryStartedEvent event) {}

  @Override
  public void onQueryTerminated(QueryTerminatedEvent event) {}
}
