package dev.baton.spark;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Converts entries to rows. One row object serves all entries of a range, because Spark copies rows that it keeps.
 *
 * @param <E> the client library's type of an entry
 */
abstract class EntryRow<E> {
  /** Keys, values and headers can be null in Kafka, but not in Redis. */
  static final StructType SCHEMA =
      new StructType()
          .add("queue", DataTypes.StringType, false)
          .add("partition", DataTypes.IntegerType, false)
          .add("offset", DataTypes.LongType, false)
          .add("key", DataTypes.BinaryType, true)
          .add("value", DataTypes.BinaryType, true)
          .add("headers", DataTypes.createMapType(DataTypes.StringType, DataTypes.BinaryType, true), false)
          .add("timestamp", DataTypes.TimestampType, false)
          .add("epoch", DataTypes.LongType, false)
          .add("redelivered", DataTypes.BooleanType, false);

  protected final Range range;
  private final Object[] values;
  private final InternalRow row;
  private final int offset;
  private final int key;
  private final int value;
  private final int headers;
  private final int timestamp;
  private final int redelivered;
  private long bytes;

  EntryRow(Range range, StructType columns) {
    List<String> names = Arrays.asList(columns.fieldNames());
    this.range = range;
    this.values = new Object[names.size()];
    this.row = new GenericInternalRow(values);
    this.offset = names.indexOf("offset");
    this.key = names.indexOf("key");
    this.value = names.indexOf("value");
    this.headers = names.indexOf("headers");
    this.timestamp = names.indexOf("timestamp");
    this.redelivered = names.indexOf("redelivered");
    set(names.indexOf("queue"), UTF8String.fromString(range.queue()));
    set(names.indexOf("partition"), range.partition());
    set(names.indexOf("epoch"), range.epoch());
  }

  /** Reads the entry into the row. False if the entry is not one of Baton's. */
  abstract boolean read(E entry);

  InternalRow row() {
    return row;
  }

  /** Bytes of the keys, values and headers read so far. */
  long bytes() {
    return bytes;
  }

  /**
   * Fills the row.
   *
   * @param milliseconds since 1970
   * @param again whether the entry may have been handed out before
   * @param size bytes of key, value and headers
   * @param parsed the headers, called only if the column is selected
   */
  protected final void fill(
      long number,
      long milliseconds,
      boolean again,
      byte[] keyBytes,
      byte[] valueBytes,
      int size,
      Supplier<Map<UTF8String, byte[]>> parsed) {
    bytes += size;
    set(key, keyBytes);
    set(value, valueBytes);
    if (offset >= 0) values[offset] = number;
    if (timestamp >= 0) values[timestamp] = 1000 * milliseconds;
    if (redelivered >= 0) values[redelivered] = again;
    if (headers < 0) return;
    Map<UTF8String, byte[]> found = parsed.get();
    values[headers] =
        new ArrayBasedMapData(new GenericArrayData(found.keySet().toArray()), new GenericArrayData(found.values().toArray()));
  }

  private void set(int where, Object what) {
    if (where >= 0) values[where] = what;
  }
}
