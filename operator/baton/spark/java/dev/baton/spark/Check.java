package dev.baton.spark;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol.Command;
import redis.clients.jedis.exceptions.JedisDataException;

/** The queue's check of who reads a range (script reading): what it is asked, and what its answers say. */
final class Check {
  /** Nanoseconds after which an answer is old. */
  private static final long OLD = TimeUnit.SECONDS.toNanos(1);

  private final Range range;
  private final List<String> keys;
  private final Range.Queue queue;
  private final Reader reader;
  private boolean wholeScript;
  private long asked;
  private boolean lent;

  Check(Range range, Reader reader) {
    this.range = range;
    this.keys = range.keys();
    this.queue = range.planned().value();
    this.reader = reader;
  }

  /** Whether there is anything to ask. */
  boolean needed() {
    return queue.query() != 0;
  }

  /** Whether another executor than the owner's reads, by the last answer. */
  boolean lent() {
    return lent;
  }

  /** Whether the last answer is of some time ago. */
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
   * Takes the answer to what was asked at this time (System.nanoTime). False: the server does not have the script, which is in the
   * next command. Throws RefusedException, and JedisDataException for an error of the server's.
   */
  boolean passed(Object answer, long when) throws RefusedException {
    wholeScript = answer instanceof JedisDataException failed && failed.getMessage().startsWith("NOSCRIPT");
    if (wholeScript) return false;
    List<Object> words = list(answer);
    String code = word(words, 0);
    if (!code.equals("OK")) throw new RefusedException(code, range.named() + why(code, words));
    lent = word(words, 1).equals("lent");
    asked = Math.max(asked, when);
    return true;
  }

  private String why(String code, List<Object> words) {
    return switch (code) {
      case "LENT" -> " is read by a later attempt of this task, in executor " + word(words, 2) + ": this one ends";
      case "QUERY" -> " belongs to query " + word(words, 1) + " now, which another driver or a later start has begun: this is "
          + queue.query();
      case "UNKNOWN" -> " is not there: the queue was deleted";
      case "UNLOGGED" -> " is not to be read any more: its batch is done, or it was given up";
      default -> " is refused by the queue: " + code;
    };
  }

  private static String word(List<Object> words, int place) {
    return place < words.size() ? text(words.get(place)) : "";
  }

  /** A list, as Jedis gives what a Redis answers. Throws the error that is there instead. */
  @SuppressWarnings("unchecked")
  static List<Object> list(Object answer) {
    if (answer instanceof JedisDataException failed) throw failed;
    return (List<Object>) answer;
  }

  static String text(Object word) {
    return word instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(word);
  }
}
