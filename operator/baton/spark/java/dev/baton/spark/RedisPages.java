package dev.baton.spark;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.Protocol.Command;
import redis.clients.jedis.exceptions.JedisDataException;

/**
 * The entries of a range, in pages.
 *
 * <p>Each page is one transaction: the queue's check of who reads, and the entries. So a page that was answered was allowed at
 * that moment. The next one is asked for before this one is worked on, and waits at the server until then.
 */
final class RedisPages implements AutoCloseable {
  /** Bytes that a page should have, */
  private static final long WANTED = 2 << 20;
  /** and may have at most if the next entries are larger than those before. One entry may be larger than that. */
  private static final long MOST = 32 << 20;
  /** Entries up to this size are not told apart (`grown` in partition.lua). */
  private static final long SMALL = 1 << 16;
  private static final int GROWTH = 8;

  private final Range range;
  private final PlannedQueue queue;
  private final Reader reader;
  private final RedisConnections connections;
  private final Patience patience;
  private Connection connection;
  private boolean wholeScript;
  private long after;
  private int asked;
  private int count = 1;
  private boolean atEnd;
  private boolean lent;

  RedisPages(Range range, Reader reader) {
    this.range = range;
    this.queue = range.planned().value();
    this.reader = reader;
    this.after = range.start();
    this.atEnd = range.start() >= range.end();
    this.connections = RedisConnections.to(queue.server());
    this.patience = new Patience(reader.task());
  }

  /** Whether another executor than the owner's reads. */
  boolean lent() {
    return lent;
  }

  /** The next entries, as XRANGE answers them, in a list that can be changed; null after the last. */
  List<Object> next() throws RefusedException {
    if (atEnd) {
      close();
      return null;
    }
    List<Object> page = patience.until(this::attempt, this::drop);
    atEnd = page.size() < asked;
    if (!page.isEmpty()) {
      after = EntryRow.number(page.get(page.size() - 1));
      atEnd |= after >= range.end();
      resize(page);
    }
    if (!atEnd) patience.once(this::send, this::drop);
    return page;
  }

  /** Gives the connection back; one with an answer that nobody has read is closed. */
  @Override
  public void close() {
    if (connection != null && !atEnd) connection.setBroken();
    drop();
    connections.close();
  }

  private List<Object> attempt() throws RefusedException {
    if (connection == null) send();
    List<Object> answers = connection.getMany(fenced() ? 5 : 1);
    if (!fenced()) return list(raised(answers.get(0)));
    List<Object> done = list(raised(answers.get(4), answers));
    if (done.get(0) instanceof JedisDataException failed && failed.getMessage().startsWith("NOSCRIPT")) {
      wholeScript = true;
      send();
      return attempt();
    }
    check(list(raised(done.get(0))));
    limit(list(raised(done.get(1))));
    return list(raised(done.get(2)));
  }

  private void send() {
    if (connection == null) connection = connections.take(range.stream());
    asked = count;
    if (fenced()) {
      connection.sendCommand(Command.MULTI);
      connection.sendCommand(reading());
      connection.sendCommand(Command.HMGET, range.keys().get(2), "largest", "largestBefore");
    }
    connection.sendCommand(
        Command.XRANGE, range.stream(), "(" + after + "-0", range.end() + "-0", "COUNT", Integer.toString(asked));
    if (fenced()) connection.sendCommand(Command.EXEC);
    connection.getMany(0); // sends what is written, and reads nothing
  }

  private CommandArguments reading() {
    CommandArguments arguments = new CommandArguments(wholeScript ? Command.EVAL : Command.EVALSHA);
    arguments.add(wholeScript ? queue.script() : queue.sha()).add(range.keys().size());
    range.keys().forEach(arguments::add);
    return arguments
        .add(queue.query()).add(reader.uid()).add(reader.epoch()).add(range.start()).add(range.end())
        .add(reader.evaluation()).add(reader.attempt()).add(reader.executor());
  }

  private boolean fenced() {
    return queue.query() != 0;
  }

  /** What the check says of this reader. */
  private void check(List<Object> answer) throws RefusedException {
    String code = word(answer, 0);
    if (code.equals("OK")) {
      lent = word(answer, 1).equals("lent");
      return;
    }
    String what = "Partition " + range.partition() + " of queue " + range.queue() + " up to " + range.end();
    throw new RefusedException(code, what + switch (code) {
      case "LENT" -> " is read by a later attempt of this task, in executor " + word(answer, 2) + ": this one ends";
      case "QUERY" -> " belongs to query " + word(answer, 1) + " now, which another driver or a later start has begun: this is "
          + queue.query();
      case "UNLOGGED" -> " is not to be read any more: its batch is done, or it was given up";
      default -> " is refused by the queue: " + code;
    });
  }

  /** The queue knows how large its largest entry is, if that is large: no page may be larger than there is room for. */
  private void limit(List<Object> sizes) {
    long largest = SMALL;
    for (Object size : sizes) {
      if (size != null) largest = Math.max(largest, Long.parseLong(text(size)));
    }
    most = Math.max(1, MOST / largest);
  }

  private long most = MOST / SMALL;

  /** How many entries are asked for next. */
  private void resize(List<Object> page) {
    long bytes = 0;
    for (Object entry : page) {
      for (Object field : list(list(entry).get(1))) bytes += ((byte[]) field).length;
    }
    long fit = WANTED * page.size() / Math.max(1, bytes);
    count = (int) Math.max(1, Math.min(Math.min(fit, most), (long) GROWTH * asked));
  }

  private void drop() {
    if (connection != null) connection.close();
    connection = null;
    connections.locate();
  }

  /** Throws the error that an answer is. Of a transaction that was not carried out, the reason is in an answer before. */
  private static Object raised(Object answer, List<Object> before) {
    if (answer instanceof JedisDataException) before.forEach(RedisPages::raised);
    return raised(answer);
  }

  private static Object raised(Object answer) {
    if (answer instanceof JedisDataException failed) throw failed;
    return answer;
  }

  @SuppressWarnings("unchecked")
  private static List<Object> list(Object answer) {
    return (List<Object>) answer;
  }

  private static String word(List<Object> answer, int place) {
    return place < answer.size() ? text(answer.get(place)) : "";
  }

  private static String text(Object word) {
    return word instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(word);
  }
}
