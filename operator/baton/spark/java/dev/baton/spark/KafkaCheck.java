package dev.baton.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/**
 * Checks who may read a range, by the partition's owner record, which is the metadata of the group's offset (record.py).
 *
 * <p>Kafka rejects no reader, so the record is read, and rows may go out for a second afterwards. Readers are not recorded: two
 * attempts of a task may both read, unless the earlier one was the owner's and the partition was granted to another member.
 */
final class KafkaCheck {
  /** Nanoseconds after which a check is old. */
  private static final long OLD = TimeUnit.SECONDS.toNanos(1);

  private final Range range;
  private final String topic;
  private final long query;
  private final Reader reader;
  private long checked;
  private boolean never = true;
  /** Before the first check, and for a range without messages, the reader's claim counts. */
  private boolean owner;

  /** @param topic id of the range's topic */
  KafkaCheck(Range range, String topic, Reader reader) {
    this.range = range;
    this.topic = topic;
    this.query = range.planned().value().query();
    this.reader = reader;
    this.owner = !reader.uid().isEmpty();
  }

  /** Whether to check again. */
  boolean old() {
    return query != 0 && (never || System.nanoTime() - checked > OLD);
  }

  /** Whether the reader is not the owner, by the last check. */
  boolean lent() {
    return query != 0 && !owner;
  }

  /** Checks the group's offset, which was requested at this time (System.nanoTime). Throws RefusedException. */
  void pass(OffsetAndMetadata committed, long when) throws RefusedException {
    JsonNode record = record(committed);
    if (!record.path("topic").asText(topic).equals(topic)) {
      throw refused("GONE", " is of a topic that was deleted and recreated");
    }
    long latest = record.path("query").asLong();
    if (latest > query) {
      String later = " now belongs to query " + latest + ", which another driver, a later start or baton offsets reset "
          + "has begun: this is " + query;
      throw refused("QUERY", later);
    }
    if (latest < query) throw refused("UNLOGGED", " must not be read any more: a pod reads it singly, or the group was reset");
    owner = record.path("uid").asText().equals(reader.uid()) && record.path("epoch").asLong() == reader.epoch();
    boolean first = reader.task().attemptNumber() == 0 && reader.task().stageAttemptNumber() == 0;
    if (!owner && first && !reader.uid().isEmpty()) {
      throw refused("STALE", " was granted to another member: the next attempt of this task borrows it");
    }
    checked = when;
    never = false;
  }

  private RefusedException refused(String code, String why) {
    return new RefusedException(code, range.named() + why);
  }

  /** Returns the owner record; empty if it is missing. C clients append a NUL. */
  private static JsonNode record(OffsetAndMetadata committed) {
    if (committed != null) {
      try {
        JsonNode found = Group.JSON.readTree(committed.metadata().split("\0", 2)[0]);
        if (found.isObject()) return found;
      } catch (JsonProcessingException other) {
        // metadata of another program
      }
    }
    return Group.JSON.createObjectNode();
  }
}
