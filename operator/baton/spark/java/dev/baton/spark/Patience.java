package dev.baton.spark;

import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLHandshakeException;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import redis.clients.jedis.exceptions.JedisAccessControlException;
import redis.clients.jedis.exceptions.JedisBusyException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisRedirectionException;

/**
 * Tries again while a server is away or changes its place, with growing pauses: for ten minutes, or until the task is killed. A server
 * that has never answered this process gets half a minute, for its address may be wrong.
 */
final class Patience {
  private static final Logger LOG = LoggerFactory.getLogger(Patience.class);
  private static final long AWAY = 600;
  private static final long NEVER_THERE = 30;
  /** Seconds after which the executor's log has it. */
  private static final long TOLD = 5;
  private static final long FIRST_PAUSE = 20;
  private static final long LONGEST_PAUSE = 1000;
  /** What a server says that may serve in a moment, or another in its place. */
  private static final String[] PASSING = {
    "READONLY", "LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "ERR max number of clients"
  };

  private final TaskContext task;
  private final RedisConnections connections;

  Patience(TaskContext task, RedisConnections connections) {
    this.task = task;
    this.connections = connections;
  }

  /** What is tried. */
  interface Attempt<T> {
    T run() throws RefusedException;
  }

  /** The answer of the attempt. Throws RefusedException when the patience is at its end, or the server refuses for good. */
  <T> T until(Attempt<T> attempt, Runnable drop) throws RefusedException {
    long began = System.nanoTime();
    boolean told = false;
    for (long pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      task.killTaskIfInterrupted();
      try {
        T answer = attempt.run();
        connections.haveAnswered();
        return answer;
      } catch (JedisException failed) {
        drop.run();
        if (!passes(failed)) throw new RefusedException("ERROR", "Redis refuses: " + words(failed));
        long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - began);
        if (seconds >= (connections.everAnswered() ? AWAY : NEVER_THERE)) {
          throw new RefusedException("AWAY", "Redis did not answer for " + seconds + " s: " + words(failed));
        }
        if (seconds >= TOLD && !told) {
          told = true;
          LOG.warn("Redis is away, and is waited for: {}", words(failed));
        }
      }
      sleep(pause);
    }
  }

  /** One try, of what is tried again later if it fails. */
  void once(Runnable attempt, Runnable drop) {
    try {
      attempt.run();
    } catch (JedisException failed) {
      drop.run();
    }
  }

  private static boolean passes(JedisException failed) {
    if (failed instanceof JedisAccessControlException) return false;
    if (failed instanceof JedisRedirectionException || failed instanceof JedisBusyException) return true;
    for (Throwable why = failed; why != null; why = why.getCause()) {
      if (why instanceof SSLHandshakeException) return false;
    }
    if (!(failed instanceof JedisDataException)) return true;
    for (String word : PASSING) {
      if (failed.getMessage().startsWith(word)) return true;
    }
    return false;
  }

  private void sleep(long milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException killed) {
      Thread.currentThread().interrupt();
      task.killTaskIfInterrupted();
    }
  }

  private static String words(Throwable failed) {
    StringBuilder words = new StringBuilder(String.valueOf(failed.getMessage()));
    for (Throwable why = failed.getCause(); why != null; why = why.getCause()) {
      if (why.getMessage() != null && words.indexOf(why.getMessage()) < 0) words.append(": ").append(why.getMessage());
    }
    return words.substring(0, Math.min(words.length(), 300));
  }
}
