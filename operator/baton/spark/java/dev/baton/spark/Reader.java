package dev.baton.spark;

import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/**
 * Who reads a range, as the queue's fence knows it.
 *
 * @param uid and <code>epoch</code>: the owner's, if this is the owner's executor; else "" and 0, and the range is borrowed
 * @param evaluation one task of one stage: two stages, or two tasks of a cartesian product, do not refuse each other
 * @param attempt grows with each try within an evaluation
 * @param executor application and executor
 * @param task the task, to end with it
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
