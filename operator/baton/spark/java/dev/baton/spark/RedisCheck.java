package dev.baton.spark;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol.Command;
import redis.clients.jedis.exceptions.JedisDataException;

/** Builds requests for the queue's check of a range's reader (script `reading`), and parses the answers. */
final class RedisCheck {
  /** Nanoseconds after which an answer is old. */
  private static final long OLD = TimeUnit.SECONDS.toNanos(1);

  private final Range range;
  private final List<String> keys;
  private final Range.Queue queue;
  private final Reader reader;
  private boolean wholeScript;
  private long asked;
  private boolean lent;

  RedisCheck(Range range, Reader reader) {
    this.range = range;
    this.keys = range.keys();
    this.queue = range.planned().value();
    this.reader = reader;
  }

  /** Whether the range is fenced. */
  boolean needed() {
    return queue.query() != 0;
  }

  /** Whether the reader is not the owner's executor, by the last answer. */
  boolean lent() {
    return lent;
  }

  /** Whether to check again. */
  boolean old() {
    return needed() && System.nanoTime() - asked > OLD;
  }

  CommandArguments command() {
    CommandArguments arguments = new CommandArguments(wholeScript ? Command.EVAL : Command.EVALSHA);
    arguments.add(wholeScript ? queue.script() : queue.sha()).add(keys.size());
    keys.forEach(arguments::add);
    return arguments
        .add(queue.query()).add(reader.uid()).add(reader.epoch()).add(range.start()).add(range.end())
        .add(reader.evaluation()).add(reader.attempt()).add(reader.executor());
  }

  /**
   * Takes the answer to a request of this time (System.nanoTime). False if the server does not have the script; the next command
   * contains it. Throws RefusedException, and JedisDataException for an error of the server.
   */
  boolean passed(Object answer, long when) throws RefusedException {
    wholeScript = answer instanceof JedisDataException failed && failed.getMessage().startsWith("NOSCRIPT");
    if (wholeScript) return false;
    List<Object> parts = list(answer);
    String code = part(parts, 0);
    if (!code.equals("OK")) throw new RefusedException(code, range.named() + why(code, parts));
    lent = part(parts, 1).equals("lent");
    asked = Math.max(asked, when);
    return true;
  }

  private String why(String code, List<Object> parts) {
    return switch (code) {
      case "LENT" -> " is read by a later attempt of this task, in executor " + part(parts, 2) + ": this attempt ends";
      case "QUERY" -> " now belongs to query " + part(parts, 1) + ", which another driver, a later start or baton offsets reset "
          + "has begun: this is " + queue.query();
      case "UNKNOWN" -> " does not exist: the queue was deleted";
      case "UNLOGGED" -> " must not be read any more: its batch is done or was given up";
      default -> " is rejected by the queue: " + code;
    };
  }

  private static String part(List<Object> parts, int place) {
    return place < parts.size() ? text(parts.get(place)) : "";
  }

  /** Casts an answer of Jedis to a list. Throws the error if the answer is one. */
  @SuppressWarnings("unchecked")
  static List<Object> list(Object answer) {
    if (answer instanceof JedisDataException failed) throw failed;
    return (List<Object>) answer;
  }

  static String text(Object part) {
    return part instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(part);
  }
}
