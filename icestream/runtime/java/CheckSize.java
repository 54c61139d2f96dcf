package icestream;

import org.apache.spark.sql.api.java.UDF1;

/**
 * The function icestream_small(value): always TRUE. It fails a task whose records are so large that a batch of as many as usual
 * would not fit into memory. Spark's own limit in bytes measures a batch after every row, which costs more than reading it.
 */
public final class CheckSize implements UDF1<byte[], Boolean> {
  /** As spark.sql.execution.arrow.maxRecordsPerBatch. */
  private static final int RECORDS = 10_000;

  /** What a batch may come to. Spark does not free the memory of a batch that fails, so it must not be much. */
  private static final long BYTES = 128L << 20;

  private int records;
  private long bytes;

  @Override
  public Boolean call(byte[] value) {
    if (++records > RECORDS) {
      records = 1;
      bytes = 0;
    }
    bytes += value == null ? 0 : value.length;
    if (bytes > BYTES) {
      throw new LargeRecordsException();
    }
    return Boolean.TRUE;
  }

  /** Records are larger than expected. They are to be read with a limit in bytes. */
  public static final class LargeRecordsException extends RuntimeException {
    LargeRecordsException() {
      super("more than " + (BYTES >> 20) + " MB in a batch of records");
    }
  }
}
