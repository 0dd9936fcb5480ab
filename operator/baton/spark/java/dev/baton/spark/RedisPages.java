package dev.baton.spark;

import java.nio.charset.StandardCharsets;
import java.util.List;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.Protocol.Command;
import redis.clients.jedis.exceptions.JedisDataException;

/**
 * The entries of a range, in pages.
 *
 * <p>The queue's check of who reads travels behind each page. What it refuses it refuses for ever, and nothing of a range is removed
 * before it is refused: so a page with a check that passes was allowed when it was read. (No MULTI: a server that is full takes
 * none.) The next page is asked for before this one is worked on, and waits at the server until then.
 */
final class RedisPages implements AutoCloseable {
  /** Bytes that a page should have, */
  private static final long WANTED = 2 << 20;
  /** and may have at most if the next entries are larger than those before. One entry may be larger than that. */
  private static final long MOST = 32 << 20;
  /** Entries up to this size are not told apart (`grown` in partition.lua). */
  private static final long SMALL = 1 << 16;
  private static final int GROWTH = 8;
  /** Which of a partition's keys (keys.py). */
  private static final int PROGRESS = 2;

  private final Range range;
  private final PlannedQueue queue;
  private final Reader reader;
  private final RedisConnections connections;
  private final Patience patience;
  private Connection connection;
  private boolean wholeScript;
  private String after;
  private int asked;
  private int count = 1;
  private long most = 1;
  private boolean atEnd;
  private boolean lent;
  private boolean closed;

  RedisPages(Range range, Reader reader) {
    this.range = range;
    this.queue = range.planned().value();
    this.reader = reader;
    this.after = range.start() + "-0";
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
    if (atEnd) return null;
    List<Object> page = patience.until(this::attempt, this::again);
    atEnd = page.size() < asked;
    if (!page.isEmpty()) {
      Object last = page.get(page.size() - 1);
      after = EntryRow.id(last);
      atEnd |= EntryRow.number(last) >= range.end();
      resize(page);
    }
    if (!atEnd) patience.once(this::send, this::again);
    else if (fenced() && !after.equals(range.end() + "-0")) throw gone();
    return page;
  }

  /** Gives the connection back; one with an answer that nobody has read is of no use to others. */
  @Override
  public void close() {
    if (closed) return;
    closed = true;
    if (connection != null && atEnd) connection.close();
    else drop();
    connections.close();
  }

  private List<Object> attempt() throws RefusedException {
    if (connection == null) send();
    List<Object> answers = connection.getMany(fenced() ? 3 : 2);
    if (fenced()) {
      if (answers.get(2) instanceof JedisDataException failed && failed.getMessage().startsWith("NOSCRIPT")) {
        wholeScript = true;
        send();
        return attempt();
      }
      wholeScript = false;
      check(list(raised(answers.get(2))));
    }
    limit(list(raised(answers.get(0))));
    return list(raised(answers.get(1)));
  }

  private void send() {
    if (connection == null) connection = connections.take(range.stream());
    asked = count;
    connection.sendCommand(Command.HMGET, range.keys().get(PROGRESS), "largest");
    connection.sendCommand(
        Command.XRANGE, range.stream(), "(" + after, range.end() + "-0", "COUNT", Integer.toString(asked));
    if (fenced()) connection.sendCommand(reading());
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
    throw new RefusedException(code, what() + switch (code) {
      case "LENT" -> " is read by a later attempt of this task, in executor " + word(answer, 2) + ": this one ends";
      case "QUERY" -> " belongs to query " + word(answer, 1) + " now, which another driver or a later start has begun: this is "
          + queue.query();
      case "UNKNOWN" -> " is not there: somebody deleted the queue";
      case "UNLOGGED" -> " is not to be read any more: its batch is done, or it was given up";
      default -> " is refused by the queue: " + code;
    });
  }

  /** A range ends with an entry that is there, and nothing of it is removed before it is finished. */
  private RefusedException gone() {
    return new RefusedException("GONE", what() + " is not there as it was: somebody deleted entries behind " + after + " at the server");
  }

  private String what() {
    return "Partition " + range.partition() + " of queue " + range.queue() + " up to " + range.end();
  }

  /** The queue knows how large its largest entry is, if that is large: no page may be larger than there is room for. */
  private void limit(List<Object> sizes) {
    long largest = SMALL;
    for (Object size : sizes) {
      if (size != null) largest = Math.max(largest, Long.parseLong(text(size)));
    }
    most = Math.max(1, MOST / largest);
  }

  /** How many entries are asked for next. */
  private void resize(List<Object> page) {
    long bytes = 0;
    for (Object entry : page) {
      for (Object field : list(list(entry).get(1))) bytes += ((byte[]) field).length;
    }
    long fit = WANTED * page.size() / Math.max(1, bytes);
    count = (int) Math.max(1, Math.min(Math.min(fit, most), (long) GROWTH * asked));
  }

  /** After a failure: the server may be another now. */
  private void again() {
    drop();
    connections.locate();
  }

  private void drop() {
    if (connection != null) {
      connection.setBroken();
      connection.close();
      connection = null;
    }
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
