package dev.baton.spark;

import java.util.List;
import redis.clients.jedis.Connection;
import redis.clients.jedis.Protocol.Command;

/**
 * The entries of a range, in pages.
 *
 * <p>The queue's check of who reads travels behind each page. What it refuses it refuses for ever, and nothing of a range is removed
 * before it is refused: so a page with a check that passes was allowed when it was read. (No MULTI: a server that is full takes
 * none.) The next page is asked for before this one is worked on, and waits at the server until then. So a check may be old when its
 * page is worked on, above all in an executor that was stopped and wakes up: an old one is made again.
 */
final class RedisPages implements Pages<Object> {
  /** Bytes that a page should have, */
  private static final long WANTED = 2 << 20;
  /** and may have at most, for the next entries may be larger than those before. One entry may be larger than that. */
  private static final long MOST = 32 << 20;
  /** Entries up to this size are not told apart (`NOTED` in partition.lua). */
  private static final long SMALL = 1 << 12;
  private static final int GROWTH = 8;
  /** Which of a partition's keys (keys.py). */
  private static final int PROGRESS = 2;

  private final Range range;
  private final String stream;
  private final Check check;
  private final RedisConnections connections;
  private final Patience patience;
  private Connection connection;
  private String after;
  private int asked;
  private long askedAt;
  private int count = Integer.MAX_VALUE;
  private long most;
  private boolean atEnd;

  RedisPages(Range range, Reader reader) {
    this.range = range;
    this.stream = range.stream();
    this.check = new Check(range, reader);
    this.after = range.start() + "-0";
    this.atEnd = range.start() >= range.end();
    this.connections = RedisConnections.to(range.planned().value().server());
    this.patience = new Patience(reader.task(), connections);
  }

  @Override
  public boolean lent() {
    return check.lent();
  }

  /** As XRANGE answers them. */
  @Override
  public List<Object> next() throws RefusedException {
    if (atEnd) return List.of();
    List<Object> page = patience.until(this::attempt, this::again);
    atEnd = page.size() < asked;
    if (!page.isEmpty()) {
      Object last = page.get(page.size() - 1);
      after = RedisRow.text(last);
      atEnd |= RedisRow.number(last) >= range.end();
      resize(page);
    }
    if (!atEnd) patience.once(this::send, this::again);
    else if (check.needed() && !after.equals(range.end() + "-0")) throw gone();
    return page;
  }

  @Override
  public void checkAgain() throws RefusedException {
    if (check.old()) patience.until(this::attemptCheck, this::again);
  }

  /** Gives the connection back; one with an unread answer is of no use to others. */
  @Override
  public void close() {
    if (connection != null && atEnd) connection.close();
    else drop();
  }

  private List<Object> attempt() throws RefusedException {
    if (connection == null) send();
    List<Object> answers = connection.getMany(check.needed() ? 2 : 1);
    if (check.needed() && !check.passed(answers.get(1), askedAt)) {
      send();
      return attempt();
    }
    return Check.list(answers.get(0));
  }

  private void send() {
    if (connection == null) connection = connections.take(stream);
    if (most == 0) limit();
    asked = (int) Math.min(count, most);
    askedAt = System.nanoTime();
    connection.sendCommand(
        Command.XRANGE, stream, "(" + after, range.end() + "-0", "COUNT", Integer.toString(asked));
    if (check.needed()) connection.sendCommand(check.command());
    connection.getMany(0); // sends what is written, and reads nothing
  }

  /** On a connection of its own: on the other the next page may be on its way. */
  private Void attemptCheck() throws RefusedException {
    try (Connection other = connections.take(stream)) {
      long now;
      do {
        now = System.nanoTime();
        other.sendCommand(check.command());
      } while (!check.passed(other.getMany(1).get(0), now));
    }
    return null;
  }

  /** A range ends with an entry that is there, and nothing of it is removed before it is finished. */
  private RefusedException gone() {
    return new RefusedException(
        "GONE", range.named() + " is not there as it was: entries behind " + after + " were deleted at the server");
  }

  /** The queue knows how large its largest entry is, if that is large, and the range has no later ones: so much fits into a page. */
  private void limit() {
    connection.sendCommand(Command.HGET, range.keys().get(PROGRESS), "largest");
    most = Math.max(1, MOST / Math.max(SMALL, size(connection.getOne())));
  }

  /** 0 without a number. */
  private static long size(Object answer) {
    try {
      return Long.parseLong(Check.text(answer));
    } catch (NumberFormatException none) {
      return 0;
    }
  }

  /** How many entries are asked for next, by the sizes of these. */
  private void resize(List<Object> page) {
    long bytes = 0;
    for (Object entry : page) {
      for (Object field : Check.list(Check.list(entry).get(1))) bytes += ((byte[]) field).length;
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
}
