package dev.baton.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend;
import org.apache.spark.status.api.v1.ExecutorSummary;
import scala.jdk.javaapi.CollectionConverters;

/** Lists the executors that could be given a task now, in one call. */
public final class ExecutorList {
  private ExecutorList() {}

  /** Returns a JSON list with each executor's id, host, number of task slots, and the numbers of its running tasks. */
  public static String list(SparkContext context) {
    Set<String> active = new HashSet<>();
    if (context.schedulerBackend() instanceof CoarseGrainedSchedulerBackend backend) {
      // An executor whose connection is lost is excluded at once, long before Kubernetes reports its pod.
      CollectionConverters.asJava(backend.getExecutorIds()).forEach(id -> {
        if (backend.isExecutorActive(id)) active.add(id);
      });
    }
    Map<String, ArrayNode> tasks = tasks(context);
    ArrayNode found = Group.JSON.createArrayNode();
    for (ExecutorSummary one : CollectionConverters.asJava(context.statusStore().executorList(true))) {
      String address = one.hostPort();
      if (!active.contains(one.id()) || address.indexOf(':') < 0) continue; // its block manager has not registered yet
      found.addObject()
          .put("id", one.id())
          .put("host", address.substring(0, address.lastIndexOf(':')))
          .put("slots", one.maxTasks())
          .set("tasks", tasks.getOrDefault(one.id(), Group.JSON.createArrayNode()));
    }
    return found.toString();
  }

  /** The numbers of the running tasks of all jobs, by executor. */
  private static Map<String, ArrayNode> tasks(SparkContext context) {
    Map<String, ArrayNode> found = new HashMap<>();
    if (context.taskScheduler() instanceof TaskSchedulerImpl scheduler) {
      synchronized (scheduler) {
        CollectionConverters.asJava(scheduler.taskIdToExecutorId()).forEach(
            (task, executor) -> found.computeIfAbsent(executor, id -> Group.JSON.createArrayNode()).add((Long) (Object) task));
      }
    }
    return found;
  }
}
