package dev.baton.spark;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.broadcast.Broadcast;

/**
 * One partition's part of a batch: its entries after <code>start</code> up to <code>end</code>, and who owns them.
 *
 * @param executor Spark's number of the owner's executor; "" for none
 * @param location where Spark is to run the task, in its words; "" for anywhere
 * @param redeliveredTo entries up to here were handed out before
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

  /** For people. */
  String named() {
    return "Partition " + partition + " of queue " + queue + " up to " + end;
  }

  /** Of the partition, as every script takes them. */
  List<String> keys() {
    return planned.value().keys().stream().map(this::ofPartition).toList();
  }

  /** The key of its entries. */
  String stream() {
    return ofPartition(planned.value().stream());
  }

  private String ofPartition(String key) {
    return key.replace(":#:", ":" + partition + ":");
  }

  /** Of the same queue; of a partition that is not there, if the queue has keys. */
  Range ofNoPartition() {
    int none = planned.value().keys().isEmpty() ? partition : -1;
    return new Range(queue, none, start, end, "", 0, "", "", 0, planned);
  }

  String[] preferredLocations() {
    return location.isEmpty() ? new String[0] : new String[] {location};
  }

  /**
   * What all ranges of a queue have in common. Never printed: the server has a password in it.
   *
   * @param kind of queue, as its address says
   * @param query the number of the query; 0: nothing is fenced or recorded
   * @param server as JSON
   * @param script text of the check before each page; "" where the kind has none
   * @param keys of a partition, with # for its number; and <code>stream</code>, that of its entries
   */
  record Queue(String kind, long query, String server, String script, String sha, List<String> keys, String stream)
      implements Serializable {
    @Override
    public String toString() {
      return "Queue[query " + query + "]";
    }
  }
}
