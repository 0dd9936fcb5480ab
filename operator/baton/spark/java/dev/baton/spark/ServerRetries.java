package dev.baton.spark;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Retries requests while a server is unreachable or fails over, with growing pauses, for up to ten minutes or until the task is
 * killed. For a server that has never answered this process, 30 seconds: its address may be wrong.
 */
final class ServerRetries {
  private static final Logger LOG = LoggerFactory.getLogger(ServerRetries.class);
  /** Seconds until a server that has answered before is given up. */
  private static final long AWAY = 600;
  /** Seconds until a server that has never answered is given up. */
  private static final long NEVER_ANSWERED = 30;
  /** Seconds until the executor's log has a warning. */
  private static final long WARN_AFTER = 5;
  /** Milliseconds. */
  private static final long FIRST_PAUSE = 20;
  private static final long LONGEST_PAUSE = 1000;
  /** Addresses of servers that have answered this process. */
  private static final Set<String> ANSWERED = ConcurrentHashMap.newKeySet();

  private final TaskContext task;
  private final Server server;

  ServerRetries(TaskContext task, Server server) {
    this.task = task;
    this.server = server;
  }

  /** A request. */
  interface Attempt<T> {
    T run() throws RefusedException;
  }

  /** The server that is asked. */
  interface Server {
    /** The name in messages. */
    String name();

    /** The server's addresses, without a password. */
    String address();

    /** Whether this is an error of the server, or of the connection to it. */
    boolean isServerError(RuntimeException failed);

    /** Whether such an error may soon be over. */
    boolean isTemporary(RuntimeException failed);
  }

  /**
   * Returns the answer. Calls `onFailure` after each failure. Throws RefusedException after the last, or if the error is
   * permanent.
   */
  <T> T retry(Attempt<T> attempt, Runnable onFailure) throws RefusedException {
    long began = System.nanoTime();
    boolean warned = false;
    for (long pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      task.killTaskIfInterrupted();
      try {
        T answer = attempt.run();
        ANSWERED.add(server.address());
        return answer;
      } catch (RuntimeException failed) {
        if (!server.isServerError(failed)) throw failed;
        onFailure.run();
        if (!server.isTemporary(failed)) throw new RefusedException("ERROR", server.name() + " refuses: " + message(failed));
        long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - began);
        if (seconds >= (ANSWERED.contains(server.address()) ? AWAY : NEVER_ANSWERED)) {
          throw new RefusedException("AWAY", server.name() + " did not answer for " + seconds + " s: " + message(failed));
        }
        if (seconds >= WARN_AFTER && !warned) {
          warned = true;
          LOG.warn("{} is unreachable; retrying: {}", server.name(), message(failed));
        }
      }
      sleep(pause);
    }
  }

  /** Tries once, and ignores errors of the server, because the caller retries later. */
  void tryOnce(Runnable attempt, Runnable onFailure) {
    try {
      attempt.run();
    } catch (RuntimeException failed) {
      if (!server.isServerError(failed)) throw failed;
      onFailure.run();
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

  private static String message(Throwable failed) {
    StringBuilder text = new StringBuilder(String.valueOf(failed.getMessage()));
    for (Throwable why = failed.getCause(); why != null; why = why.getCause()) {
      if (why.getMessage() != null && text.indexOf(why.getMessage()) < 0) text.append(": ").append(why.getMessage());
    }
    return text.substring(0, Math.min(text.length(), 300));
  }
}
