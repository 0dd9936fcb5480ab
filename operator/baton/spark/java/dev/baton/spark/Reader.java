package dev.baton.spark;

import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/**
 * A reader of a range, as the queue's fence identifies it.
 *
 * @param uid UID of the owner, if this is the owner's executor; else "", and the range is borrowed
 * @param epoch epoch of the owner's grant; 0 if the range is borrowed
 * @param evaluation stage and task partition, so that two stages, or two tasks of a cartesian product, do not reject each other
 * @param attempt number that grows with each attempt within an evaluation
 * @param executor application and executor
 * @param task the task
 */
record Reader(String uid, long epoch, String evaluation, long attempt, String executor, TaskContext task) {
  static Reader ofThisTask(Range range) {
    TaskContext task = TaskContext.get();
    String executor = SparkEnv.get().executorId();
    boolean owner = executor.equals(range.executor());
    return new Reader(
        owner ? range.uid() : "",
        owner ? range.epoch() : 0,
        task.stageId() + "." + task.partitionId(),
        task.taskAttemptId(),
        SparkEnv.get().conf().getAppId() + "/" + executor,
        task);
  }
}
