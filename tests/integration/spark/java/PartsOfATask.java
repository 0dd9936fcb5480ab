package dev.baton.spark;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.spark.TaskKilledException;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.types.StructType;
import scala.reflect.ClassTag$;

/** What no query shows in a test's time: prints a line for each part that does as it should. */
public final class PartsOfATask {
  private static final String SERVER = "{\"mode\": \"single\", \"nodes\": [\"127.0.0.1:1\"], \"password\": \"%s\"}";
  private static final String TOPIC =
      "{\"topic\": \"%s\", \"topicId\": \"id\", \"group\": \"group\", \"servers\": \"127.0.0.1:1\", \"protocol\": \"PLAINTEXT\"}";

  public static void main(String[] arguments) throws Exception {
    aPlaceIsKnownWhateverItsPassword();
    anEarlierAnswerMakesNoLaterOneOld();
    fewConsumersAreKept();
    whatEndsReadingIsReported();
    threadsThatComeAndGoCallPythonFromFew();
  }

  /** py4j keeps a connection for each thread that ever called. */
  private static void threadsThatComeAndGoCallPythonFromFew() throws Exception {
    Set<Thread> callers = ConcurrentHashMap.newKeySet();
    RuntimeException why = new IllegalStateException("of Python");
    for (int nth = 0; nth < 20; nth++) {
      Thread query = new Thread(() -> {
        Thread.currentThread().interrupt(); // by query.stop()
        callers.add(Group.call(Thread::currentThread));
        require(Thread.interrupted(), "it hears of the interrupt behind the call");
        try {
          Group.call(() -> { throw why; });
        } catch (RuntimeException thrown) {
          callers.add(thrown == why ? callers.iterator().next() : Thread.currentThread());
        }
      });
      query.start();
      query.join();
    }
    require(callers.size() < 5, "a thread that has just answered may not be free yet, but those before it are: " + callers);
    System.out.println("threads that come and go call Python from few that stay");
  }

  private static void aPlaceIsKnownWhateverItsPassword() {
    String place = RedisConnections.to(SERVER.formatted("first")).address();
    require(RedisConnections.to(SERVER.formatted("changed")).address().equals(place), "also with another password");
    require(!place.contains("first"), "which is not told");
    System.out.println("a server that has answered is known by its address alone");
  }

  private static void anEarlierAnswerMakesNoLaterOneOld() throws Exception {
    RedisCheck check = new RedisCheck(range(), new Reader("uid", 1, "0.0", 1, "app/1", null));
    Object passed = List.of("OK".getBytes(), "owner".getBytes());
    long now = System.nanoTime();
    check.passed(passed, now - TimeUnit.MINUTES.toNanos(1));
    require(check.old(), "what was asked a minute ago is old");
    check.passed(passed, now + TimeUnit.MINUTES.toNanos(1)); // a test's machine may be slow
    check.passed(passed, now - TimeUnit.MINUTES.toNanos(1));
    require(!check.old(), "the page's check, which was asked before, does not count instead");
    System.out.println("the latest check counts");
  }

  private static void fewConsumersAreKept() throws Exception {
    int most = 32, taken = 40;
    List<KafkaConsumers> topics = List.of(new KafkaConsumers(TOPIC.formatted("orders")), new KafkaConsumers(TOPIC.formatted("bills")));
    List<KafkaConsumers.PartitionConsumer> used = new ArrayList<>();
    for (int nth = 0; nth < taken; nth++) used.add(topics.get(nth % 2).take(nth, 0)); // a partition each
    require(consumers() == taken, "tasks have as many as they read partitions");
    for (int nth = 0; nth < taken; nth++) topics.get(nth % 2).giveBack(used.get(nth), nth);
    require(consumers() <= most, "of those that nobody uses, 32 are open, of all topics together");
    require(topics.get(1).take(taken - 1, taken - 1) == used.get(taken - 1), "the last one that was given back is among them");
    require(topics.get(0).take(0, 0) != used.get(0), "the one that was free longest is not");
    System.out.println("an executor keeps 32 consumers at most");
  }

  private static void whatEndsReadingIsReported() throws Exception {
    RangeReports reports = new RangeReports();
    for (RuntimeException why : List.of(new IllegalStateException("a fault of ours"), new TaskKilledException("Spark wants no more"))) {
      try (RangeReader<Object> reader = new RangeReader<>(range(), reports, new Failing(why), new RedisRow(range(), new StructType()))) {
        reader.next();
        throw new AssertionError("it has nothing to read");
      } catch (RuntimeException thrown) {
        require(thrown == why, "Spark is told what it was");
      }
    }
    require(reports.value().size() == 1, "to be killed is no failure");
    require(reports.value().get(0).contains("\"how\":\"failed\""), "the batch's own work has not begun");
    System.out.println("what could not be read is reported as failed, whatever the reason");
  }

  private static Range range() {
    Broadcast<Range.Queue> planned = new Known(new Range.Queue("redis", 7, "{}", "", "", List.of(), ""));
    return new Range("orders", 0, 0, 9, "uid", 1, "1", "", 0, planned);
  }

  /** That are open in this process: Kafka's client registers each. */
  private static int consumers() throws JMException {
    return ManagementFactory.getPlatformMBeanServer().queryNames(new ObjectName("kafka.consumer:type=app-info,*"), null).size();
  }

  private static void require(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  /** Pages that cannot be read. */
  private record Failing(RuntimeException why) implements Pages<Object> {
    @Override
    public List<Object> next() {
      throw why;
    }

    @Override
    public void checkAgain() {}

    @Override
    public boolean lent() {
      return false;
    }

    @Override
    public void close() {}
  }

  private static final class Known extends Broadcast<Range.Queue> {
    private final Range.Queue value;

    Known(Range.Queue value) {
      super(1, ClassTag$.MODULE$.apply(Range.Queue.class));
      this.value = value;
    }

    @Override
    public Range.Queue getValue() {
      return value;
    }

    @Override
    public void doUnpersist(boolean blocking) {}

    @Override
    public void doDestroy(boolean blocking) {}
  }
}
