package dev.baton.spark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Converts a stream's entries, as XRANGE returns them, to rows. */
final class RedisRow extends EntryRow<Object> {
  private static final byte[][] NAMES = {{'k'}, {'v'}, {'t'}, {'h'}};
  private static final int MOST_DIGITS = 16;
  private static final int UNLIMITED = Integer.MAX_VALUE; // producers limit the size of an entry
  private static final JsonFactory JSON =
      JsonFactory.builder()
          .streamReadConstraints(StreamReadConstraints.builder().maxNameLength(UNLIMITED).maxStringLength(UNLIMITED).build())
          .build();

  RedisRow(Range range, StructType columns) {
    super(range, columns);
  }

  /** False if no Baton producer wrote the entry (`ours` in partition.lua). */
  @Override
  boolean read(Object entry) {
    List<?> parts = (List<?>) entry;
    List<?> fields = (List<?>) parts.get(1);
    long number = ours((byte[]) parts.get(0));
    if (number < 0 || number > range.end() || !wellFormed(fields)) return false;
    byte[] packed = fields.size() == 8 ? (byte[]) fields.get(7) : null;
    byte[] key = (byte[]) fields.get(1);
    byte[] value = (byte[]) fields.get(3);
    byte[] time = (byte[]) fields.get(5);
    int size = key.length + value.length + (packed == null ? 0 : packed.length);
    boolean again = number <= range.redeliveredTo();
    fill(number, digits(time, time.length), again, key, value, size, () -> headers(packed));
    return true;
  }

  static String text(Object entry) {
    return new String((byte[]) ((List<?>) entry).get(0), StandardCharsets.US_ASCII);
  }

  /** The number before the dash of an entry's id. */
  static long number(Object entry) {
    byte[] id = (byte[]) ((List<?>) entry).get(0);
    int dash = 0;
    while (id[dash] != '-') dash++;
    return Long.parseUnsignedLong(new String(id, 0, dash, StandardCharsets.US_ASCII));
  }

  /** The n of an id `n-0`; -1 for other ids, which no Baton producer writes. */
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

  /** Parses the first <code>length</code> bytes as a number; -1 if they are not digits. */
  private static long digits(byte[] text, int length) {
    long number = length == 0 ? -1 : 0;
    for (int i = 0; i < length; i++) {
      if (text[i] < '0' || text[i] > '9') return -1;
      number = 10 * number + text[i] - '0';
    }
    return number;
  }

  /**
   * Parses an entry's headers: a JSON object of strings, with bytes encoded as ISO 8859-1 characters (headers.py). Returns no
   * headers for bytes that no Baton producer writes.
   */
  private static Map<UTF8String, byte[]> headers(byte[] packed) {
    if (packed == null || packed.length == 0) return Map.of();
    Map<UTF8String, byte[]> found = new LinkedHashMap<>();
    try (JsonParser parser = JSON.createParser(packed)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) return Map.of();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        UTF8String name = UTF8String.fromString(parser.currentName());
        if (parser.nextToken() != JsonToken.VALUE_STRING) return Map.of();
        String text = parser.getText();
        if (text.chars().anyMatch(character -> character > 255)) return Map.of();
        found.put(name, text.getBytes(StandardCharsets.ISO_8859_1));
      }
      if (parser.nextToken() != null) return Map.of();
    } catch (IOException malformed) {
      return Map.of();
    }
    return found;
  }
}
