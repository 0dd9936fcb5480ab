package dev.baton.spark;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Converts messages of a topic to rows. */
final class KafkaRow extends EntryRow<ConsumerRecord<byte[], byte[]>> {
  KafkaRow(Range range, StructType columns) {
    super(range, columns);
  }

  @Override
  boolean read(ConsumerRecord<byte[], byte[]> message) {
    int size = Math.max(0, message.serializedKeySize()) + Math.max(0, message.serializedValueSize());
    for (Header header : message.headers()) size += header.key().length() + length(header.value());
    boolean again = message.offset() < range.redeliveredTo();
    fill(message.offset(), message.timestamp(), again, message.key(), message.value(), size, () -> headers(message));
    return true;
  }

  /** If several headers have the same name, the last counts. */
  private static Map<UTF8String, byte[]> headers(ConsumerRecord<byte[], byte[]> message) {
    Map<UTF8String, byte[]> found = new LinkedHashMap<>();
    for (Header header : message.headers()) found.put(UTF8String.fromString(header.key()), header.value());
    return found;
  }

  private static int length(byte[] bytes) {
    return bytes == null ? 0 : bytes.length;
  }
}
