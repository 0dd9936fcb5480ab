package dev.baton.spark;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

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
  /** Places that have answered this process: their address and password are right. */
  private static final Set<String> ANSWERED = ConcurrentHashMap.newKeySet();

  private final TaskContext task;
  private final Server server;

  Patience(TaskContext task, Server server) {
    this.task = task;
    this.server = server;
  }

  /** What is tried. */
  interface Attempt<T> {
    T run() throws RefusedException;
  }

  /** Who is asked. */
  interface Server {
    /** For people. */
    String name();

    /** Its addresses, without a password. */
    String place();

    /** Whether this is an error of the server, or on the way to it. */
    boolean mine(RuntimeException failed);

    /** Whether such an error may be over in a moment. */
    boolean passes(RuntimeException failed);
  }

  /** The answer of the attempt. Throws RefusedException when the patience is at its end, or the server refuses for good. */
  <T> T until(Attempt<T> attempt, Runnable drop) throws RefusedException {
    long began = System.nanoTime();
    boolean told = false;
    for (long pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      task.killTaskIfInterrupted();
      try {
        T answer = attempt.run();
        ANSWERED.add(server.place());
        return answer;
      } catch (RuntimeException failed) {
        if (!server.mine(failed)) throw failed;
        drop.run();
        if (!server.passes(failed)) throw new RefusedException("ERROR", server.name() + " refuses: " + words(failed));
        long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - began);
        if (seconds >= (ANSWERED.contains(server.place()) ? AWAY : NEVER_THERE)) {
          throw new RefusedException("AWAY", server.name() + " did not answer for " + seconds + " s: " + words(failed));
        }
        if (seconds >= TOLD && !told) {
          told = true;
          LOG.warn("{} is away, and is waited for: {}", server.name(), words(failed));
        }
      }
      sleep(pause);
    }
  }

  /** One try, of what is tried again later if it fails. */
  void once(Runnable attempt, Runnable drop) {
    try {
      attempt.run();
    } catch (RuntimeException failed) {
      if (!server.mine(failed)) throw failed;
      drop.run();
    }
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
