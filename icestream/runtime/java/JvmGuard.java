package icestream;

import java.util.Map;

/**
 * Ends a JVM that has lost a thread because there was no memory, and finds jobs that nobody works on.
 *
 * <p>An OutOfMemoryError that a caller gets fails what that caller does, nothing else. One that nobody catches has ended a
 * thread: the one that accepts connections from Python, Spark's scheduler, or one that had just taken a message. Whoever waits
 * for it would wait for ever.
 */
public final class JvmGuard {
  /** As Spark's own code for this. */
  public static final int EXIT_CODE = 52;

  private static final String LOST = "icestream: a thread has ended for lack of memory, so this JVM ends: ";

  private JvmGuard() {}

  /** End the JVM when a thread ends with an error of the virtual machine. Other exceptions are printed, as before. */
  public static void install() {
    Thread.setDefaultUncaughtExceptionHandler(JvmGuard::handle);
  }

  private static void handle(Thread thread, Throwable error) {
    if (isFatal(error)) {
      try {
        System.err.println(LOST + thread.getName() + ": " + error);
      } finally {
        // No shutdown hooks: they start threads. What was being written is completed by the next start.
        Runtime.getRuntime().halt(EXIT_CODE);
      }
    }
    System.err.print("Exception in thread \"" + thread.getName() + "\" ");
    error.printStackTrace();
  }

  private static boolean isFatal(Throwable error) {
    return error instanceof OutOfMemoryError || error instanceof InternalError;
  }

  /**
   * Whether a thread waits for a Spark job and no thread of this JVM works on one. That is so for moments between two steps of a
   * job; if it lasts, a message about the job was lost.
   */
  public static boolean hasIdleJob() {
    boolean waits = false;
    for (Map.Entry<Thread, StackTraceElement[]> entry : Thread.getAllStackTraces().entrySet()) {
      boolean runs = entry.getKey().getState() == Thread.State.RUNNABLE;
      if (runs && isScheduling(entry.getKey().getName())) {
        return false;
      }
      for (StackTraceElement frame : entry.getValue()) {
        String type = frame.getClassName();
        if (type.equals("org.apache.spark.executor.Executor$TaskRunner")) {
          return false;
        }
        waits |= !runs && isWaiting(type, frame.getMethodName());
      }
    }
    return waits;
  }

  private static boolean isScheduling(String thread) {
    return thread.startsWith("dag-scheduler")
        || thread.startsWith("task-result-getter")
        || thread.startsWith("dispatcher-event-loop")
        || thread.startsWith("broadcast-exchange")
        || thread.startsWith("shuffle-exchange")
        || thread.startsWith("subquery");
  }

  private static boolean isWaiting(String type, String method) {
    return type.equals("org.apache.spark.scheduler.DAGScheduler") && method.equals("runJob")
        || type.equals("org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec");
  }
}
