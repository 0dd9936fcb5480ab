package dev.baton.spark;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** An entry as a row. One row serves all entries of a range, for Spark copies what it keeps. */
final class EntryRow {
  private static final byte[][] NAMES = {{'k'}, {'v'}, {'t'}, {'h'}};
  private static final int MOST_DIGITS = 16;

  private final Range range;
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

  InternalRow row() {
    return row;
  }

  /** Of the keys, values and headers so far. */
  long bytes() {
    return bytes;
  }

  /** Whether a producer of Baton's wrote the entry (`ours` in partition.lua); the row has it then. */
  boolean read(Object entry) {
    List<?> parts = (List<?>) entry;
    List<?> fields = (List<?>) parts.get(1);
    long number = ours((byte[]) parts.get(0));
    if (number < 0 || number > range.end() || !wellFormed(fields)) return false;
    byte[] packed = fields.size() == 8 ? (byte[]) fields.get(7) : null;
    byte[] keyBytes = (byte[]) fields.get(1);
    byte[] valueBytes = (byte[]) fields.get(3);
    bytes += keyBytes.length + valueBytes.length + (packed == null ? 0 : packed.length);
    set(key, keyBytes);
    set(value, valueBytes);
    if (offset >= 0) values[offset] = number;
    if (timestamp >= 0) values[timestamp] = 1000 * digits((byte[]) fields.get(5), ((byte[]) fields.get(5)).length);
    if (headers >= 0) values[headers] = Headers.unpack(packed);
    if (redelivered >= 0) values[redelivered] = number <= range.redeliveredTo();
    return true;
  }

  static String id(Object entry) {
    return new String((byte[]) ((List<?>) entry).get(0), StandardCharsets.US_ASCII);
  }

  /** The number in front of an id's dash. */
  static long number(Object entry) {
    byte[] id = (byte[]) ((List<?>) entry).get(0);
    int dash = 0;
    while (id[dash] != '-') dash++;
    return Long.parseUnsignedLong(new String(id, 0, dash, StandardCharsets.US_ASCII));
  }

  /** The n of `n-0`; -1 for an id that is no producer's of Baton's. */
  private static long ours(byte[] id) {
    int last = id.length - 1;
    return id[last] == '0' && id[last - 1] == '-' && last - 1 <= MOST_DIGITS ? digits(id, last - 1) : -1;
  }

  private static boolean wellFormed(List<?> fields) {
    if (fields.size() != 6 && fields.size() != 8) return false;
    for (int i = 0; i < fields.size(); i += 2) {
      if (!Arrays.equals((byte[]) fields.get(i), NAMES[i / 2])) return false;
    }
    byte[] time = (byte[]) fields.get(5);
    return time.length <= MOST_DIGITS && digits(time, time.length) >= 0;
  }

  /** A number of so many digits; -1 where that is none. */
  private static long digits(byte[] text, int length) {
    long number = length == 0 ? -1 : 0;
    for (int i = 0; i < length; i++) {
      if (text[i] < '0' || text[i] > '9') return -1;
      number = 10 * number + text[i] - '0';
    }
    return number;
  }

  private void set(int place, Object what) {
    if (place >= 0) values[place] = what;
  }
}
