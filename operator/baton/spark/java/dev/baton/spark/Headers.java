package dev.baton.spark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.unsafe.types.UTF8String;

/** An entry's headers: a JSON object of texts, in which each byte is the character with its number (headers.py). */
final class Headers {
  private static final int ANY = Integer.MAX_VALUE; // the producer bounds an entry
  private static final JsonFactory JSON =
      JsonFactory.builder()
          .streamReadConstraints(StreamReadConstraints.builder().maxNameLength(ANY).maxStringLength(ANY).build())
          .build();

  private Headers() {}

  /** None for what no producer of Baton's wrote. */
  static Map<UTF8String, byte[]> unpack(byte[] packed) {
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
