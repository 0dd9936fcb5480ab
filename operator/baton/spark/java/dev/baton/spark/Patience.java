package dev.baton.spark;

import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLHandshakeException;
import org.apache.spark.TaskContext;
import redis.clients.jedis.exceptions.JedisAccessControlException;
import redis.clients.jedis.exceptions.JedisBusyException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisRedirectionException;

/** Tries again while a server is away or changes its place: for half a minute, with growing pauses, or until the task is killed. */
final class Patience {
  private static final long SECONDS = 30;
  private static final long FIRST_PAUSE = 20;
  private static final long LONGEST_PAUSE = 1000;
  /** What a server says that may serve in a moment, or another in its place. */
  private static final String[] PASSING = {
    "READONLY", "LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "ERR max number of clients"
  };

  private final TaskContext task;

  Patience(TaskContext task) {
    this.task = task;
  }

  /** What is tried. */
  interface Attempt<T> {
    T run() throws RefusedException;
  }

  /** The answer of the attempt. Throws RefusedException when the patience is at its end, or the server refuses for good. */
  <T> T until(Attempt<T> attempt, Runnable drop) throws RefusedException {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
    for (long pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      task.killTaskIfInterrupted();
      try {
        return attempt.run();
      } catch (JedisException failed) {
        drop.run();
        if (!passes(failed)) throw new RefusedException("ERROR", "Redis refuses: " + words(failed));
        if (System.nanoTime() > deadline) {
          throw new RefusedException("AWAY", "Redis did not answer for " + SECONDS + " s: " + words(failed));
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
