package dev.baton.spark;

import java.util.List;
import redis.clients.jedis.Connection;
import redis.clients.jedis.Protocol.Command;

/**
 * The entries of a range, in pages, from Redis.
 *
 * <p>The queue's check of the reader follows each page in the same pipeline. A rejected reader stays rejected, and no entry of a
 * range is removed before its readers are rejected, so if the check passes, reading the page was allowed. (Without MULTI, which a
 * Redis out of memory rejects.) The next page is requested before the rows of this page go out. So a check may be old when its
 * rows go out, most of all in an executor that was paused; then it is repeated.
 */
final class RedisPages implements Pages<Object> {
  /** Target bytes of a page. */
  private static final long WANTED = 2 << 20;
  /** Most bytes of a page, even if entries grow; a single entry may be larger. */
  private static final long MOST = 32 << 20;
  /** The queue records the largest entry's size only above this size (`NOTED` in partition.lua). */
  private static final long SMALL = 1 << 12;
  private static final int GROWTH = 8;
  /** Index of the key PROGRESS among a partition's keys (keys.py). */
  private static final int PROGRESS = 2;

  private final Range range;
  private final String stream;
  private final RedisCheck check;
  private final RedisConnections connections;
  private final ServerRetries retries;
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
    this.check = new RedisCheck(range, reader);
    this.after = range.start() + "-0";
    this.atEnd = range.start() >= range.end();
    this.connections = RedisConnections.to(range.planned().value().server());
    this.retries = new ServerRetries(reader.task(), connections);
  }

  @Override
  public boolean lent() {
    return check.lent();
  }

  /** Returns entries as XRANGE does. */
  @Override
  public List<Object> next() throws RefusedException {
    if (atEnd) return List.of();
    List<Object> page = retries.retry(this::attempt, this::reconnect);
    atEnd = page.size() < asked;
    if (!page.isEmpty()) {
      Object last = page.get(page.size() - 1);
      after = RedisRow.text(last);
      atEnd |= RedisRow.number(last) >= range.end();
      resize(page);
    }
    if (!atEnd) retries.tryOnce(this::send, this::reconnect);
    else if (check.needed() && !after.equals(range.end() + "-0")) throw gone();
    return page;
  }

  @Override
  public void checkAgain() throws RefusedException {
    if (check.old()) retries.retry(this::attemptCheck, this::reconnect);
  }

  /** Gives the connection back, or closes it if an answer is unread. */
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
    return RedisCheck.list(answers.get(0));
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

  /** Uses another connection, because the next page may be under way on the first. */
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

  /**
   * The error if entries are missing. A range ends with an existing entry, and none of its entries is removed before it is
   * finished.
   */
  private RefusedException gone() {
    return new RefusedException("GONE", range.named() + " has lost entries: those after " + after + " were deleted at the server");
  }

  /** Limits the entries of a page by the size of the queue's largest entry, which the queue records if it is large. */
  private void limit() {
    connection.sendCommand(Command.HGET, range.keys().get(PROGRESS), "largest");
    most = Math.max(1, MOST / Math.max(SMALL, size(connection.getOne())));
  }

  /** Parses a size; 0 if it is missing. */
  private static long size(Object answer) {
    try {
      return Long.parseLong(RedisCheck.text(answer));
    } catch (NumberFormatException none) {
      return 0;
    }
  }

  /** Chooses the number of entries to request next, by the sizes of these. */
  private void resize(List<Object> page) {
    long bytes = 0;
    for (Object entry : page) {
      for (Object field : RedisCheck.list(RedisCheck.list(entry).get(1))) bytes += ((byte[]) field).length;
    }
    long fit = WANTED * page.size() / Math.max(1, bytes);
    count = (int) Math.max(1, Math.min(Math.min(fit, most), (long) GROWTH * asked));
  }

  /** After a failure: another server may have the partition now. */
  private void reconnect() {
    drop();
    connections.refreshCluster();
  }

  private void drop() {
    if (connection != null) {
      connection.setBroken();
      connection.close();
      connection = null;
    }
  }
}
