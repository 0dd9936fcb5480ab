package dev.baton.spark;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/**
 * Calls of this JVM to Python, from threads that stay: as many as calls were under way at a time. For each thread that ever called, py4j
 * keeps a connection and a thread of Python, also when it has ended; and each query has a thread of its own, as has each read by a
 * client of Spark Connect.
 */
final class PythonCalls {
  private static final AtomicInteger MADE = new AtomicInteger();
  private static final ExecutorService THREADS =
      new ThreadPoolExecutor(0, Integer.MAX_VALUE, Long.MAX_VALUE, TimeUnit.NANOSECONDS, new SynchronousQueue<>(), PythonCalls::thread);

  private PythonCalls() {}

  /** What the call answers, or throws. An interrupt does not end it: the caller hears of that behind it, as with a call of py4j. */
  static <T> T run(Supplier<T> call) {
    Future<T> answer = THREADS.submit(call::get);
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return answer.get();
        } catch (InterruptedException stopped) {
          interrupted = true;
        } catch (ExecutionException failed) {
          if (failed.getCause() instanceof RuntimeException why) throw why;
          throw new IllegalStateException(failed.getCause());
        }
      }
    } finally {
      if (interrupted) Thread.currentThread().interrupt();
    }
  }

  /** It has nothing of the thread that needs it first, such as that one's session of Spark. */
  private static Thread thread(Runnable work) {
    Thread made = new Thread(null, work, "baton-python-" + MADE.incrementAndGet(), 0, false);
    made.setDaemon(true);
    return made;
  }
}
