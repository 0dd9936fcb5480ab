package dev.baton.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.hadoop.util.ShutdownHookManager;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import py4j.Py4JException;

/**
 * Calls the decisions of a group's fleet, and throws errors in their answers as exceptions. Python registers the decisions here,
 * through py4j, while the fleet runs in this driver.
 */
public final class Group {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, Decisions> BY_NAME = new ConcurrentHashMap<>();
  private static final Set<String> CLAIMED = ConcurrentHashMap.newKeySet();
  private static final int MOST_CHARACTERS = 500;
  private static final Logger LOG = LoggerFactory.getLogger(Group.class);
  private static final Map<String, Runnable> HOOKS = new ConcurrentHashMap<>();
  /** Spark runs its shutdown hooks in one hook of Hadoop, with priority 40. Hooks with a higher priority run first. */
  private static final int BEFORE_SPARK = 100;

  /**
   * Threads that call Python. They never end, and there are as many as there were concurrent calls. py4j keeps a connection and a
   * Python thread for every thread that ever called, even after it has ended, and each query and each read by a client of Spark
   * Connect has a new thread.
   */
  private static final ExecutorService THREADS =
      new ThreadPoolExecutor(0, Integer.MAX_VALUE, Long.MAX_VALUE, TimeUnit.NANOSECONDS, new SynchronousQueue<>(), Group::thread);

  final String name;

  Group(String name) {
    this.name = name;
  }

  /** Claims the group before its fleet starts. False if another fleet of the group runs in this driver. */
  public static boolean claim(String group) {
    return CLAIMED.add(group);
  }

  /** Makes the group's queries use these decisions. */
  public static void register(String group, Decisions decisions) {
    BY_NAME.put(group, decisions);
  }

  /** Releases the group after its fleet has stopped, or could not start. */
  public static void release(String group) {
    BY_NAME.remove(group);
    CLAIMED.remove(group);
  }

  /** Returns the group that the options name. Throws IllegalArgumentException if none is named, or no fleet of it runs. */
  static Group of(CaseInsensitiveStringMap options) {
    String name = options.get("group");
    if (name == null || name.isBlank()) {
      throw new IllegalArgumentException(
          "format(\"baton\") needs the option group, the ConsumerGroup's name: .option(\"group\", \"orders\")");
    }
    Group group = new Group(name);
    group.decisions();
    return group;
  }

  /** Asks a question, and returns the answer's JSON. Throws IllegalArgumentException with the text of an error. */
  JsonNode ask(Function<Decisions, String> question) {
    Decisions decisions = decisions();
    try {
      JsonNode answer = JSON.readTree(String.valueOf(call(() -> question.apply(decisions))));
      if (answer.hasNonNull("error")) throw new IllegalArgumentException(answer.get("error").asText());
      return answer;
    } catch (Py4JException failed) {
      throw new IllegalStateException(noAnswer(failed.getMessage()));
    } catch (JsonProcessingException malformed) {
      throw new IllegalStateException("The fleet of group " + name + " did not answer with JSON");
    }
  }

  /** Asks until the answer is not <code>{"again": milliseconds}</code>. */
  JsonNode await(Function<Decisions, String> question) {
    while (true) {
      JsonNode answer = ask(question);
      if (!answer.has("again")) return answer;
      try {
        Thread.sleep(answer.get("again").asLong());
      } catch (InterruptedException stopped) {
        throw new UncheckedIOException(new InterruptedIOException("the query was stopped"));
      }
    }
  }

  /** Runs the call in one of THREADS. An interrupt does not end it; as with py4j, the caller sees the interrupt afterwards. */
  static <T> T call(Supplier<T> call) {
    try {
      return CompletableFuture.supplyAsync(call, THREADS).join();
    } catch (CompletionException failed) {
      throw failed.getCause() instanceof RuntimeException why ? why : failed;
    }
  }

  /** Creates a thread that inherits nothing from its creator, such as the session of Spark. */
  private static Thread thread(Runnable work) {
    Thread made = new Thread(null, work, "baton-python", 0, false);
    made.setDaemon(true);
    return made;
  }

  static String json(Map<String, ?> values) {
    try {
      return JSON.writeValueAsString(values);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** Parses a queue's server. */
  static JsonNode server(String json) {
    try {
      return JSON.readTree(json);
    } catch (JsonProcessingException malformed) {
      throw new IllegalArgumentException("A queue's server is not JSON"); // not logged, because it has a password
    }
  }

  private Decisions decisions() {
    Decisions found = BY_NAME.get(name);
    if (found != null) return found;
    String others = String.join(", ", new TreeSet<>(BY_NAME.keySet()));
    throw new IllegalArgumentException(
        "No fleet of group " + name + " runs in this driver" + (others.isEmpty() ? "" : ", but one of " + others)
            + ": the program that started the driver (with Spark Connect, the server) must call fleet = baton.spark.Fleet("
            + "spark, group=\"" + name + "\", …) and fleet.start() before load()");
  }

  /** Keeps the last line of py4j's message, which is Python's error; the rest is a traceback. */
  private String noAnswer(String message) {
    String last = message == null ? "" : message.strip();
    last = last.substring(last.lastIndexOf('\n') + 1).strip();
    if (last.length() > MOST_CHARACTERS) last = last.substring(0, MOST_CHARACTERS);
    return "The Python program that runs the fleet of group " + name + " does not answer: " + last;
  }

  /**
   * If this JVM shuts down while the group is registered, stops its fleet before Spark, which waits for at most `seconds`. In
   * cluster mode the JVM is the first process of the driver's pod: it gets the SIGTERM, Python does not, and Spark would cut off
   * the running batch.
   */
  public static void stopBeforeSpark(String group, int seconds) {
    Runnable hook = () -> stopFleet(group);
    Runnable before = HOOKS.put(group, hook);
    if (before != null) ShutdownHookManager.get().removeShutdownHook(before);
    ShutdownHookManager.get().addShutdownHook(hook, BEFORE_SPARK, seconds, TimeUnit.SECONDS);
  }

  private static void stopFleet(String group) {
    if (!BY_NAME.containsKey(group)) return;
    Thread asking = new Thread(() -> askToStop(group), "baton-jvm-end");
    asking.setDaemon(true);
    asking.start();
    try {
      asking.join();
    } catch (InterruptedException late) { // all hooks share one thread, so this one must return for Spark's to run
      LOG.warn("The fleet of group {} has not stopped in time", group);
    }
  }

  private static void askToStop(String group) {
    try {
      new Group(group).ask(Decisions::jvmEnds);
    } catch (RuntimeException gone) { // Python has already ended
      LOG.info("The fleet of group {} has not confirmed that it has stopped: {}", group, gone.getMessage());
    }
  }
}
