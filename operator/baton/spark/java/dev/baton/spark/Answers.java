package dev.baton.spark;

import java.nio.charset.StandardCharsets;
import java.util.List;
import redis.clients.jedis.exceptions.JedisDataException;

/** What a Redis answers, as Jedis gives it: byte arrays, Longs, lists of these, and errors in place of an answer. */
final class Answers {
  private Answers() {}

  /** A list. Throws the error that is there instead. */
  @SuppressWarnings("unchecked")
  static List<Object> list(Object answer) {
    if (answer instanceof JedisDataException failed) throw failed;
    return (List<Object>) answer;
  }

  static String text(Object word) {
    return word instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(word);
  }
}
