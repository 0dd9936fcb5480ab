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
 * A group's decisions, with each answer checked: an error becomes one exception with its text. Python puts them here by py4j, while
 * the group's fleet runs in this driver.
 */
public final class Group {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, Decisions> BY_NAME = new ConcurrentHashMap<>();
  private static final Set<String> CLAIMED = ConcurrentHashMap.newKeySet();
  private static final int MOST_CHARACTERS = 500;
  private static final Logger LOG = LoggerFactory.getLogger(Group.class);
  private static final Map<String, Runnable> HOOKS = new ConcurrentHashMap<>();
  /** Spark's hooks are all run by one of 40, each of Hadoop's after those of a higher priority. */
  private static final int BEFORE_SPARK = 100;

  /**
   * They call Python, and stay: as many as calls were under way at a time. For each thread that ever called, py4j keeps a connection and
   * a thread of Python, also when it has ended; and each query has a thread of its own, as has each read by a client of Spark Connect.
   */
  private static final ExecutorService THREADS =
      new ThreadPoolExecutor(0, Integer.MAX_VALUE, Long.MAX_VALUE, TimeUnit.NANOSECONDS, new SynchronousQueue<>(), Group::thread);

  final String name;

  Group(String name) {
    this.name = name;
  }

  /** To be called before a fleet starts. False: another one of that group runs in this driver. */
  public static boolean claim(String group) {
    return CLAIMED.add(group);
  }

  /** The group's queries ask these decisions from now on. */
  public static void register(String group, Decisions decisions) {
    BY_NAME.put(group, decisions);
  }

  /** The fleet has stopped, or could not start. */
  public static void release(String group) {
    BY_NAME.remove(group);
    CLAIMED.remove(group);
  }

  /** Null where no fleet of that group runs. */
  static Decisions find(String group) {
    return BY_NAME.get(group);
  }

  /** The group that the options name. Throws IllegalArgumentException where that cannot be read. */
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

  /** Asks, and answers the JSON. Throws IllegalArgumentException with the text of an error. */
  JsonNode ask(Function<Decisions, String> question) {
    Decisions decisions = decisions();
    try {
      JsonNode answer = JSON.readTree(String.valueOf(called(() -> question.apply(decisions))));
      if (answer.hasNonNull("error")) throw new IllegalArgumentException(answer.get("error").asText());
      return answer;
    } catch (Py4JException failed) {
      throw new IllegalStateException(unanswered(failed.getMessage()));
    } catch (JsonProcessingException malformed) {
      throw new IllegalStateException("The fleet of group " + name + " answered what is no JSON");
    }
  }

  /** As `ask`, until there is an answer that does not say <code>{"again": milliseconds}</code>. */
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

  /** What the call answers, or throws. An interrupt does not end it: the caller hears of that behind it, as with a call of py4j. */
  static <T> T called(Supplier<T> call) {
    try {
      return CompletableFuture.supplyAsync(call, THREADS).join();
    } catch (CompletionException failed) {
      throw failed.getCause() instanceof RuntimeException why ? why : failed;
    }
  }

  /** It has nothing of the thread that needs it first, such as that one's session of Spark. */
  private static Thread thread(Runnable work) {
    Thread made = new Thread(null, work, "baton-python", 0, false);
    made.setDaemon(true);
    return made;
  }

  static String text(Map<String, ?> values) {
    try {
      return JSON.writeValueAsString(values);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private Decisions decisions() {
    Decisions found = find(name);
    if (found != null) return found;
    String others = String.join(", ", new TreeSet<>(BY_NAME.keySet()));
    throw new IllegalArgumentException(
        "No fleet of group " + name + " runs in this driver" + (others.isEmpty() ? "" : ", but one of " + others)
            + ": the program that started the driver (with Spark Connect, the server) is to call fleet = baton.spark.Fleet("
            + "spark, group=\"" + name + "\", …) and fleet.start() before load()");
  }

  /** Python's own words are the last line of what py4j tells; the rest is its traceback. */
  private String unanswered(String words) {
    String last = words == null ? "" : words.strip();
    last = last.substring(last.lastIndexOf('\n') + 1).strip();
    if (last.length() > MOST_CHARACTERS) last = last.substring(0, MOST_CHARACTERS);
    return "The Python program that runs the fleet of group " + name + " does not answer: " + last;
  }

  /** From now on, as long as the group is registered. Spark waits for its fleet for so many seconds. */
  public static void stopBeforeSpark(String group, int seconds) {
    Runnable hook = () -> stopFleet(group);
    Runnable before = HOOKS.put(group, hook);
    if (before != null) ShutdownHookManager.get().removeShutdownHook(before);
    ShutdownHookManager.get().addShutdownHook(hook, BEFORE_SPARK, seconds, TimeUnit.SECONDS);
  }

  private static void stopFleet(String group) {
    if (Group.find(group) == null) return;
    Thread asking = new Thread(() -> askToStop(group), "baton-jvm-end");
    asking.setDaemon(true);
    asking.start();
    try {
      asking.join();
    } catch (InterruptedException late) { // all hooks have one thread: Spark's would never be run behind one that stays
      LOG.warn("The fleet of group {} has not stopped in time", group);
    }
  }

  private static void askToStop(String group) {
    try {
      new Group(group).ask(Decisions::jvmEnds);
    } catch (RuntimeException gone) { // Python has ended first
      LOG.info("The fleet of group {} has not said that it has stopped: {}", group, gone.getMessage());
    }
  }
}
