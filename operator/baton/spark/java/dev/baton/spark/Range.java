package dev.baton.spark;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.broadcast.Broadcast;

/**
 * One partition's part of a batch: its entries after <code>start</code> up to <code>end</code>, and their owner.
 *
 * @param executor Spark's id of the owner's executor; "" for none
 * @param location preferred location of the task, in Spark's format; "" for none
 * @param redeliveredTo entries up to this position may have been handed out before
 */
record Range(
    String queue,
    int partition,
    long start,
    long end,
    String uid,
    long epoch,
    String executor,
    String location,
    long redeliveredTo,
    Broadcast<Queue> planned)
    implements Serializable {

  /** The start of an error message. */
  String named() {
    return "Partition " + partition + " of queue " + queue + " up to " + end;
  }

  /** The partition's keys, in the order that scripts take them. */
  List<String> keys() {
    return planned.value().keys().stream().map(this::ofPartition).toList();
  }

  /** The key of the partition's entries. */
  String stream() {
    return ofPartition(planned.value().stream());
  }

  private String ofPartition(String key) {
    return key.replace(":#:", ":" + partition + ":");
  }

  /** The range without an owner, for a warm-up; if the queue has keys, of a partition that does not exist. */
  Range ofNoPartition() {
    int none = planned.value().keys().isEmpty() ? partition : -1;
    return new Range(queue, none, start, end, "", 0, "", "", 0, planned);
  }

  String[] preferredLocations() {
    return location.isEmpty() ? new String[0] : new String[] {location};
  }

  /**
   * What all ranges of a queue share. Never log it: the server's JSON contains a password.
   *
   * @param kind kind of queue
   * @param query number of the query; 0: nothing is fenced or recorded
   * @param server address and credentials, as JSON
   * @param script script of the check that follows each page; "" if this kind has none
   * @param keys keys of a partition, with # for its number
   * @param stream key of a partition's entries, with # for its number
   */
  record Queue(String kind, long query, String server, String script, String sha, List<String> keys, String stream)
      implements Serializable {
    @Override
    public String toString() {
      return "Queue[query " + query + "]";
    }
  }
}
