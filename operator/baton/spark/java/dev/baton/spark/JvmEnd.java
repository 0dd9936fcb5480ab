package dev.baton.spark;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.util.ShutdownHookManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stops a group's fleet before Spark, where this JVM is asked to end. In cluster mode it is the first process of the driver's pod:
 * the signal is sent to it, Python hears of none, and Spark would cut off the batch that runs.
 */
public final class JvmEnd {
  private static final Logger LOG = LoggerFactory.getLogger(JvmEnd.class);

  /** Spark's hooks are all run by one of 40, each of Hadoop's after those of a higher priority. */
  private static final int BEFORE_SPARK = 100;

  private static final Map<String, Runnable> HOOKS = new ConcurrentHashMap<>();

  private JvmEnd() {}

  /** From now on, as long as the group is registered. Spark waits for its fleet for so many seconds. */
  public static void stopsFirst(String group, int seconds) {
    Runnable hook = () -> stop(group);
    Runnable before = HOOKS.put(group, hook);
    if (before != null) ShutdownHookManager.get().removeShutdownHook(before);
    ShutdownHookManager.get().addShutdownHook(hook, BEFORE_SPARK, seconds, TimeUnit.SECONDS);
  }

  private static void stop(String group) {
    if (Group.find(group) == null) return;
    Thread asking = new Thread(() -> ask(group), "baton-jvm-end");
    asking.setDaemon(true);
    asking.start();
    try {
      asking.join();
    } catch (InterruptedException late) { // all hooks have one thread: Spark's would never be run behind one that stays
      LOG.warn("The fleet of group {} has not stopped in time", group);
    }
  }

  private static void ask(String group) {
    try {
      new Group(group).ask(Decisions::jvmEnds);
    } catch (RuntimeException gone) { // Python has ended first
      LOG.info("The fleet of group {} has not said that it has stopped: {}", group, gone.getMessage());
    }
  }
}
